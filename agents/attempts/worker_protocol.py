"""Listening to whatever does a job: JSON lines in, progress passed on, the outcome kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from controller.contracts.documents import DocumentRefused, checked_json
from controller.contracts.result import Failure, Result
from controller.contracts.wire import MESSAGE, Progress, StepBatch

GARBLED_BYTES = 2**10
"""So much of a line that is no message is kept."""


@dataclass(slots=True)
class MessageReader:
    """What has been said so far."""

    on_progress: Callable[[Progress], None]
    on_batch: Callable[[StepBatch], None] | None = None
    """None where no turns are taken: a turn is no message then."""
    last: Result | Failure | None = None
    began: bool = False
    """Whether a message has come."""
    garbled: str | None = None
    """The first line that was no message."""

    def take(self, line: bytes) -> None:
        """Take one line."""
        try:
            message = MESSAGE.validate_json(checked_json(line, len(line)))
        except (DocumentRefused, ValidationError):
            message = None
        self.began = self.began or message is not None
        if isinstance(message, Progress):
            self.on_progress(message)
        elif isinstance(message, StepBatch) and self.on_batch:
            self.on_batch(message)
        elif isinstance(message, Result | Failure):
            self.last = message
        else:
            self.garbled = self.garbled or line[:GARBLED_BYTES].decode(errors="replace").strip()
