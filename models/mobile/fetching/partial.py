"""The unfinished file of a download, and a note beside it: what its server called the whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from controller.contracts.errors import UserError
from controller.platform.atomic import replacing
from models.mobile.errors import NoRoom, not_written

AGAIN: Final = "Run the command again; it goes on from where it was."


@contextmanager
def opened(part: Path, start: int) -> Iterator[int]:
    """Open a part at a place, after which nothing is kept; raises UserError."""
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise not_stored(part, error) from error
    try:
        os.ftruncate(descriptor, start)
        os.lseek(descriptor, start, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def append(descriptor: int, chunk: bytes, part: Path) -> None:
    """Write all of a chunk; raises UserError, and then a part of it is written."""
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        raise not_stored(part, error) from error


def require_room(part: Path, start: int, total: int | None) -> None:
    """Raise NoRoom at once if the rest of a file can't fit."""
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - start > free:
        seen = f"{total - start} bytes are missing, and {free} are free in {part.parent}"
        raise NoRoom("store the file", seen, f"Make room. {AGAIN}")


def not_stored(part: Path, error: OSError) -> UserError:
    """Return the error of a write, NoRoom if that is why; what was written is kept."""
    return not_written("store the file", part.parent, error, AGAIN)


def validator_of(part: Path, url: str) -> str | None:
    """Return what the server called the file of which this is a part, if it comes from there."""
    try:
        said = json.loads(_note_of(part).read_text())
        return str(said["validator"]) if said["url"] == _hash(url) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_validator(part: Path, url: str, response: httpx.Response) -> None:
    """Keep the file's strong ETag, else its date; none of them: nothing."""
    tag = response.headers.get("ETag", "")
    validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    if not (validator and validator.isascii()):
        _note_of(part).unlink(missing_ok=True)
        return
    try:
        with replacing(_note_of(part)) as new:
            new.write_text(json.dumps({"url": _hash(url), "validator": validator}))
    except OSError as error:
        raise not_stored(part, error) from error


def forget(part: Path) -> None:
    """Delete an unfinished file."""
    part.unlink(missing_ok=True)
    _note_of(part).unlink(missing_ok=True)


def _note_of(part: Path) -> Path:
    return part.with_suffix(".json")


def _hash(url: str) -> str:
    """Return an address as it is kept: it may contain a password."""
    return hashlib.sha256(url.encode()).hexdigest()


def size_here(part: Path) -> int:
    """Return the bytes that are here."""
    return part.stat().st_size if part.exists() else 0
