"""SQuAD v1.1's dev set as features of MobileBERT: windows of a text, each with its question.

The algorithm is that of BERT's SQuAD baseline (Devlin et al., arXiv 1810.04805), with which the
suite's own features were made; so are these figures (mobile_app_open, flutter/cpp/datasets,
README.md).
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from controller.contracts.documents import load_json, read_limited
from controller.contracts.errors import UserError
from models.mobile.datasets.images import MAX_TRUTH_BYTES
from models.mobile.datasets.messages import serialized
from models.mobile.datasets.squad import words_of
from models.mobile.preparing.published import SAY_EVERY, Made, Published, Say
from models.mobile.preparing.tfrecord import write_records
from models.mobile.preparing.word_pieces import CLASSIFY, SEPARATE, Vocabulary

LENGTH: Final = 384
"""Tokens of a feature."""
STRIDE: Final = 128
"""Tokens from the begin of a window to that of the next."""
LONGEST_QUESTION: Final = 64
"""Tokens; the rest is cut off."""
PIECES: Final = 30522
"""Of MobileBERT's vocabulary."""
FIRST_ID: Final = 1_000_000_000
QUESTIONS, VOCABULARY = "dev-v1.1.json", "vocab.txt"
ARCHIVE: Final = "uncased_L-24_H-128_B-512_A-4_F-4_OPT.tar.gz"
"""MobileBERT as Google publishes it."""
_MAX_VOCABULARY_BYTES: Final = 1 << 22
_SOURCES: Final = {
    QUESTIONS: "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json",
    VOCABULARY: f"https://storage.googleapis.com/cloud-tpu-checkpoints/mobilebert/{ARCHIVE}",
}
_BROKEN: Final = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of a document of another form."""
Feature = Mapping[str, Sequence[int] | Sequence[bytes]]


def make(published: Published, work: Path, say: Say) -> Made:
    """Write the features, and return the answers where they are; raises UserError."""
    found = published.files(QUESTIONS, VOCABULARY, ARCHIVE)
    if QUESTIONS not in found:
        raise _lacks(published, QUESTIONS)
    vocabulary, read = _vocabulary(published, found)
    samples = work / "squad_eval.tfrecord"
    try:
        document = load_json(read_limited(found[QUESTIONS], MAX_TRUTH_BYTES), MAX_TRUTH_BYTES)
        made = features(document, vocabulary)
        count = write_records(samples, map(serialized, _said(made, say)))
    except _BROKEN as error:
        raise published.unusable(f"{QUESTIONS}: {error!r}", "Get the file again.") from error
    questions = {QUESTIONS: found[QUESTIONS].read_bytes}
    used = {"samples": {**questions, VOCABULARY: lambda: read}, "truth": questions}
    return Made("squad", samples, found[QUESTIONS], count, used)


def features(document: Mapping[str, Any], vocabulary: Vocabulary) -> Iterator[Feature]:
    """Yield the features of a document of SQuAD v1.1, in its order.

    Raises one of ValueError, LookupError, TypeError and AttributeError if it is of another form.
    """
    number = FIRST_ID
    for article in document["data"]:
        for paragraph in article["paragraphs"]:
            words = [vocabulary.pieces(word) for word in words_of(paragraph["context"])]
            text = [piece for pieces in words for piece in pieces]
            word_of = [at for at, pieces in enumerate(words) for _ in pieces]
            for asked in paragraph["qas"]:
                question = vocabulary.pieces(asked["question"])[:LONGEST_QUESTION]
                windows = windows_of(len(text), LENGTH - len(question) - 3)
                best = best_windows(len(text), windows)
                for at, window in enumerate(windows):
                    tokens = [*question, SEPARATE, *text[window.start : window.stop]]
                    feature = _inputs([CLASSIFY, *tokens, SEPARATE], len(question), vocabulary)
                    yield feature | {
                        "qas_id": [asked["id"].encode()],
                        "unique_ids": [number],
                        "token_to_orig_map": word_of[window.start : window.stop],
                        "token_is_max_context": [int(best[place] == at) for place in window],
                    }
                    number += 1


def _inputs(tokens: list[str], question: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what the model takes, filled up with zeros; question: its number of tokens."""
    rest = [0] * (LENGTH - len(tokens))
    before = question + 2
    return {
        "tokens": [token.encode() for token in tokens],
        "input_ids": vocabulary.numbers(tokens) + rest,
        "input_mask": [1] * len(tokens) + rest,
        "segment_ids": [0] * before + [1] * (len(tokens) - before) + rest,
    }


def windows_of(length: int, room: int, stride: int = STRIDE) -> list[range]:
    """Return the windows over a text's tokens, each of `room` at most, until one has its end."""
    last = max(length - room, 0)
    step = min(room, stride)
    starts = range(0, last + step, step) if length else ()
    return [range(start, min(start + room, length)) for start in starts]


def best_windows(length: int, windows: Sequence[range]) -> list[int]:
    """Return for each token the window that has most context of it, on the shorter side.

    A longer window is a little better; of equals, the first is taken.
    """
    best, most = [0] * length, [-1.0] * length
    for number, window in enumerate(windows):
        for place in window:
            context = min(place - window.start, window.stop - 1 - place) + 0.01 * len(window)
            if context > most[place]:
                best[place], most[place] = number, context
    return best


def _said(made: Iterator[Feature], say: Say) -> Iterator[Feature]:
    for number, feature in enumerate(made, 1):
        yield feature
        if number % SAY_EVERY == 0:
            say(f"{number} features made")


def _vocabulary(published: Published, found: Mapping[str, Path]) -> tuple[Vocabulary, bytes]:
    """Return the vocabulary and its file, from the published archive if it is not unpacked."""
    if not (VOCABULARY in found or ARCHIVE in found):
        raise _lacks(published, VOCABULARY)
    path = found.get(VOCABULARY, found.get(ARCHIVE, Path()))
    try:
        read = read_limited if path.name == VOCABULARY else _of_archive
        content = read(path, _MAX_VOCABULARY_BYTES)
        vocabulary = Vocabulary(content)
        if len(vocabulary) != PIECES:
            raise ValueError(f"it has {len(vocabulary)} word pieces, and MobileBERT's has {PIECES}")
    except (OSError, ValueError, EOFError, tarfile.TarError, zlib.error) as error:
        remedy = f"Get it again from {_SOURCES[VOCABULARY]}."
        raise published.unusable(f"{path.name}: {error}", remedy) from error
    return vocabulary, content


def _of_archive(path: Path, most: int) -> bytes:
    """Return `vocab.txt` of an archive, of which nothing is unpacked to the disk."""
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            if PurePosixPath(member.name).name == VOCABULARY and member.isfile():
                if member.size > most:
                    raise ValueError(f"{VOCABULARY} has {member.size} bytes")
                file = archive.extractfile(member)
                assert file is not None
                return file.read()
    raise ValueError(f"it has no {VOCABULARY}")


def _lacks(published: Published, name: str) -> UserError:
    other = f" or {ARCHIVE}" if name == VOCABULARY else ""
    return published.lacks(f"{name}{other}", f"Get it from {_SOURCES[name]}.")
