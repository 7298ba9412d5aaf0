"""Reading of a trace file: its attribution, and the events that could not be read."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import BinaryIO, cast

from controller.profiles.attribution import Attribution, attribute
from controller.profiles.trace import OPS, PYTHON, Event, TraceFacts, events

_GZIP = b"\x1f\x8b"
_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class TraceRead:
    """A trace that was read to its end."""

    name: str
    found: Attribution
    facts: TraceFacts

    @property
    def skipped(self) -> int:
        """Return the number of events that were left out."""
        return self.facts.skipped + self.found.disordered

    @property
    def example(self) -> str | None:
        """Return one of them."""
        return self.facts.example or self.found.example

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on doubtful figures."""
        late = self.found.disordered
        told = {
            f"{self.name} ends in the middle of the trace": self.facts.torn,
            f"{late} events of {self.name} are out of order, and left out": late,
        }
        return tuple(note for note, is_so in told.items() if is_so)


def read_trace(path: Path, beside: Iterable[Event] = ()) -> TraceRead:
    """Read a trace as a stream, merged with other events; raises ProfileUnreadable and OSError.

    torch writes Python functions after all ops, so the file is then read at two places at a time.
    """
    facts = TraceFacts()
    kinds = [OPS, PYTHON] if _has(path, b'"python_function"') else [OPS]
    with ExitStack() as files:
        streams = [
            events(files.enter_context(open_file(path)), facts, str(path), kind) for kind in kinds
        ]
        found = attribute(merge(*streams, beside, key=_order))
    return TraceRead(path.name, found, facts)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed if it is gzip; raises OSError."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path, "rb")) if packed else path.open("rb")


def _order(event: Event) -> tuple[float, float]:
    """Return the merge key of an event: its start; of two with the same start, the longer one is
    first."""
    return event.start_s, -event.seconds


def _has(path: Path, word: bytes) -> bool:
    rest = b""
    with open_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            if word in (seen := rest + chunk):
                return True
            rest = seen[-len(word) :]
    return False
