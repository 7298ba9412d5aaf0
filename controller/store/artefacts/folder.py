"""The head's artefact store in a folder: contents by their SHA-256, and an index of attempts."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from controller.contracts.artefacts import (
    MOST_FILES,
    ArtefactFile,
    ArtefactPlace,
    ArtefactReceipt,
    KeptContent,
)
from controller.contracts.disk import LEAST_FREE_BYTES
from controller.contracts.errors import StoreUnavailable
from controller.contracts.retention import FOLDER
from controller.platform.frames import FRAME_BYTES, FrameDamaged, unpacked
from controller.store.artefacts.contents import Arrived, ContentDiffers, Contents
from controller.store.artefacts.index import NAME, ArtefactIndex

log = logging.getLogger(__name__)
STALE_S: Final = 7 * 86400.0
"""What began to arrive and got nothing for so long is forgotten."""
ROOM_BYTES: Final = 8 * LEAST_FREE_BYTES
"""Free bytes that artefacts leave on the head's disk: results and logs go first."""
_DIFFERS: Final = "what has come of it is not what its checksum says"


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a folder's disk."""
    return shutil.disk_usage(folder).free


def folder_beside(store: Path) -> Path:
    """Return the artefact store's folder beside the file of a store of results."""
    return store.with_name(FOLDER)


