"""Parsing of a worker's JSON-lines output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from controller.contracts.documents import DocumentRefused, checked_json
from controller.contracts.result import Failure, Result
from controller.contracts.wire import MESSAGE, Progress, StepBatch

MESSAGE_BYTES = 2**20
"""Largest message of a device's runner, in bytes; latencies come as files."""
GARBLED_BYTES = 2**10
"""Bytes kept of a line that is not a message."""


@dataclass(slots=True)
class MessageReader:
    """Parses a worker's messages: passes progress on, and keeps the outcome."""

    on_progress: Callable[[Progress], None]
    on_batch: Callable[[StepBatch], None] | None = None
    """Receives batches; if None, a StepBatch is not a valid message."""
    most_bytes: int = MESSAGE_BYTES
    """Largest message; a longer line is not one."""
    last: Result | Failure | None = None
    began: bool = False
    """Whether a message has come."""
    garbled: str | None = None
    """The first line that was not a message."""

    def take(self, line: bytes) -> None:
        """Parse one line."""
        try:
            message = MESSAGE.validate_json(checked_json(line, self.most_bytes))
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
