"""The vocabulary of a text: a token a line, as BERT's `vocab.txt` has them; the id is the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.documents import read_limited
from models.images.errors import unusable

UNKNOWN, BEGIN, END, MASK = "[UNK]", "[CLS]", "[SEP]", "[MASK]"
NEEDED: Final = (UNKNOWN, BEGIN, END, MASK)
MOST_BYTES: Final = 2**26
REMEDY: Final = "Put there the vocabulary that the text is meant for."


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens and their ids, 0 to their number - 1."""

    ids: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, token: str) -> int:
        return self.ids[token]


def read_vocabulary(path: Path, most: int) -> Vocabulary:
    """Return a vocabulary of at most `most` tokens; raises DataUnusable."""
    tokens = [line.removesuffix("\r") for line in text_of(path, MOST_BYTES).split("\n")]
    if not tokens[-1]:
        tokens.pop()
    ids: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if not token:
            raise unusable(path, f"line {number + 1}", "it has no token", "Remove the line.")
        if token in ids:
            why = f"{token!r:.40} is on line {ids[token] + 1}, too"
            raise unusable(path, f"line {number + 1}", why, REMEDY)
        ids[token] = number
    for token in NEEDED:
        if token not in ids:
            raise unusable(path, token, "there is no such token", REMEDY)
    if len(ids) > most:
        why = f"{len(ids)} tokens are more than vocabulary_size={most}"
        raise unusable(path, f"line {most + 1}", why, "Set vocabulary_size higher.")
    return Vocabulary(ids)


def text_of(path: Path, most_bytes: int) -> str:
    """Return the text of a file, without a byte order mark; raises DataUnusable, with the byte that
    is no UTF-8."""
    if path.exists() and not path.is_file():  # a read of a pipe may never end
        raise unusable(path, "file", "it is no file", "Put one there.")
    try:
        content = read_limited(path, most_bytes)
    except OSError as error:
        raise unusable(path, "file", error.strerror or str(error), "Put it there.") from error
    except ValueError as error:
        raise unusable(path, "file", str(error), "Give its tokens as tokens.npy.") from error
    if not content.strip():
        raise unusable(path, "file", "it is empty", "Get the file again.")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 ({error.reason})"
        raise unusable(path, f"byte {error.start}", why, "Save the file as UTF-8.") from error
