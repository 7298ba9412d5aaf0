"""SQuAD v1.1: features from the suite's tfrecord, answers from the original JSON or the suite's
`squad_groundtruth.tfrecord`.

A truth has what converts a span of tokens to words: `tokens`, `words` (of the original text),
`first` (the first token of the text), `word_of` and `best_context` of each token from there on, and
`answers`, each of them right.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from controller.contracts.documents import load_json, read_limited
from controller.contracts.mobile import TokenInput
from models.mobile.datasets import messages
from models.mobile.datasets.images import MAX_TRUTH_BYTES, unusable
from models.mobile.samples import Arrays

_INPUTS = ("input_ids", "input_mask", "segment_ids")
_ZLIB = b"\x78"
_SPACES = re.compile(r"[ \t\r\n\u202f]+")
"""What separates words; other white space is a part of a word, as in BERT's SQuAD baseline."""
_BROKEN = (
    OSError,
    ValueError,
    LookupError,
    OverflowError,
    AttributeError,  # numbers in place of bytes
    struct.error,
    zlib.error,
    DecodeError,
)
"""Errors of reading a tfrecord with other content."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its text."""

    words: Sequence[str]
    """The words of its text."""
    answers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Features:
    """Samples of token ids, masks and segments."""

    examples: Sequence[Mapping[str, Any]]
    length: int
    questions: Mapping[str, Question] | None

    def __len__(self) -> int:
        return len(self.examples)

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        example = self.examples[index]
        return tuple(example[name] for name in _INPUTS)

    def truth(self, index: int) -> dict[str, Any] | None:
        """See Samples.truth."""
        if self.questions is None:
            return None
        said = _said(self.examples[index])
        question = self.questions[said["id"]]
        return said | {"words": list(question.words), "answers": list(question.answers)}


def _said(example: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a truth that the features contain; raises one of _BROKEN."""
    tokens = [token.decode() for token in example["tokens"]]
    return {
        "id": example["qas_id"][0].decode(),
        "tokens": tokens,
        "first": tokens.index("[SEP]") + 1,
        "word_of": list(example["token_to_orig_map"]),
        "best_context": list(example["token_is_max_context"]),
    }


def _compact(example: dict[str, list[Any]]) -> Mapping[str, Any]:
    """Return the features with the inputs as arrays, which take a sixth of the memory."""
    return {**example, **{name: np.asarray(example[name], np.int32) for name in _INPUTS}}


def load(samples: Path, truth: Path | None, wanted: TokenInput) -> Features:
    """Return the features with the answers; raises DatasetUnusable."""
    try:
        examples = [_compact(messages.example(r)) for r in records(samples.read_bytes())]
        for number, example in enumerate(examples):
            for name in _INPUTS:
                if len(example[name]) != wanted.length:
                    raise ValueError(f"{name} of feature {number} has {len(example[name])} ids")
        asked = [] if truth is None else [_said(example)["id"] for example in examples]
    except _BROKEN as error:
        raise unusable(samples, "parts.samples", repr(error)) from error
    questions = None if truth is None else read_questions(truth)
    if truth and questions is not None:
        for identity in asked:
            if identity not in questions:
                raise unusable(truth, "parts.truth", f"it has no question {identity}")
    return Features(examples, wanted.length, questions)


def records(content: bytes) -> Iterator[bytes]:
    """Yield the records of a tfrecord, which may be compressed as a whole; raises ValueError.

    Each has its length (uint64), a checksum of that, the record, and a checksum (TensorFlow's
    record_writer). The checksums are not verified, since the store's checksum covers the whole
    file.
    """
    data = zlib.decompress(content) if content[:1] == _ZLIB else content
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        record = data[at + 12 : at + 12 + length]
        if len(record) != length:
            raise ValueError(f"the record at byte {at} is cut off")
        yield record
        at += 16 + length


def read_questions(path: Path) -> dict[str, Question]:
    """Return the questions of either file by their ids; raises DatasetUnusable."""
    try:
        content = read_limited(path, MAX_TRUTH_BYTES)
        # A record starts with its length as uint64, which has zeros.
        is_records = content[:1] == _ZLIB or b"\0" in content[:8]
        return _of_tfrecord(content) if is_records else _of_json(content)
    except (*_BROKEN, TypeError) as error:
        raise unusable(path, "parts.truth", repr(error)) from error


def words_of(text: str) -> list[str]:
    """Return the words of a text."""
    return [word for word in _SPACES.split(text) if word]


def _of_json(content: bytes) -> dict[str, Question]:
    return {
        question["id"]: Question(words, [answer["text"] for answer in question["answers"]])
        for article in load_json(content, MAX_TRUTH_BYTES)["data"]
        for paragraph in article["paragraphs"]
        for words in (words_of(paragraph["context"]),)  # questions share them
        for question in paragraph["qas"]
    }


def _of_tfrecord(content: bytes) -> dict[str, Question]:
    """Return the questions of records with `qas_id`, `words` and `answers`."""
    found = {}
    for example in map(messages.example, records(content)):
        words, answers = ([text.decode() for text in example[n]] for n in ("words", "answers"))
        found[example["qas_id"][0].decode()] = Question(words, answers)
    if not found:
        raise ValueError("it has no question")
    return found
