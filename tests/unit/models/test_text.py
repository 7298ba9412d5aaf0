"""Text of the host: its tokens, what a model is to predict of them, and what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.backends.torch_eager.backend import TorchEager
from agents.scenarios import data_loading, training
from agents.worker import failure_of
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.facts import undeclared
from controller.contracts.manifests import defaults_of
from controller.contracts.result import Blame
from models.bert import BertTraining
from models.images.errors import DataUnusable
from models.text.folder import TextSet, open_text
from models.text.loading import TextLoader, TextSettings
from models.text.vocabulary import Vocabulary
from models.text.wordpiece import WordPiece, words_of
from models.training import loader_of
from tests.support.cells import CATALOG
from tests.support.knobs import scenario_knobs, workload_arguments
from tests.support.text_sets import TEXT, VOCABULARY, write, write_tokens
from tests.support.workloads import losses_on_one_batch

IDS = {token: number for number, token in enumerate(VOCABULARY)}
SMALL: dict[str, Scalar] = {
    "layers": 1,
    "hidden_size": 64,
    "sequence_length": 16,
    "vocabulary_size": 40,
    "batch_size": 4,
    "optimizer": "adam",
}


def loader(source: TextSet, length: int = 16, size: int = 4, seed: int = 3) -> TextLoader:
    return TextLoader(source, TextSettings(length, size, seed))


@pytest.fixture
def small(tmp_path: Path) -> TextSet:
    write(tmp_path)
    return open_text("small", 40, tmp_path)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The FARMS", ["the", "farm", "##s"]),
        ("measured, queue.", ["measure", "##d", ",", "queue", "."]),
        ("Café", ["cafe"]),  # without its accent
        ("unknown phonez", ["un", "##known", "[UNK]"]),  # no part of it alone
        ("a\tfarm\n\x00farm", ["a", "farm", "farm"]),
        ("farm農farm", ["farm", "[UNK]", "farm"]),  # a Han character is a word
        ("x" * 201, ["[UNK]"]),
        ("", []),
    ],
    ids=str,
)
def test_text_becomes_the_longest_pieces_from_the_left(text: str, pieces: list[str]) -> None:
    vocabulary = Vocabulary({**IDS, "##d": len(IDS)})
    names = {number: token for token, number in vocabulary.ids.items()}
    found = [names[number] for number in WordPiece(vocabulary).ids(text)]
    assert found == pieces


def test_signs_are_words_of_their_own() -> None:
    assert list(words_of("it's 3.5€ – “so”")) == [
        *("it", "'", "s", "3", ".", "5€", "–", "“", "so", "”"),
    ]


def test_texts_follow_each_other_with_an_end_between(small: TextSet) -> None:
    tokens = small.tokens.tolist()
    one = list(WordPiece(small.vocabulary).ids(TEXT * 3))
    assert tokens == [*one, IDS["[SEP]"], *one]


def test_a_batch_is_the_text_with_some_of_it_hidden(tmp_path: Path) -> None:
    told = np.arange(5, 5 + 14 * 9) % 18 + 5  # no special token
    write_tokens(tmp_path, told)
    found = loader(open_text("tokens", 40, tmp_path))
    seen = []
    for step in range(2):
        (tokens, places), wanted = found.batch(step)
        assert tokens.shape == (4, 16)
        assert places.shape == wanted.shape == (4, 2), "15 % of 16"
        assert tokens[:, 0].tolist() == [IDS["[CLS]"]] * 4
        assert tokens[:, -1].tolist() == [IDS["[SEP]"]] * 4
        assert 1 <= int(places.min()) <= int(places.max()) <= 14
        whole = tokens.scatter(1, places, wanted)[:, 1:-1]
        seen += [tuple(row) for row in whole.tolist()]
    rows = [tuple(row) for row in told[: 14 * 9].reshape(9, 14).tolist()]
    assert len(set(seen)) == 8, "an epoch has each sequence once; the ninth fills no batch"
    assert set(seen) < set(rows)


def test_of_what_is_to_predict_80_percent_are_hidden_and_10_replaced(tmp_path: Path) -> None:
    write_tokens(tmp_path, np.full(4000 * 14, 9))
    (tokens, places), wanted = loader(open_text("tokens", 40, tmp_path), size=4000).batch(0)
    shown = tokens.gather(1, places)
    assert bool((wanted == 9).all())
    # Standard deviation of a share of 8000: 0.5 %.
    assert float((shown == IDS["[MASK]"]).float().mean()) == pytest.approx(0.8, abs=0.02)
    kept = float((shown == 9).float().mean())
    assert kept == pytest.approx(0.1 + 0.1 / len(VOCABULARY), abs=0.02)
    assert len(set(shown.flatten().tolist())) == len(VOCABULARY), "any token may replace one"


def test_ends_between_texts_are_predicted_only_where_there_is_too_little_else(
    tmp_path: Path,
) -> None:
    end = IDS["[SEP]"]
    write_tokens(tmp_path, np.tile([9, 9, 9, end], 350))
    (_, _), wanted = loader(open_text("tokens", 40, tmp_path), size=100).batch(0)
    assert bool((wanted == 9).all())
    write_tokens(tmp_path, np.tile([*[end] * 13, 9], 4), "short")
    (_, places), wanted = loader(open_text("short", 40, tmp_path)).batch(0)
    assert places.shape == (4, 2)
    assert bool(((wanted == 9).sum(1) == 1).all())


def test_a_byte_order_mark_is_no_part_of_a_token(tmp_path: Path) -> None:
    folder = write(tmp_path, vocabulary=("\ufeff[UNK]", *VOCABULARY[2:], "[PAD]"))
    assert open_text("small", 40, tmp_path).vocabulary["[UNK]"] == 0
    assert folder.joinpath("vocab.txt").read_bytes().startswith(b"\xef\xbb\xbf")


def test_a_batch_is_the_seeds_and_the_steps(small: TextSet) -> None:
    one, again, other = loader(small), loader(small), loader(small, seed=4)
    for step in (5, 0, 5):
        for mine, theirs in zip(one.batch(step)[0], again.batch(step)[0], strict=True):
            assert torch.equal(mine, theirs)
    assert not torch.equal(one.batch(0)[0][0], other.batch(0)[0][0])
    assert not torch.equal(one.batch(0)[0][0], one.batch(1)[0][0])
    assert undeclared(one.facts(), {}) == []


def bert(**given: Scalar) -> BertTraining:
    return BertTraining(**workload_arguments("bert", **{**SMALL, "data": "small", **given}))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's folder of data."""
    monkeypatch.setenv("BENCHFARM_DATA", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    return tmp_path


def test_bert_learns_from_a_text_and_says_what_it_waited_for(host: Path) -> None:
    write(host)
    losses = losses_on_one_batch(bert(), bert().build_model(), steps=25)
    assert losses[-1] < 0.9 * losses[0]
    stack = defaults_of(CATALOG.stacks["torch"].knobs)
    knobs = {**stack, **scenario_knobs("training", warmup_steps=1, steps=3)}
    result = training.run(bert(), TorchEager(stack), knobs, lambda _: None)
    assert len(result.metrics["load_wait"].samples) == 3
    facts = result.environment
    assert 0 < float(str(facts["load_share"])) < 1
    assert facts["data_sequences"] == int(str(facts["data_tokens"])) // 14
    knobs = {**stack, **scenario_knobs("data_loading", warmup_steps=1, steps=3)}
    alone = data_loading.run(bert(), TorchEager(stack), knobs, lambda _: None)
    assert alone.metrics["throughput"].value > 0


def test_random_tokens_are_in_memory(host: Path) -> None:
    workload = bert(data="synthetic")
    assert loader_of(workload) is None
    (tokens, _), _ = workload.batch(0)
    assert tokens.shape == (4, 16)
    assert list(host.iterdir()) == []


def test_ranks_do_not_share_a_text(host: Path) -> None:
    write(host)
    workload = bert()
    with pytest.raises(WorkerFault, match=r"by several ranks: .* Set ranks to 1") as raised:
        workload.share(workload.batch(0), 0, 2)
    assert raised.value.failure.blame is Blame.USER


def _text(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "text" / "1.txt").write_bytes(content)


def _vocabulary(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "vocab.txt").write_bytes(content)


def _as_pipe(name: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def _without_text(folder: Path) -> None:
    for path in (folder / "text").iterdir():
        path.unlink()


PLAIN = "".join(f"{token}\n" for token in VOCABULARY).encode()
WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no text": (_without_text, ": knob data: it has no text. Add one of: tokens.npy, text.txt"),
    "not UTF-8": (_text(b"a farm \xff"), "/text/1.txt: byte 7: it is not UTF-8 (invalid start"),
    "cut off": (_text("a café".encode()[:-1]), "/text/1.txt: byte 5: it is not UTF-8 (unexpected"),
    "a pipe": (_as_pipe("text/1.txt"), "/text/1.txt: file: it is no file"),
    "empty": (_text(b""), "/text/1.txt: file: it is empty"),
    "blank": (_text(b" \n\n"), "/text/1.txt: file: it is empty"),
    "twice": (
        lambda folder: (folder / "text.txt").write_bytes((folder / "text" / "1.txt").read_bytes()),
        ": knob data: it has text.txt and text/*.txt, which may hold the same text. Keep one",
    ),
    "no vocabulary": (
        lambda folder: (folder / "vocab.txt").unlink(),
        ": knob data: it has no vocabulary vocab.txt",
    ),
    "empty vocabulary": (_vocabulary(b""), "/vocab.txt: file: it is empty"),
    "vocabulary not UTF-8": (_vocabulary(b"a\n\xff\n"), "/vocab.txt: byte 2: it is not UTF-8"),
    "a token twice": (_vocabulary(PLAIN + b"farm\n"), "/vocab.txt: line 29: 'farm' is on line 8"),
    "a blank line": (_vocabulary(b"a\n\nb\n"), "/vocab.txt: line 2: it has no token"),
    "no mask": (_vocabulary(PLAIN.replace(b"[MASK]", b"mask")), "/vocab.txt: [MASK]: there is no"),
    "too many tokens": (
        _vocabulary(PLAIN + b"".join(b"more%d\n" % n for n in range(20))),
        "/vocab.txt: line 41: 48 tokens are more than vocabulary_size=40",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_one_line_with_file_and_field(host: Path, kind: str) -> None:
    change, said = WRONG[kind]
    folder = write(host)
    change(folder)
    with pytest.raises(DataUnusable) as raised:
        bert()
    failure = failure_of(raised.value)
    assert failure.blame is Blame.USER
    assert failure.message.startswith(f"cannot read {folder}{said}")
    assert "\n" not in failure.message


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([7] * 100 + [28], "tokens[100]: 28 is not one of 0 to 27, the ids of vocab.txt"),
        ([7, -1, 28], "tokens[1]: -1 is not one of 0 to 27"),
        ([1.5, 2.5], "file: its array is float64 [2], not one row of whole numbers"),
        ([[1, 2], [3, 4]], "file: its array is int64 [2, 2], not one row of whole numbers"),
        (["a"], "file: its array is <U1 [1], not one row of whole numbers"),
        ([7] * 30, "tokens: batch_size=4 is more than its 2 sequences of 16. Set batch_size"),
    ],
    ids=str,
)
def test_tokens_that_are_none_are_named(host: Path, tokens: list[object], said: str) -> None:
    folder = write_tokens(host, tokens)
    with pytest.raises(DataUnusable) as raised:
        bert(data="tokens")
    assert str(raised.value).startswith(f"cannot read {folder}/tokens.npy: {said}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_array_is_named(host: Path, content: bytes) -> None:
    folder = write_tokens(host, [7] * 100)
    (folder / "tokens.npy").write_bytes(content)
    with pytest.raises(
        DataUnusable, match=r"tokens\.npy: file: it is no array of numpy: "
    ) as raised:
        bert(data="tokens")
    assert "\n" not in str(raised.value)


def test_a_wrong_path_and_a_sequence_without_room_are_the_users(host: Path) -> None:
    with pytest.raises(DataUnusable, match="nowhere: knob data: there is no such folder"):
        bert(data="nowhere")
    write(host)
    with pytest.raises(DataUnusable, match="knob sequence_length: 2 leaves no room for text"):
        bert(sequence_length=2)


def test_another_text_is_another_data_set(tmp_path: Path) -> None:
    same = {open_text(name, 40, tmp_path).sha256 for name in _two_alike(tmp_path)}
    assert len(same) == 1
    (tmp_path / "b" / "text" / "1.txt").write_text(TEXT)
    assert open_text("b", 40, tmp_path).sha256 not in same


def _two_alike(root: Path) -> tuple[str, str]:
    write(root, "a")
    write(root, "b")
    return "a", "b"
