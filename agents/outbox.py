"""Outcomes the controller has not acknowledged yet, on disk: they survive the agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controller.contracts.wire import AttemptRef, Report


@dataclass(frozen=True, slots=True)
class Outbox:
    """One file a report; kept until the controller has it."""

    folder: Path

    def put(self, report: Report) -> None:
        """Keep a report; called before the first try to send it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(report.ref)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(report.model_dump_json())
        temporary.replace(path)

    def pending(self) -> list[Report]:
        """Return what still has to be sent, in a stable order."""
        return [
            Report.model_validate_json(p.read_text()) for p in sorted(self.folder.glob("*.json"))
        ]

    def drop(self, ref: AttemptRef) -> None:
        """Forget a report; called once the controller has acknowledged or refused it."""
        self._path(ref).unlink(missing_ok=True)

    def _path(self, ref: AttemptRef) -> Path:
        return self.folder / f"{ref.run_id}-{ref.attempt}.json"
