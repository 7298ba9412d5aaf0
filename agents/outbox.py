"""Outcomes that the controller has not acknowledged yet, on disk: they survive the agent."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from agents.link import ControllerFailed
from controller.contracts.documents import DocumentRefused, checked_json, read_limited
from controller.contracts.errors import BenchfarmError
from controller.contracts.unreadable import UNREADABLE, reason
from controller.contracts.wire import AttemptRef, Report
from controller.platform.atomic import write_private

log = logging.getLogger(__name__)

MAX_REPORT_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class Outbox:
    """A file for each report, kept until the controller has it.

    The first line is the report, the second its SHA-256, so that a measurement damaged on disk is
    not sent.
    """

    folder: Path

    def put(self, report: Report) -> None:
        """Keep a report; called before the first try to send it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(report.ref)
        said = report.model_dump_json()
        write_private(path, f"{said}\n{_checksum(said.encode())}\n")

    def pending(self) -> list[Report]:
        """Return the reports to send, in a stable order; damaged files are set aside."""
        reports = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                reports.append(_report(path))
            except UNREADABLE as error:
                aside = path.with_suffix(".damaged")
                log.error("a kept outcome can't be read, see %s: %s", aside, reason(error))
                _put_aside(path, aside)
        return reports

    def drop(self, ref: AttemptRef) -> None:
        """Forget a report; called once the controller has acknowledged it."""
        self._path(ref).unlink(missing_ok=True)

    def refused(self, report: Report, why: BenchfarmError | ControllerFailed) -> None:
        """Set aside a report that the controller refuses, or can't take; it is not sent again
        automatically."""
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


def _report(path: Path) -> Report:
    """Return the report that `put` wrote; raises one of UNREADABLE."""
    said, _, checksum = read_limited(path, MAX_REPORT_BYTES).partition(b"\n")
    if checksum != f"{_checksum(said)}\n".encode():
        raise DocumentRefused("its checksum does not match")
    return Report.model_validate_json(checked_json(said, MAX_REPORT_BYTES))


def _checksum(said: bytes) -> str:
    return hashlib.sha256(said).hexdigest()


def _put_aside(path: Path, aside: Path) -> None:
    try:
        path.replace(aside)
    except OSError as error:
        log.error("%s stays where it is: %s", path, error)
