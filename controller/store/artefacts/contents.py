"""Contents of artefacts as files: whole ones by their SHA-256, and those that still arrive.

A file has the frames of controller.platform.frames, one after the other. One that arrives is kept
for each agent apart, so that none can spoil what another sends.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from controller.contracts.base import digest
from controller.contracts.errors import StoreDamaged, StoreUnavailable, UserError
from controller.platform.frames import (
    FRAME_BYTES,
    HEADER,
    FrameDamaged,
    lengths_of,
    unpacked,
)
from controller.store.artefacts.places import ContentPlace, place_in, translated

ARRIVING: Final = "arriving"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class ContentDiffers(Exception):
    """A content that has arrived and is not what its checksum says."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """How much of a content has arrived in whole frames."""

    size: int = 0
    """Bytes of content."""
    kept_bytes: int = 0
    """Bytes of the file."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents that arrive in a folder, and whole ones in their place; one process writes, anyone
    may read."""

    folder: Path
    place: ContentPlace

    @classmethod
    def of(cls, folder: Path) -> Contents:
        """Return the contents of an artefact store; raises StoreUnavailable."""
        try:
            return cls(folder, place_in(folder))
        except UserError as error:
            raise StoreUnavailable(str(folder), error.seen) from error

    def arriving(self, agent_id: str, sha256: str) -> Path:
        """Return where a content is while an agent sends it."""
        return self.folder / ARRIVING / digest(agent_id) / sha256

    def has(self, sha256: str) -> bool:
        """Return whether a content is whole; false of what is no SHA-256. Raises StoreUnavailable,
        if its place cannot be reached."""
        with self._reaching():
            return bool(_SHA256.fullmatch(sha256)) and self.place.has(sha256)

    def names(self) -> list[str]:
        """Return the names of all files where whole contents are, sorted; each a SHA-256 but for
        what else has got there. Raises StoreUnavailable."""
        with self._reaching():
            return self.place.names()

    def kept_bytes(self, sha256: str) -> int:
        """Return the bytes of a whole content's file; raises OSError."""
        return self.place.kept_bytes(sha256)

    def arrived(self, agent_id: str, sha256: str) -> Arrived:
        """Return how much has come from an agent; what a killed writer left half is not counted."""
        try:
            with self.arriving(agent_id, sha256).open("rb") as file:
                return _whole_frames(file)
        except FileNotFoundError:
            return Arrived()

    def append(
        self, agent_id: str, sha256: str, after: Arrived, frames: Sequence[bytes], size: int
    ) -> Arrived:
        """Add checked frames after what has arrived; size: of their contents. Raises OSError.

        What can't be written whole is taken back, so that a full disk isn't made fuller.
        """
        path = self.arriving(agent_id, sha256)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        more = b"".join(frames)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, after.kept_bytes)
            _write(descriptor, more, after.kept_bytes)
        except OSError:
            os.ftruncate(descriptor, after.kept_bytes)
            raise
        finally:
            os.close(descriptor)
        return Arrived(after.size + size, after.kept_bytes + len(more))

    def keep(self, agent_id: str, sha256: str, pause: Callable[[], None]) -> int:
        """Make what has arrived the whole content, once it is on disk; return its file's bytes.

        pause: see ContentPlace.take. Raises ContentDiffers, and then nothing of it is left;
        OSError.
        """
        path = self.arriving(agent_id, sha256)
        with path.open("rb") as file:
            found = hashlib.sha256()
            try:
                for content in _contents(file, 0):
                    found.update(content)
            except FrameDamaged as error:
                path.unlink(missing_ok=True)
                raise ContentDiffers(str(error)) from error
            if found.hexdigest() != sha256:
                path.unlink(missing_ok=True)
                raise ContentDiffers("its checksum is another one")
            os.fsync(file.fileno())
            kept_bytes = os.fstat(file.fileno()).st_size
        self.place.take(path, sha256, pause)
        return kept_bytes

    def drop(self, agent_id: str, sha256: str) -> None:
        """Forget what has come from an agent."""
        self.arriving(agent_id, sha256).unlink(missing_ok=True)

    def remove(self, sha256: str) -> None:
        """Remove a whole content; who reads it reads on."""
        self.place.remove(sha256)

    def remove_stale(self, before: float) -> int:
        """Remove what began to arrive and got nothing since a time; return how many there were."""
        found = [path for path in self.folder.glob(f"{ARRIVING}/*/*") if _changed(path) < before]
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)

    def read(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a whole content from a byte on; raises StoreDamaged if it can't be read."""
        try:
            with translated(), self.place.open(sha256) as file:
                yield from _contents(file, offset)
        except OSError as error:
            said = f"an artefact cannot be read: {error}"
            raise StoreDamaged(f"{self.place}, content {sha256}", said) from error

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(str(self.place), error.strerror or str(error)) from error


def _write(descriptor: int, content: bytes, place: int) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(descriptor, left, place)
        left, place = left[written:], place + written


def _contents(file: BinaryIO, offset: int) -> Iterator[bytes]:
    """Yield the contents of a file's frames from a byte of content on; raises FrameDamaged."""
    skipped = 0
    while header := file.read(HEADER.size):
        if len(header) < HEADER.size:
            raise FrameDamaged("it ends within a header")
        compressed_bytes, size = lengths_of(header)
        if skipped + size <= offset:
            file.seek(compressed_bytes, os.SEEK_CUR)
        else:
            content = unpacked(header + file.read(compressed_bytes))
            yield content[max(0, offset - skipped) :]
        skipped += size


def _whole_frames(file: BinaryIO) -> Arrived:
    """Return how much of a file that arrives are whole frames, each of full length."""
    length = os.fstat(file.fileno()).st_size
    found = Arrived()
    while len(header := file.read(HEADER.size)) == HEADER.size:
        try:
            compressed_bytes, size = lengths_of(header)
        except FrameDamaged:
            break
        after = found.kept_bytes + HEADER.size + compressed_bytes
        if after > length or size != FRAME_BYTES:
            break  # a last frame is followed by `keep`, so it comes again
        found = Arrived(found.size + size, after)
        file.seek(after)
    return found


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")
