"""The text of an answer from the word pieces of its span, as BERT's SQuAD baseline finds it. Pure.

Word pieces are lower case, without accents, and apart from punctuation. The original text of a span
is found by spelling its words alike, searching the pieces there, and counting characters other than
spaces (Devlin et al., arXiv 1810.04805; MLPerf Mobile's app does the same).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from string import punctuation
from typing import Final

_JOINT: Final = re.compile(" ##|##")
_REMOVED: Final = frozenset("\0\ufffd")
_IDEOGRAPHS: Final = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)
"""Each character of these blocks is a token."""


def final_text(pieces: Sequence[str], words: Sequence[str]) -> str:
    """Return the part of the original words that the pieces spell; all words if there is none.

    pieces: word pieces of the span; words: the words of the text that it touches.
    """
    whole = " ".join(words)
    said = " ".join(_JOINT.sub("", " ".join(pieces)).split())
    spelled = " ".join(spelling(word) for word in words)
    at = spelled.find(said)
    if at < 0 or not said:
        return whole
    first = _letters(spelled[:at])
    last = first + _letters(said) - 1
    places = [place for place, letter in enumerate(whole) if letter != " "]
    return whole[places[first] : places[last] + 1] if last < len(places) else whole


def _letters(text: str) -> int:
    return len(text) - text.count(" ")


@lru_cache(maxsize=2**14)
def spelling(word: str) -> str:
    """Return the basic tokens of a word, separated by spaces: `"Café's"` → `"cafe ' s"`."""
    plain = "".join(chain.from_iterable(_cleaned(letter) for letter in word))
    return " ".join(" ".join(_apart(part) for part in plain.split()).split())


def _cleaned(letter: str) -> Iterator[str]:
    """Yield what stays of a character: a space for white space, an ideograph between spaces."""
    kind = unicodedata.category(letter)
    if letter in "\t\n\r" or kind == "Zs":
        yield " "
    elif letter in _REMOVED or kind in ("Cc", "Cf"):
        return
    elif any(ord(letter) in block for block in _IDEOGRAPHS):
        yield f" {letter} "
    else:
        yield letter


def _apart(part: str) -> str:
    """Return a word in lower case, without accents, its punctuation between spaces."""
    letters = unicodedata.normalize("NFD", part.lower())
    return "".join(
        f" {letter} " if _is_punctuation(letter) else letter
        for letter in letters
        if unicodedata.category(letter) != "Mn"
    )


def _is_punctuation(letter: str) -> bool:
    return letter in punctuation or unicodedata.category(letter).startswith("P")