class FolderArtefacts:
    """Implements ArtefactWriter; one process and one thread at a time uses it."""

    def __init__(
        self,
        folder: Path,
        room_bytes: int = ROOM_BYTES,
        free: Callable[[Path], int] = free_bytes,
        most_files: int = MOST_FILES,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is opened before the first call. free: returns the free bytes of a disk.
        most_files: of an attempt. pause: see ContentPlace.take."""
        self._folder = folder
        self._room_bytes = room_bytes
        self._free = free
        self._most_files = most_files
        self._pause = pause
        self._opened: ArtefactIndex | None = None
        self._arrived: dict[tuple[str, str], Arrived] = {}
        """Agent and content → what has arrived of it, as far as it was looked up."""

    def offer(self, file: ArtefactFile, sweep_id: str, now: float) -> ArtefactReceipt:
        """See ArtefactWriter.offer; what has come whole is never replaced."""
        with self._storing() as index:
            if why := self._objection(index, file):
                return ArtefactReceipt(refused=why)
            index.tell(file, sweep_id, now)
            if self._contents.has(file.sha256):
                return self._whole(index, file, now)
            arrived = self._look_up(file)
            if arrived.size == file.size:  # a writer was killed just before it was whole
                return self._kept(index, file, now)
            return ArtefactReceipt(held=arrived.size)

    def add(
        self, file: ArtefactFile, offset: int, frames: Sequence[bytes], now: float
    ) -> ArtefactReceipt:
        """See ArtefactWriter.add; a part that is damaged or does not follow changes nothing."""
        with self._storing() as index:
            said = index.told(file)
            if said is None or said.sha256 != file.sha256:
                return ArtefactReceipt(refused="it was not announced")
            if self._contents.has(file.sha256):
                return self._whole(index, file, now)
            arrived = self._look_up(file)
            size = _size_of(file, offset, frames)
            if offset != arrived.size or not size:
                return ArtefactReceipt(held=arrived.size)
            self._require_room(sum(map(len, frames)))
            key = file.agent_id, file.sha256
            del self._arrived[key]  # looked up again if it can't be written
            arrived = self._contents.append(*key, arrived, frames, size)
            self._arrived[key] = arrived
            if arrived.size == file.size:
                return self._kept(index, file, now)
            return ArtefactReceipt(held=arrived.size)

    def kept(self, pinned: Collection[str]) -> list[KeptContent]:
        """See ArtefactWriter.kept."""
        with self._storing() as index:
            return index.kept(pinned)

    def kept_bytes(self) -> int:
        """See ArtefactWriter.kept_bytes."""
        with self._storing() as index:
            return index.kept_bytes()

    def remove(self, sha256s: Collection[str], now: float) -> None:
        """See ArtefactWriter.remove."""
        with self._storing() as index:
            for sha256 in sha256s:
                self._contents.remove(sha256)
                index.expired(sha256, now)
            if self._contents.remove_stale(now - STALE_S):
                self._arrived.clear()

    def close(self) -> None:
        """Release the index."""
        if self._opened:
            self._opened.close()

    @cached_property
    def _contents(self) -> Contents:
        return Contents.of(self._folder)

    def _objection(self, index: ArtefactIndex, file: ArtefactFile) -> str:
        said = index.told(file)
        if said and said.came and said.sha256 != file.sha256:
            return "another content of it has come before"
        if said is None and index.files(file) >= self._most_files:
            return f"its attempt has {self._most_files} files already"
        size = index.size_of(file.sha256)
        return _DIFFERS if size is not None and size != file.size else ""

    def _look_up(self, file: ArtefactFile) -> Arrived:
        key = file.agent_id, file.sha256
        if key not in self._arrived:
            self._arrived[key] = self._contents.arrived(*key)
        if self._arrived[key].size > file.size:
            self._forget(file)
            self._arrived[key] = Arrived()
        return self._arrived[key]

    def _whole(self, index: ArtefactIndex, file: ArtefactFile, now: float) -> ArtefactReceipt:
        """Answer for a content that is whole, whoever has sent it."""
        size = index.size_of(file.sha256)
        if size is None:  # its writer was killed before it could say so
            size = sum(map(len, self._contents.read(file.sha256)))
        if size != file.size:
            return ArtefactReceipt(refused=_DIFFERS)
        index.arrived(file.sha256, size, self._contents.kept_bytes(file.sha256), now)
        self._forget(file)
        return ArtefactReceipt(held=size, whole=True)

    def _kept(self, index: ArtefactIndex, file: ArtefactFile, now: float) -> ArtefactReceipt:
        key = file.agent_id, file.sha256
        if not file.size:
            self._contents.append(*key, Arrived(), (), 0)
        self._arrived.pop(key, None)
        try:
            kept_bytes = self._contents.keep(*key, self._pause)
        except ContentDiffers as error:
            log.warning("an artefact of run %s begins again: %s", file.ref.run_id, error)
            return ArtefactReceipt(refused=_DIFFERS, damaged=True)
        index.arrived(file.sha256, file.size, kept_bytes, now)
        return ArtefactReceipt(held=file.size, whole=True)

    def _forget(self, file: ArtefactFile) -> None:
        self._arrived.pop((file.agent_id, file.sha256), None)
        self._contents.drop(file.agent_id, file.sha256)

    def _require_room(self, more: int) -> None:
        if self._free(self._folder) - more < self._room_bytes:
            seen = f"less than {self._room_bytes >> 20} MiB would be free on its disk"
            raise StoreUnavailable(str(self._folder), seen)

    @contextmanager
    def _storing(self) -> Iterator[ArtefactIndex]:
        try:
            if self._opened is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._opened = ArtefactIndex(self._folder / NAME, writable=True)
            yield self._opened
        except OSError as error:
            raise StoreUnavailable(str(self._folder), error.strerror or str(error)) from error


def _size_of(file: ArtefactFile, offset: int, frames: Sequence[bytes]) -> int:
    """Return the bytes of content that a part adds; 0 if it is damaged or doesn't fit."""
    try:
        sizes = [len(unpacked(frame)) for frame in frames]
    except FrameDamaged as error:
        log.warning("a part of an artefact of run %s is sent again: %s", file.ref.run_id, error)
        return 0
    size = sum(sizes)
    is_last = offset + size == file.size
    full = sizes[:-1] if is_last else sizes
    fits = offset + size <= file.size and all(one == FRAME_BYTES for one in full)
    return size if fits else 0


class ArtefactFolder:
    """What anyone may read of a head's artefact store; nothing, where none was ever made."""

    def __init__(self, folder: Path) -> None:
        self._index = folder / NAME
        self._folder = folder

    def rows(self, run_id: str) -> list[dict[str, Any]]:
        """Return what an ArtefactRecord of each file of a run takes, by attempt and name.

        Raises StoreUnavailable, StoreDamaged.
        """
        found = []
        with self._reading() as index:
            for row in index.of_run(run_id) if index else ():
                came, here = row.pop("came"), row.pop("here")
                if self._contents.place.is_near:
                    here = self._contents.has(row["sha256"])
                gone = ArtefactPlace.EXPIRED if came else ArtefactPlace.AGENT
                found.append({**row, "where": ArtefactPlace.HEAD if here else gone})
        return found

    def size_of(self, sha256: str) -> int | None:
        """Return the bytes of a content that is here; None of another."""
        if not self._contents.has(sha256):
            return None
        with self._reading() as index:
            return index.size_of(sha256) if index else None

    def names(self) -> list[str]:
        """Return the names of all files where contents are; raises StoreUnavailable."""
        return self._contents.names()

    def has(self, sha256: str) -> bool:
        """Return whether a content is here, whatever the index says."""
        return self._contents.has(sha256)

    def read(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a content from a byte on; raises StoreDamaged."""
        return self._contents.read(sha256, offset)

    @cached_property
    def _contents(self) -> Contents:
        return Contents.of(self._folder)

    @contextmanager
    def _reading(self) -> Iterator[ArtefactIndex | None]:
        if not self._index.is_file():
            yield None
            return
        index = ArtefactIndex(self._index, writable=False)
        try:
            yield index
        finally:
            index.close()
