"""Word pieces of BERT's uncased models, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from models.mobile.answer_text import spelling

PADDING, UNKNOWN, CLASSIFY, SEPARATE = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
LONGEST: Final = 200
"""Characters of a word; a longer one is unknown."""
_CACHED: Final = 1 << 16


class Vocabulary:
    """Word pieces by number: `vocab.txt`, one a line. A piece that goes on a word begins with `##`.

    Raises ValueError if the text is not UTF-8, or lacks a piece that BERT always needs.
    """

    def __init__(self, content: bytes) -> None:
        # Lines end with \n only: other separators of Unicode are a part of a piece.
        lines = content.decode().removesuffix("\n").split("\n")
        self._numbers: dict[str, int] = {}
        for line in lines:
            self._numbers.setdefault(line.strip(), len(self._numbers))
        for piece in (PADDING, UNKNOWN, CLASSIFY, SEPARATE):
            if piece not in self._numbers:
                raise ValueError(f"it lacks {piece}")
        self._of_word = lru_cache(_CACHED)(lambda word: tuple(self._divided(word)))

    def __len__(self) -> int:
        return len(self._numbers)

    def pieces(self, text: str) -> list[str]:
        """Return the word pieces of a text."""
        return [piece for word in spelling(text).split() for piece in self._of_word(word)]

    def numbers(self, pieces: Sequence[str]) -> list[int]:
        """Return the number of each piece; raises KeyError for one that is not there."""
        return [self._numbers[piece] for piece in pieces]

    def _divided(self, word: str) -> Iterator[str]:
        """Yield the pieces of a word, each the longest that is there; all or UNKNOWN."""
        found: list[str] = []
        at, rest = 0, word if len(word) <= LONGEST else ""
        while at < len(rest):
            mark = "##" if at else ""
            ends = range(len(rest), at, -1)
            end = next((end for end in ends if mark + rest[at:end] in self._numbers), None)
            if end is None:
                found = []
                break
            found.append(mark + rest[at:end])
            at = end
        yield from found or (UNKNOWN,)
