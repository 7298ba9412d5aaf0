"""Check of the head's artefact store: reads every content, to find what is missing, damaged, or of
no run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from controller.contracts.errors import StoreDamaged, StoreUnavailable
from controller.store.artefacts.folder import ArtefactFolder
from controller.store.artefacts.index import NAME, ArtefactIndex


@dataclass(frozen=True, slots=True)
class ArtefactFindings:
    """How many artefacts on the head are as they were sent, and a line about each that is not."""

    sound: int = 0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """A content as it was read. fault: why it is not what it is named; empty if it is."""

    size: int
    fault: str = ""


def check_artefacts(folder: Path) -> ArtefactFindings:
    """Read all contents of an artefact store; there are none where it was never made.

    What comes or expires meanwhile is no finding: the index is read after the contents.
    """
    store = ArtefactFolder(folder)
    try:
        read = {name: _read(store, name) for name in store.names()}
        if not (folder / NAME).is_file():
            return ArtefactFindings(0, tuple(_orphans(store, read)))
        with closing(ArtefactIndex(folder / NAME, writable=False)) as index:
            return _compared(store, index, read)
    except StoreUnavailable as error:
        return ArtefactFindings(0, (f"artifacts: {error.reason}",))


def _compared(
    store: ArtefactFolder, index: ArtefactIndex, read: Mapping[str, _Read]
) -> ArtefactFindings:
    sizes, counts = index.sizes(), index.counts()
    faults = dict(_faults(store, read, sizes))
    left = index.sizes()  # once more, for what retention has removed since
    lines = [
        f"artifact {index.shown(sha256)}: {why}" for sha256, why in faults.items() if sha256 in left
    ]
    unnamed = {name: one for name, one in read.items() if not (name in left and counts[name])}
    sound = sum(counts[sha256] for sha256 in sizes.keys() - faults.keys())
    return ArtefactFindings(sound, (*lines, *_orphans(store, unnamed)))


def _read(store: ArtefactFolder, name: str) -> _Read:
    found, size = hashlib.sha256(), 0
    try:
        for piece in store.read(name):
            found.update(piece)
            size += len(piece)
    except StoreDamaged as error:
        return _Read(size, error.reason)
    differs = "" if found.hexdigest() == name else "its content is not what its checksum says"
    return _Read(size, differs)


def _faults(
    store: ArtefactFolder, read: Mapping[str, _Read], sizes: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the contents that the index has. sizes: of them, in bytes."""
    for sha256, size in sorted(sizes.items()):
        one = read.get(sha256)
        if one is None:
            if not store.has(sha256):  # else it has come since
                yield sha256, "its content is missing"
        elif one.fault:
            yield sha256, one.fault
        elif one.size != size:
            yield sha256, f"its content has {one.size} bytes, not {size}"


def _orphans(store: ArtefactFolder, read: Mapping[str, _Read]) -> Iterator[str]:
    """Yield a line about each content that no run has, unless it is gone by now."""
    left = {*store.names()} if read else set()
    for name, one in read.items():
        if name in left:
            yield f"artifact content {name}: no run has it, {one.size} bytes; it can be removed"
