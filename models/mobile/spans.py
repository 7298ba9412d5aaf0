"""The words of an answer from start and end logits, as in SQuAD's baselines. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from controller.contracts.mobile import Span
from models.mobile.samples import Truth

Logits = NDArray[np.float32]


def best_text(start: Logits, end: Logits, what: Truth, output: Span) -> tuple[float, str]:
    """Return the likeliest span's score and words; -inf and no words if no span is valid.

    A span starts at a token that has its best context in this feature, and ends at most
    `max_answer_tokens` later; only the `n_best` highest of each logit are tried.
    """
    best = (float("-inf"), "")
    for first, last in _spans(start, end, what, output):
        likelihood = float(start[first] + end[last])
        if likelihood > best[0]:
            best = (likelihood, _words(first, last, what))
    return best


def _spans(start: Logits, end: Logits, what: Truth, output: Span) -> Iterator[tuple[int, int]]:
    low = what["first"]
    high = low + len(what["word_of"])
    lasts = _highest(end, output.n_best)
    for first in _highest(start, output.n_best):
        if not low <= first < high or not what["best_context"][first - low]:
            continue
        for last in lasts:
            if first <= last < min(high, first + output.max_answer_tokens):
                yield first, last


def _highest(logits: Logits, count: int) -> list[int]:
    found: list[int] = np.argsort(-logits, kind="stable")[:count].tolist()
    return found


def _words(first: int, last: int, what: Truth) -> str:
    low, word_of = what["first"], what["word_of"]
    return " ".join(what["words"][word_of[first - low] : word_of[last - low] + 1])
