"""The files of a bundle, written, hashed and packed so that equal content gives an equal name."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

EXECUTABLE: Final = 0o755
PLAIN: Final = 0o644


def write(path: Path, content: bytes, mode: int = PLAIN) -> None:
    """Write a file and the folders above it; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def content_sha256(folder: Path) -> str:
    """Hash every file's path, mode and content, in the order of paths."""
    digest = hashlib.sha256()
    for path in files_in(folder):
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}\0{mode_of(path):o}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def pack(folder: Path, archive: Path) -> None:
    """Write a folder's files as a tar that depends only on their paths, modes and contents."""
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in files_in(folder):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = path.stat().st_size, mode_of(path)
            with path.open("rb") as content:
                tar.addfile(entry, content)


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder, in the order of paths."""
    files = (path for path in folder.rglob("*") if path.is_file())
    yield from sorted(files, key=lambda path: path.as_posix())


def mode_of(path: Path) -> int:
    """Return a file's mode in a bundle: executable or plain."""
    return EXECUTABLE if os.access(path, os.X_OK) else PLAIN


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
