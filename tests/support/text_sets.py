"""A small text of the project's own, with its vocabulary, as a host has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *("a", "the", "farm", "phone", "server", "measure", "run", "wait", "queue", "train"),
    *("##s", "##ed", "##ing", "##er", "on", "for", "and", "it", ".", ",", "cafe", "un", "##known"),
)
VOCABULARY = (*SPECIAL, *WORDS)
TEXT = """The farm measures a phone, and the server waits for it.
A queued run waited on the farm. The phones run, the servers train.
It measured the farmer on a phone and, on a server, the trainer.
"""


def write(root: Path, name: str = "small", vocabulary: tuple[str, ...] = VOCABULARY) -> Path:
    """Write a text of six times TEXT into a host's folder of data; return its own folder."""
    folder = root / name
    (folder / "text").mkdir(parents=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))
    for number in range(2):
        (folder / "text" / f"{number}.txt").write_text(TEXT * 3)
    return folder


def write_tokens(root: Path, tokens: object, name: str = "tokens") -> Path:
    """Write tokens with the vocabulary; return the folder."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY))
    np.save(folder / "tokens.npy", np.asarray(tokens))
    return folder
