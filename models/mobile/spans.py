"""The text of an answer from start and end logits, as in SQuAD's baselines. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from controller.contracts.mobile import Span
from models.mobile.answer_text import final_text
from models.mobile.samples import Truth

Logits = NDArray[np.float32]


def best_text(start: Logits, end: Logits, what: Truth, output: Span) -> tuple[float, str]:
    """Return the likeliest span's score and text; -inf and no text if no span is valid.

    A span starts at a token that has its best context in this feature, and ends at most
    `max_answer_tokens` later; only the `n_best` highest of each logit are tried.
    """
    likelihood, found = float("-inf"), None
    for first, last in _spans(start, end, what, output):
        if (total := float(start[first] + end[last])) > likelihood:
            likelihood, found = total, (first, last)
    return likelihood, _text(*found, what) if found else ""


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


def _text(first: int, last: int, what: Truth) -> str:
    low, word_of = what["first"], what["word_of"]
    words = what["words"][word_of[first - low] : word_of[last - low] + 1]
    return final_text(what["tokens"][first : last + 1], words)
