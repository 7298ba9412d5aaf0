"""`models prepare squad`: SQuAD's dev set becomes MobileBERT's features, equal to the suite's."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.contracts.errors import UserError
from models.mobile.datasets import messages
from models.mobile.datasets.messages import serialized
from models.mobile.datasets.squad import records
from models.mobile.preparing.squad import (
    ARCHIVE,
    LENGTH,
    PIECES,
    QUESTIONS,
    STRIDE,
    VOCABULARY,
    best_windows,
    features,
    windows_of,
)
from models.mobile.preparing.tfrecord import crc32c, masked_checksum, write_records
from models.mobile.preparing.word_pieces import Vocabulary
from models.mobile.store import Store
from tests.support.published_sets import add_tasks, prepared, samples_of

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["who", "sleeps", "un", "##aff", "##able", "##a", "cafe", "the", "cat", "?", ".", ",", "'"]
LONG = 700
"""Words of a text that needs several windows."""


def vocabulary_text(pieces: Sequence[str] = (*SPECIAL, *WORDS)) -> bytes:
    """Return a vocabulary of MobileBERT's size that begins with these pieces."""
    filled = [*pieces, *(f"[unused{n}]" for n in range(PIECES - len(pieces)))]
    return ("\n".join(filled) + "\n").encode()


def document(*paragraphs: tuple[str, Sequence[str]]) -> dict[str, Any]:
    """Return a document of SQuAD v1.1 of texts with their questions."""
    made = []
    for at, (context, questions) in enumerate(paragraphs):
        asked = [
            {"id": f"{at}-{n}", "question": q, "answers": [{"text": "cat", "answer_start": 4}]}
            for n, q in enumerate(questions)
        ]
        made.append({"context": context, "qas": asked})
    return {"version": "1.1", "data": [{"title": "x", "paragraphs": made}]}


SMALL = document(
    ("The cat sleeps, unaffable.", ["Who sleeps?", "Café, who?"]),
    ("the cat " * (LONG // 2), ["who"]),
)
"""Two questions of a window each, and one of several."""
SMALL_FEATURES = 2 + 4


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / QUESTIONS).write_text(json.dumps(SMALL))
    (tmp_path / "set" / VOCABULARY).write_bytes(vocabulary_text())
    return tmp_path / "set"


# Word pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Unaffable", ["un", "##aff", "##able"]),
        ("unaffa", ["un", "##aff", "##a"]),
        ("unaffx", ["[UNK]"]),
        ("CAFÉ the.cat", ["cafe", "the", ".", "cat"]),
        ("\u200bcat's", ["cat", "'", "[UNK]"]),
        ("a" * 201, ["[UNK]"]),
        (" ", []),
    ],
)
def test_words_are_divided_into_the_longest_pieces(text: str, pieces: list[str]) -> None:
    assert Vocabulary(vocabulary_text()).pieces(text) == pieces


