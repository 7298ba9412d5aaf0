"""Listening to whatever does a job: JSON lines in, progress passed on, the outcome kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from controller.contracts.result import Failure, Result
from controller.contracts.wire import MESSAGE, Progress


@dataclass(slots=True)
class Hearing:
    """What has been said so far."""

    on_progress: Callable[[Progress], None]
    last: Result | Failure | None = None
    garbled: str | None = None
    """The first line that was no message."""

    def take(self, line: bytes) -> None:
        """Take one line."""
        try:
            message = MESSAGE.validate_json(line)
        except ValidationError:
            self.garbled = self.garbled or line.decode(errors="replace").strip()
            return
        if isinstance(message, Progress):
            self.on_progress(message)
        else:
            self.last = message
