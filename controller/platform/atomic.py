"""Atomic replacement of files: a reader sees the whole old or the whole new content."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new path beside a file, which replaces the file when the block ends.

    If the block raises, the new file is removed, so that a full disk isn't made fuller.
    """
    new = path.with_name(f".{secrets.token_hex(8)}.new")  # without the name, which may be too long
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner can read; returns once it is on disk."""
    with replacing(path) as new:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
