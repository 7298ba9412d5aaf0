"""Folders of text, or of tokens, with the vocabulary that they are in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.images.errors import unusable
from models.images.folder import KNOB, set_folder
from models.text.vocabulary import END, Vocabulary, read_vocabulary, text_of
from models.text.wordpiece import WordPiece

SYNTHETIC: Final = "synthetic"
"""Value of the knob `data`."""
VOCABULARY: Final = "vocab.txt"
TOKENS: Final = "tokens.npy"
"""[N] whole numbers: ids of tokens, one text after the other."""
TEXTS: Final = ("text.txt", "text/*.txt")
"""Texts in UTF-8, in the order of their names."""
MOST_BYTES: Final = 2**30
"""Largest file of text: tokens take less time to read, and less memory."""
CHECKED_AT_ONCE: Final = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class TextSet:
    """The tokens of a data set, one text after the other."""

    tokens: NDArray[np.integer[Any]]
    """[N], in memory or in a file; each is below the vocabulary's size."""
    vocabulary: Vocabulary
    source: Path
    """The file or folder of the texts."""
    sha256: str
    """Of vocabulary and texts, hex."""


def open_text(name: str, vocabulary_size: int, root: Path) -> TextSet:
    """Return a data set of the host's folder; texts are tokenised.

    name: a folder inside `root`; vocabulary_size: the most tokens that there may be.

    Raises DataUnusable.
    """
    folder = set_folder(name, root)
    if not (folder / VOCABULARY).is_file():
        why = f"it has no vocabulary {VOCABULARY}"
        raise unusable(folder, f"knob {KNOB}", why, "Add the one that the text is meant for.")
    vocabulary = read_vocabulary(folder / VOCABULARY, vocabulary_size)
    if (folder / TOKENS).is_file():
        files: Sequence[Path] = [folder / TOKENS]
        tokens = _read_tokens(folder / TOKENS, len(vocabulary))
    else:
        files = _texts(folder)
        tokens = _tokenised(folder, files, vocabulary)
    source = files[0] if len(files) == 1 else folder / "text"
    return TextSet(tokens, vocabulary, source, _digest((folder / VOCABULARY, *files)))


def _texts(folder: Path) -> Sequence[Path]:
    """Return the files of texts, in order; raises DataUnusable if they may hold the same twice."""
    found = [sorted(folder.glob(pattern)) for pattern in TEXTS]
    if all(found):
        why = f"it has {' and '.join(TEXTS)}, which may hold the same text"
        raise unusable(folder, f"knob {KNOB}", why, "Keep one of them.")
    return [path for files in found for path in files]


def _tokenised(
    folder: Path, files: Sequence[Path], vocabulary: Vocabulary
) -> NDArray[np.integer[Any]]:
    """Return the tokens of texts, each with an end but for the last."""
    if not files:
        wanted = ", ".join((TOKENS, *TEXTS))
        raise unusable(folder, f"knob {KNOB}", "it has no text", f"Add one of: {wanted}.")
    pieces, parts = WordPiece(vocabulary), []
    for path in files:
        own = np.fromiter(pieces.ids(text_of(path, MOST_BYTES)), np.int32)
        parts += [own, np.array([vocabulary[END]], np.int32)]
    return np.concatenate(parts[:-1])


def _read_tokens(path: Path, vocabulary: int) -> NDArray[np.integer[Any]]:
    """Return tokens that stay in their file."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        why = f"it is no array of numpy: {' '.join(str(error).split())[:100]}"
        raise unusable(path, "file", why, "Write it with numpy.save.") from error
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu" or found.ndim != 1:
        what = f"{found.dtype} {list(found.shape)}" if isinstance(found, np.ndarray) else "several"
        why = f"its array is {what}, not one row of whole numbers"
        raise unusable(path, "file", why, "Write the ids of the tokens, one after the other.")
    if not len(found):
        raise unusable(path, "file", "it has no tokens", "Get the file again.")
    for begin in range(0, len(found), CHECKED_AT_ONCE):
        part = found[begin : begin + CHECKED_AT_ONCE]
        wrong = (part < 0) | (part >= vocabulary)
        if wrong.any():
            first = int(wrong.argmax())
            why = f"{part[first]} is not one of 0 to {vocabulary - 1}, the ids of {VOCABULARY}"
            remedy = "Give the vocabulary that it was tokenised with."
            raise unusable(path, f"tokens[{begin + first}]", why, remedy)
    return found


def _digest(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()
