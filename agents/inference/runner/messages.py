"""The runner's messages on standard output: JSON lines, the last one its outcome.

They have the form of `Progress`, `Result` and `Failure` in controller/contracts, so an agent parses
them like a worker's.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

from agents.inference.runner.faults import RunnerFault

PROGRESS_PERIOD_S: Final = 1.0


class MessageWriter:
    """Writes the JSON lines of a worker; what libraries print goes to standard error."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    @staticmethod
    def claim_stdout() -> MessageWriter:
        """Reserve standard output for messages and redirect all other output to standard error."""
        stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        return MessageWriter(stream)

    def progress(self, phase: str, done: int, total: int, values: Mapping[str, float]) -> None:
        """Write the progress of the run."""
        self._say("progress", phase=phase, done=done, total=max(done, total), values=values)

    def result(self, facts: Mapping[str, Any]) -> None:
        """Write the result."""
        self._say("result", **facts)

    def failure(self, fault: RunnerFault) -> None:
        """Write why nothing was measured."""
        message = " ".join(fault.message.split())[:500]
        self._say("failure", blame=fault.blame, kind=fault.kind, message=message)

    def _say(self, said: str, /, **facts: object) -> None:
        self._stream.write(json.dumps({"type": said, **facts}, allow_nan=False) + "\n")
        self._stream.flush()


@contextmanager
def told_every_second(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` once a second from a thread of its own, to keep it off the measured path."""
    over = threading.Event()

    def keep_telling() -> None:
        while not over.wait(PROGRESS_PERIOD_S):
            tell()

    teller = threading.Thread(target=keep_telling, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
