"""SQuAD v1.1: features from the suite's tfrecord, answers from the original JSON or the suite's
`squad_groundtruth.tfrecord`.

A truth has what converts a span of tokens to words: `tokens`, `words` (of the original text),
`first` (the first token of the text), `word_of` and `best_context` of each token from there on, and
`answers`, each of them right.
"""

from __future__ import annotations

import re
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
MAX_RECORDS_BYTES = 1 << 28
"""Largest content of a tfrecord; that of the whole dev set has 2^25."""
_SPACES = re.compile(r"[ \t\r\n\u202f]+")
"""What separates words; other white space is a part of a word, as in BERT's SQuAD baseline."""
_BROKEN = (
    OSError,
    ValueError,
    LookupError,
    AttributeError,  # numbers in place of bytes
    TypeError,
    OverflowError,  # a number that is no int32
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

    arrays: Sequence[Arrays]
    said: Sequence[Mapping[str, Any]]
    """What the features say of their truths; empty without questions."""
    questions: Mapping[str, Question] | None

    def __len__(self) -> int:
        return len(self.arrays)

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        return self.arrays[index]

    def truth(self, index: int) -> dict[str, Any] | None:
        """See Samples.truth."""
        if self.questions is None:
            return None
        said = self.said[index]
        question = self.questions[said["id"]]
        return {**said, "words": list(question.words), "answers": list(question.answers)}


def _arrays(number: int, example: Mapping[str, list[Any]], length: int) -> Arrays:
    """Return the inputs of a feature; raises one of _BROKEN."""
    for name in _INPUTS:
        if len(example[name]) != length:
            raise ValueError(f"{name} of feature {number} has {len(example[name])} ids")
    return tuple(np.asarray(example[name], dtype=np.int32) for name in _INPUTS)


def _said(number: int, example: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the parts of a truth that a feature contains; raises one of _BROKEN."""
    tokens = [token.decode() for token in example["tokens"]]
    said = {
        "id": example["qas_id"][0].decode(),
        "tokens": tokens,
        "first": tokens.index("[SEP]") + 1,
        "word_of": [int(word) for word in example["token_to_orig_map"]],
        "best_context": [int(best) for best in example["token_is_max_context"]],
    }
    most, words, contexts = len(tokens) - said["first"], said["word_of"], said["best_context"]
    if not 0 < len(words) == len(contexts) <= most or min(words) < 0:
        seen = f"{len(words)} words and {len(contexts)} contexts of {most} tokens"
        raise ValueError(f"feature {number} has {seen}, or a word below 0")
    return said


def load(samples: Path, truth: Path | None, wanted: TokenInput) -> Features:
    """Return the features with the answers; raises DatasetUnusable."""
    try:
        examples = [messages.example(record) for record in records(samples.read_bytes())]
        if not examples:
            raise ValueError("it has no feature")
        arrays = [_arrays(number, each, wanted.length) for number, each in enumerate(examples)]
        said = [] if truth is None else [_said(number, e) for number, e in enumerate(examples)]
    except _BROKEN as error:
        raise unusable(samples, "parts.samples", repr(error)) from error
    questions = None if truth is None else read_questions(truth)
    if truth and questions is not None:
        for each in said:
            if (objection := _objection(each, questions)) is not None:
                raise unusable(truth, "parts.truth", objection)
    return Features(arrays, said, questions)


def _objection(said: Mapping[str, Any], questions: Mapping[str, Question]) -> str | None:
    question = questions.get(said["id"])
    if question is None:
        return f"it has no question {said['id']}"
    last = max(said["word_of"])
    if last >= len(question.words):
        words = len(question.words)
        return f"the text of question {said['id']} has {words} words, and its samples word {last}"
    return None


def records(content: bytes, most: int = MAX_RECORDS_BYTES) -> Iterator[bytes]:
    """Yield the records of a tfrecord, which may be compressed as a whole; raises ValueError,
    also if it unpacks to more than `most` bytes.

    Each has its length (uint64), a checksum of that, the record, and a checksum (TensorFlow's
    record_writer). The checksums are not verified, since the store's checksum covers the whole
    file.
    """
    data = _unpacked(content, most) if content[:1] == _ZLIB else content
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        end = at + 12 + length
        if end + 4 > len(data):
            raise ValueError(f"the record at byte {at} is cut off, or its length is wrong")
        yield data[at + 12 : end]
        at = end + 4


def _unpacked(content: bytes, most: int) -> bytes:
    """Return what zlib packed; raises ValueError or zlib.error."""
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(content, most)
    if unpacker.unconsumed_tail:
        raise ValueError(f"unpacked, it would have more than {most} bytes")
    if not unpacker.eof:
        raise zlib.error("incomplete content while decompressing it")
    return data


def read_questions(path: Path) -> dict[str, Question]:
    """Return the questions of either file by their ids; raises DatasetUnusable."""
    try:
        content = read_limited(path, MAX_TRUTH_BYTES)
        # A record starts with its length as uint64, which has zeros.
        is_records = content[:1] == _ZLIB or b"\0" in content[:8]
        return _of_tfrecord(content) if is_records else _of_json(content)
    except _BROKEN as error:
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
