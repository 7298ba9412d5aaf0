"""The attempts whose artefacts the head does not have yet, on disk: they survive the agent."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from controller.contracts.documents import read_json
from controller.contracts.unreadable import UNREADABLE, reason
from controller.contracts.wire import AttemptRef
from controller.platform.atomic import write_private

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArtefactQueue:
    """A file for each attempt, kept until the head has its artefacts."""

    folder: Path

    def put(self, ref: AttemptRef) -> None:
        """Keep an attempt; called when its run has ended. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self._path(ref), ref.model_dump_json())

    def pending(self) -> list[AttemptRef]:
        """Return the attempts to send, oldest first; damaged files are left out."""
        found = []
        for path in sorted(self.folder.glob("*.json"), key=_written):
            try:
                found.append(read_json(AttemptRef, path))
            except UNREADABLE as error:
                log.error("artefacts are not sent, %s can't be read: %s", path, reason(error))
        return found

    def drop(self, ref: AttemptRef) -> None:
        """Forget an attempt; called once the head has all of it."""
        self._path(ref).unlink(missing_ok=True)

    def _path(self, ref: AttemptRef) -> Path:
        return self.folder / f"{ref.run_id}-{ref.attempt}.json"


def _written(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        return 0.0, path.name