def test_a_vocabulary_is_numbered_by_its_lines() -> None:
    found = Vocabulary(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nto\xe2\x80\xa8p\ncat\n")
    assert (len(found), found.numbers(["[SEP]", "cat"])) == (6, [3, 5])


# Windows


def plain_windows(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """The algorithm as it is published, step by step: start and length of each window."""
    found, start = [], 0
    while start < length:
        size = min(length - start, room)
        found.append((start, size))
        if start + size == length:
            break
        start += min(size, stride)
    return found


def plain_best(windows: list[tuple[int, int]], place: int) -> int:
    scores = [
        (min(place - start, start + size - 1 - place) + 0.01 * size, -number)
        for number, (start, size) in enumerate(windows)
        if start <= place < start + size
    ]
    return -max(scores)[1]


def test_windows_are_those_of_the_published_algorithm() -> None:
    draw = random.Random(0)
    for _ in range(500):
        length, room, stride = draw.randrange(60), draw.randint(1, 20), draw.randint(1, 12)
        plain = plain_windows(length, room, stride)
        found = windows_of(length, room, stride)
        assert [(window.start, len(window)) for window in found] == plain
        best = best_windows(length, found)
        assert best == [plain_best(plain, place) for place in range(length)]


def test_a_long_text_has_several_features_which_share_a_question() -> None:
    found = list(features(SMALL, Vocabulary(vocabulary_text())))
    assert len(found) == SMALL_FEATURES
    long = found[2:]
    room = LENGTH - len(["[CLS]", "who", "[SEP]", "[SEP]"])
    assert [one["token_to_orig_map"][0] for one in long] == [0, STRIDE, 2 * STRIDE, 3 * STRIDE]
    assert [len(one["tokens"]) for one in long] == [*[LENGTH] * 3, LONG - 3 * STRIDE + 4]
    assert sum(sum(map(int, one["token_is_max_context"])) for one in long) == LONG
    assert len(long[0]["token_to_orig_map"]) == room
    assert [one["unique_ids"] for one in found] == [[10**9 + n] for n in range(SMALL_FEATURES)]
    last = long[-1]
    filled = LENGTH - len(last["tokens"])
    assert list(last["input_mask"]) == [1] * (LENGTH - filled) + [0] * filled
    assert list(last["segment_ids"]) == [0] * 3 + [1] * (LENGTH - filled - 3) + [0] * filled


def test_a_question_is_cut_off_after_64_tokens() -> None:
    asked = document(("the cat", ["who " * 100]))
    (found,) = features(asked, Vocabulary(vocabulary_text()))
    assert found["tokens"][64:67] == [b"who", b"[SEP]", b"the"]


# The suite's own features


@pytest.fixture(scope="module")
def suite_file() -> Path:
    folder = os.environ.get("BENCHFARM_TEST_DATA")
    file = Path(folder or "") / "mobile/squad_eval_mini.tfrecord"
    if not folder or not file.exists():
        pytest.skip("no features of the suite: set BENCHFARM_TEST_DATA to a folder with mobile/")
    return file


def test_features_equal_the_suite_s(suite_file: Path) -> None:
    """From texts and a vocabulary that are spelled by the suite's 100 features themselves.

    The longest match within the pieces that occur there is that within all, which contain them.
    """
    suite = [messages.example(record) for record in records(suite_file.read_bytes())]
    vocabulary = [f"[unused{n}]" for n in range(PIECES)]
    vocabulary[0], vocabulary[100] = "[PAD]", "[UNK]"
    texts: dict[str, list[dict[str, Any]]] = {}
    for feature in suite:
        tokens = [token.decode() for token in feature["tokens"]]
        for token, number in zip(tokens, feature["input_ids"], strict=False):
            vocabulary[number] = token
        first, word_of = tokens.index("[SEP]") + 1, feature["token_to_orig_map"]
        words = [""] * (word_of[-1] + 1)
        for word, piece in zip(word_of, tokens[first:], strict=False):
            words[word] += piece.removeprefix("##")
        question = " ".join(tokens[1 : first - 1]).replace(" ##", "")
        asked = {"id": feature["qas_id"][0].decode(), "question": question}
        texts.setdefault(" ".join(words), []).append(asked)
    paragraphs = [{"context": context, "qas": qas} for context, qas in texts.items()]
    made = features(
        {"data": [{"paragraphs": paragraphs}]}, Vocabulary("\n".join(vocabulary).encode())
    )
    assert [messages.example(serialized(feature)) for feature in made] == suite


def test_checksums_of_records_equal_the_suite_s(suite_file: Path, tmp_path: Path) -> None:
    content = list(records(suite_file.read_bytes()))
    assert write_records(tmp_path / "again", content) == len(content)
    ours, theirs = ((p.read_bytes()) for p in (tmp_path / "again", suite_file))
    assert zlib.decompress(ours) == zlib.decompress(theirs)


def test_a_record_is_framed_by_its_checksums(tmp_path: Path) -> None:
    assert crc32c(b"123456789") == 0xE3069283, "RFC 3720's algorithm, the usual check value"
    write_records(tmp_path / "file", [b"one", b""])
    framed = zlib.decompress((tmp_path / "file").read_bytes())
    head = struct.pack("<Q", 3)
    assert framed.startswith(head + masked_checksum(head) + b"one" + masked_checksum(b"one"))
    assert list(records((tmp_path / "file").read_bytes())) == [b"one", b""]


# The published set


def archive(folder: Path, **members: bytes) -> None:
    """Have MobileBERT's archive in place of the vocabulary."""
    (folder / VOCABULARY).unlink()
    with tarfile.open(folder / ARCHIVE, "w:gz") as packed:
        for name, content in {"model": b"weights", **members}.items():
            entry = tarfile.TarInfo(f"uncased/{name.replace('_', '.')}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("packed", [False, True])
def test_a_task_takes_what_is_made(store: Store, folder: Path, *, packed: bool) -> None:
    keys = add_tasks(store, "mobilebert", SMALL_FEATURES)
    if packed:
        archive(folder, vocab_txt=vocabulary_text())
    samples, truth = prepared(store, "squad", folder)
    assert samples.keys == tuple(f"{key}/samples" for key in keys)
    assert (samples.path, truth.path) == ("squad_eval.tfrecord", str(folder / QUESTIONS))
    found = samples_of(store, keys[0])
    assert len(found) == SMALL_FEATURES
    ids, mask, segments = found.inputs(1)
    vocabulary = [*SPECIAL, *WORDS]
    assert [vocabulary[n] for n in ids[:6]] == ["[CLS]", "cafe", ",", "who", "?", "[SEP]"]
    assert (ids.dtype.name, mask.sum(), segments.sum()) == ("int32", 15, 9)
    said = found.truth(1)
    assert said is not None
    assert said["words"] == ["The", "cat", "sleeps,", "unaffable."]
    assert (said["word_of"], said["answers"]) == ([0, 1, 2, 2, 3, 3, 3, 3], ["cat"])


def damaged_archive(folder: Path) -> None:
    archive(folder, vocab_txt=vocabulary_text())
    os.truncate(folder / ARCHIVE, 1000)


def linked_vocabulary(folder: Path) -> None:
    """A link in the archive to a file of this host is not followed."""
    (folder / VOCABULARY).rename(folder / "other")
    with tarfile.open(folder / ARCHIVE, "w:gz") as packed:
        entry = tarfile.TarInfo(f"uncased/{VOCABULARY}")
        entry.type, entry.linkname = tarfile.SYMTYPE, str(folder / "other")
        packed.addfile(entry)


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


SAID = json.dumps(SMALL).encode()
WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no questions": (without(QUESTIONS), r"it has no dev-v1\.1\.json\. Get it from https://raj"),
    "no vocabulary": (without(VOCABULARY), rf"it has no vocab\.txt or {ARCHIVE}\. Get it from "),
    "half of the questions": (write(QUESTIONS, SAID[: len(SAID) // 2]), r"dev-v1\.1\.json: .*JSON"),
    "a list": (write(QUESTIONS, b"[]"), r"dev-v1\.1\.json: .*Get the file again"),
    "a number for a text": (
        write(QUESTIONS, SAID.replace(b'"Who sleeps?"', b"7")),
        r"dev-v1\.1\.json: .*Get the file again",
    ),
    "fewer questions": (
        write(QUESTIONS, json.dumps(document(("the cat", ["who"]))).encode()),
        r"it has 1 samples, not .*6 of one/full, 6 of two/full",
    ),
    "a cased vocabulary": (
        write(VOCABULARY, b"\n".join(vocabulary_text().splitlines()[:28996])),
        r"vocab\.txt: it has 28996 word pieces, and MobileBERT's has 30522",
    ),
    "other pieces": (
        write(VOCABULARY, vocabulary_text().replace(b"[CLS]", b"[XXX]")),
        r"vocab\.txt: it lacks \[CLS\]",
    ),
    "no text": (write(VOCABULARY, b"\xff\xfe" * 99), r"vocab\.txt: .*codec can't decode"),
    "a vocabulary without end": (
        write(VOCABULARY, bytes(1 << 23)),
        r"vocab\.txt: it has more than 4194304 bytes",
    ),
    "an archive without it": (archive, rf"{ARCHIVE}: it has no vocab\.txt"),
    "a link in the archive": (linked_vocabulary, rf"{ARCHIVE}: it has no vocab\.txt"),
    "a damaged archive": (damaged_archive, rf"{ARCHIVE}: .*Get it again from https://storage"),
    "a bomb in the archive": (
        lambda folder: archive(folder, vocab_txt=bytes(1 << 24)),
        rf"{ARCHIVE}: vocab\.txt has 16777216 bytes",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_set_with_anything_wrong_is_refused_and_nothing_added(
    store: Store, folder: Path, wrong: str
) -> None:
    add_tasks(store, "mobilebert", SMALL_FEATURES)
    spoil, said = WRONG[wrong]
    spoil(folder)
    before = store.contents()
    with pytest.raises(UserError, match=said) as caught:
        prepared(store, "squad", folder)
    assert "\n" not in str(caught.value)
    assert store.contents() == before
