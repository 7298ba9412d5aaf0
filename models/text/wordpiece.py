"""Text → ids of word pieces, as the uncased BERT has them (google-research/bert, tokenization.py):
lower case without accents, punctuation apart, then the longest pieces from the left."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from models.text.vocabulary import UNKNOWN, Vocabulary

CONTINUED: Final = "##"
"""Begins a piece that is not at the beginning of a word."""
LONGEST_WORD: Final = 200
"""Characters; a longer word is unknown as a whole."""
_HAN: Final = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)),
)
"""Ranges of characters that are words by themselves."""
_ASCII_SIGNS: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordPiece:
    """The tokens of texts in one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> Iterator[int]:
        """Yield the ids of a text's tokens."""
        for word in words_of(text):
            found = self._known.get(word)
            if found is None:
                found = self._known[word] = self._pieces(word)
            yield from found

    def _pieces(self, word: str) -> tuple[int, ...]:
        """Return the longest pieces of a word from the left; [UNK] if any part is no piece."""
        ids, found, begin = self._vocabulary.ids, list[int](), 0
        unknown = (ids[UNKNOWN],)
        if len(word) > LONGEST_WORD:
            return unknown
        while begin < len(word):
            start = CONTINUED if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if start + word[begin:end] in ids), None)
            if end is None:
                return unknown
            found.append(ids[start + word[begin:end]])
            begin = end
        return tuple(found)


def words_of(text: str) -> Iterator[str]:
    """Yield the words and signs of a text."""
    for part in _spaced(text).split():
        plain = (c for c in unicodedata.normalize("NFD", part.lower()))
        word = ""
        for character in plain:
            if unicodedata.category(character) == "Mn":  # an accent
                continue
            if not _is_sign(character):
                word += character
                continue
            if word:
                yield word
            yield character
            word = ""
        if word:
            yield word


def _spaced(text: str) -> str:
    """Return a text without control characters, and with spaces around Han characters."""
    return "".join(_as_spaced(character) for character in text)


def _as_spaced(character: str) -> str:
    if character.isspace():
        return " "
    if character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
        return ""
    return f" {character} " if _is_han(ord(character)) else character


def _is_han(code: int) -> bool:
    return code >= _HAN[0][0] and any(low <= code <= high for low, high in _HAN)


def _is_sign(character: str) -> bool:
    return character in _ASCII_SIGNS or unicodedata.category(character).startswith("P")
