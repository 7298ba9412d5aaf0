"""The files that a run's attempts left, as the head has them: which there are, and their contents.

Every verb, page and route finds "the artefacts of a run" here, through an ArtefactReader: the
head's own folder, or its API from elsewhere. The paths that an agent told are names only; nothing
is read there, since they are another host's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from controller.contracts.artefacts import ArtefactPlace, ArtefactRecord
from controller.contracts.errors import CopyDamaged, NotFound, StoreDamaged, UserError
from controller.contracts.records import OutcomeOrigin
from controller.platform.atomic import replacing
from controller.store.protocol import ArtefactReader

NAMED: Final = 5
"""Files that an error names."""
LATER: Final = "Repeat it later: files are sent while their host and the head measure nothing."
SEE_CHECK: Final = "Run `benchfarm store check` on the head; its agent may still have the file."
LOGS: Final = (
    "mlperf_log_summary.txt",
    "mlperf_log_detail.txt",
    "mlperf_log_accuracy.json",
    "mlperf_log_trace.json",
    "latencies_ns.npy",
)
"""LoadGen's files, and the raw latency of each query."""
MODES: Final = ("performance", "accuracy")
"""Folders of an attempt that hold them."""


def name_of(outcome: OutcomeOrigin, path: str) -> str:
    """Return the name of an attempt's file below its folder, of the path that its agent told.

    Empty for a path that is not in the attempt's folder.
    """
    return path.partition(f"/runs/{outcome.run_id}/{outcome.attempt}/")[2]


class RunFiles:
    """The files of one run that its agents have announced to the head."""

    def __init__(self, reader: ArtefactReader, run_id: str) -> None:
        """Nothing is read before it is asked for."""
        self.run_id = run_id
        self._reader = reader

    @cached_property
    def listed(self) -> list[ArtefactRecord]:
        """All of them, by attempt and name; none of an unknown run.

        Raises StoreUnavailable, and over the API UserError.
        """
        return self._reader.artefacts(self.run_id)

    def at_hand(self, attempt: int, name: str) -> ArtefactRecord:
        """Return a file that the head has; raises NotFound, which says where it is instead."""
        for one in self.listed:
            if (one.attempt, one.name) == (attempt, name):
                self.require_here(one)
                return one
        known = "the head knows of no such file" if self.listed else "the head has no copy of it"
        raise NotFound(self._tried(f"{attempt}/{name}"), known, LATER)

    def beside(self, one: ArtefactRecord, names: Sequence[str]) -> list[ArtefactRecord]:
        """Return the files of some names in the folder of another, all of which the head has.

        Raises NotFound if it knows of one and does not have it.
        """
        folder = PurePosixPath(one.name).parent
        wanted = {str(folder / name) for name in names}
        found = [f for f in self.listed if f.attempt == one.attempt and f.name in wanted]
        for file in found:
            self.require_here(file)
        return found

    def meant(self, names: Sequence[str]) -> list[ArtefactRecord]:
        """Return the files that some names or patterns mean, in the order of the list.

        A name is that of the list (`1/output.log`), or without its attempt. Raises NotFound for a
        name that means none, and for one that the head does not have.
        """
        for name in names:
            if not any(_is_meant(one, name) for one in self.listed):
                known = ", ".join(one.path for one in self.listed[:NAMED])
                more = " …" if len(self.listed) > NAMED else ""
                seen = (
                    f"the run has {known}{more}" if self.listed else "none of its files are known"
                )
                remedy = f"Run `benchfarm results artifacts {self.run_id}` to list them."
                raise NotFound(self._tried(repr(name)), seen, remedy)
        found = [one for one in self.listed if any(_is_meant(one, name) for name in names)]
        for one in found:
            self.require_here(one)
        return found

    def require_here(self, one: ArtefactRecord) -> None:
        """Raise NotFound unless the head has a file."""
        if one.where is ArtefactPlace.AGENT:
            seen = f"it is still with agent {one.agent_id}"
            raise NotFound(self._tried(one.path), seen, LATER)
        if one.where is ArtefactPlace.EXPIRED:
            remedy = "Look for it on its agent's host; tag a sweep `pinned` to keep its artifacts."
            raise NotFound(self._tried(one.path), "the head has kept it no longer", remedy)

    def pieces(self, one: ArtefactRecord) -> Iterator[bytes]:
        """Yield the content of a file that the head has.

        Raises CopyDamaged, in the end at the latest, if it is not what its checksum says; NotFound
        if it has just expired; FarmUnavailable.
        """
        whole, size = hashlib.sha256(), 0
        try:
            for piece in self._reader.artefact(one.sha256):
                size += len(piece)
                if size > one.size:
                    break
                whole.update(piece)
                yield piece
        except StoreDamaged as error:
            seen = "the head's copy cannot be read"  # why names files of the head
            raise CopyDamaged(self._tried(one.path), seen, SEE_CHECK) from error
        if (whole.hexdigest(), size) != (one.sha256, one.size):
            seen = "the head's copy is not what its checksum says"
            raise CopyDamaged(self._tried(one.path), seen, SEE_CHECK)

    def keep(self, one: ArtefactRecord, target: Path) -> None:
        """Write a file that the head has, whole or not at all; raises as `pieces`, and OSError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as new, new.open("xb") as file:
            for piece in self.pieces(one):
                file.write(piece)

    @contextmanager
    def fetched(self, files: Sequence[ArtefactRecord]) -> Iterator[Path]:
        """Give a folder that has files under their names, and is removed in the end.

        Raises as `pieces`, and UserError if there is no room for them.
        """
        with TemporaryDirectory(prefix="benchfarm-artifacts-") as folder:
            for one in files:
                try:
                    self.keep(one, Path(folder) / one.name)
                except OSError as error:
                    remedy = "Free some room, or set TMPDIR to a folder that has some."
                    seen = error.strerror or str(error)
                    raise UserError(self._tried(one.path), seen, remedy) from error
            yield Path(folder)

    def _tried(self, what: str) -> str:
        return f"read {what} of run {self.run_id}"


def _is_meant(one: ArtefactRecord, name: str) -> bool:
    return any(name == said or fnmatchcase(said, name) for said in (one.path, one.name))
