"""SQuAD's scores of one answer, as MLPerf Mobile's app computes them. Pure.

They are stricter than SQuAD's own script: the app counts an article as a word that equals any other
article, and only removes the ASCII punctuation of a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase, punctuation
from typing import Final

_ARTICLES: Final = frozenset(("a", "an", "the", "A", "An", "The"))
_PLAIN: Final = str.maketrans(ascii_uppercase, ascii_lowercase, punctuation)


def f1(text: str, answers: Sequence[str]) -> float:
    """Return the highest F1 over the right answers, of words separated by spaces."""
    return max((_f1(text.split(" "), answer.split(" ")) for answer in answers), default=0.0)


def exact(text: str, answers: Sequence[str]) -> bool:
    """Return whether the text is a right answer but for articles, case and punctuation."""
    return _normal(text.split(" ")) in [_normal(answer.split(" ")) for answer in answers]


def _f1(given: Sequence[str], right: Sequence[str]) -> float:
    found, wanted = (Counter(_normal([word]) for word in words) for words in (given, right))
    common = (found & wanted).total()
    return 2 * common / (len(given) + len(right))


def _normal(words: Sequence[str]) -> str:
    return " ".join(word for word in words if word not in _ARTICLES).translate(_PLAIN)
