"""Artefacts that tests send to a head's store, without an agent."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from agents.sending import sizes_of_part
from controller.contracts.artefacts import ArtefactFile, ArtefactReceipt, ArtefactRecord
from controller.contracts.wire import AttemptRef
from controller.platform.frames import packed
from controller.store.artefacts.folder import ArtefactFolder, FolderArtefacts
from controller.store.artefacts.protocol import ArtefactWriter

SWEEP = "sweep-1"


def noise(size: int, seed: int = 1) -> bytes:
    """Return bytes that can't be compressed."""
    return random.Random(seed).randbytes(size)


def artefact(
    content: bytes,
    name: str = "output.log",
    run_id: str = "run-1",
    attempt: int = 1,
    agent: str = "host-1",
) -> ArtefactFile:
    """Return what an agent says of a file."""
    return ArtefactFile(
        ref=AttemptRef(run_id=run_id, attempt=attempt),
        agent_id=agent,
        name=name,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
    )


def part_of(content: bytes, held: int) -> list[bytes]:
    """Return the frames of the part that follows on what is held."""
    frames, start = [], held
    for size in sizes_of_part(held, len(content)):
        frames.append(packed(content[start : start + size]))
        start += size
    return frames


def sending(
    store: ArtefactWriter, file: ArtefactFile, content: bytes, now: float = 1.0
) -> Iterator[ArtefactReceipt]:
    """Send a file as an agent does, and yield each receipt."""
    receipt = store.offer(file, SWEEP, now)
    yield receipt
    while not receipt.whole and not receipt.refused:
        receipt = store.add(file, receipt.held, part_of(content, receipt.held), now)
        yield receipt


def send(
    store: ArtefactWriter, file: ArtefactFile, content: bytes, now: float = 1.0
) -> ArtefactReceipt:
    """Send a whole file; return the last receipt."""
    *_, last = sending(store, file, content, now)
    return last


LOG = b"Result is : VALID\n" * 5000
TRACE = noise(200_000)
RAW = noise(1000, seed=2)


def fill_artefacts(folder: Path, run_id: str) -> None:
    """Store a run's artefacts: some on the head, one still with its agent, one expired."""
    store = FolderArtefacts(folder, room_bytes=0)
    try:
        send(store, artefact(LOG, "performance/mlperf_log_summary.txt", run_id), LOG)
        send(store, artefact(TRACE, "trace.json", run_id, attempt=2), TRACE)
        store.offer(artefact(noise(10), "late.bin", run_id, attempt=2), SWEEP, 1.0)
        gone = artefact(RAW, "latencies_ns.npy", run_id)
        send(store, gone, RAW)
        store.remove([gone.sha256], 2.0)
    finally:
        store.close()


# --- what agents keep, brought home --------------------------------------------------------------


def bring_home(home: Path) -> None:
    """Send all that the agents of a home keep of their attempts to its artefact store."""
    agents = home / "agent"
    with closing(FolderArtefacts(home / "artefacts", room_bytes=0)) as store:
        for path in sorted(one for one in agents.rglob("*") if one.is_file()):
            parts = path.relative_to(agents).parts
            run_id, attempt, *name = parts[parts.index("runs") + 1 :]
            content = path.read_bytes()
            receipt = send(store, artefact(content, "/".join(name), run_id, int(attempt)), content)
            assert receipt.whole, receipt.refused


def announce(home: Path, name: str, run_id: str, attempt: int = 1) -> None:
    """Have an agent announce a file that it does not send yet."""
    with closing(FolderArtefacts(home / "artefacts", room_bytes=0)) as store:
        store.offer(artefact(noise(100, seed=9), name, run_id, attempt), SWEEP, 1.0)


class Head:
    """The artefacts of a head, to read; implements ArtefactReader."""

    def __init__(self, home: Path) -> None:
        self._folder = ArtefactFolder(home / "artefacts")

    def artefacts(self, run_id: str) -> list[ArtefactRecord]:
        """See ArtefactReader."""
        return [*map(ArtefactRecord.model_validate, self._folder.rows(run_id))]

    def artefact(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """See ArtefactReader."""
        return self._folder.read(sha256, offset)


def whole(home: Path, sha256: str) -> Path:
    """Return where the head has a content on its disk."""
    return home / "artefacts" / "content" / sha256[:2] / sha256


def copy_of(home: Path, name: str, run_id: str) -> Path:
    """Return where the head has the content of a run's file."""
    (sha256,) = {one.sha256 for one in Head(home).artefacts(run_id) if one.name == name}
    return whole(home, sha256)


def swap(home: Path, name: str, run_id: str, content: bytes) -> None:
    """Put another sound content in the place of a run's file, as a forger would."""
    name_of_other = hashlib.sha256(content).hexdigest()
    other = artefact(content, name_of_other, "another-run")
    with closing(FolderArtefacts(home / "artefacts", room_bytes=0)) as store:
        send(store, other, content)
    mine = copy_of(home, name, run_id)
    mine.write_bytes(whole(home, other.sha256).read_bytes())
