"""Outcomes the controller has not acknowledged yet, on disk: they survive the agent."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from controller.contracts.errors import BenchfarmError
from controller.contracts.wire import AttemptRef, Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outbox:
    """One file a report; kept until the controller has it."""

    folder: Path

    def put(self, report: Report) -> None:
        """Keep a report; called before the first try to send it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(report.ref)
        temporary = path.with_suffix(".tmp")
        with temporary.open("w") as file:
            file.write(report.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def pending(self) -> list[Report]:
        """Return what still has to be sent, in a stable order; damaged files are put aside."""
        reports = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                reports.append(Report.model_validate_json(path.read_bytes()))
            except ValidationError as error:
                path.replace(path.with_suffix(".damaged"))
                log.error("a kept outcome can't be read, see %s.damaged: %s", path.stem, error)
        return reports

    def drop(self, ref: AttemptRef) -> None:
        """Forget a report; called once the controller has acknowledged it."""
        self._path(ref).unlink(missing_ok=True)

    def refused(self, report: Report, why: BenchfarmError) -> None:
        """Put a report aside that the controller won't have: it is not sent again by itself."""
        path = self._path(report.ref)
        aside = path.with_suffix(".refused")
        try:
            if not path.exists():  # the disk was full
                self.put(report)
            path.replace(aside)
        except OSError as error:
            log.error("the controller refused an outcome (%s), which is lost: %s", why, error)
        else:
            log.error("the controller refused an outcome (%s), see %s", why, aside)

    def _path(self, ref: AttemptRef) -> Path:
        return self.folder / f"{ref.run_id}-{ref.attempt}.json"
