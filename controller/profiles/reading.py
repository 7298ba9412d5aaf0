"""Reading of a trace file: its attribution, and the events that could not be read."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import BinaryIO, cast

from controller.profiles.attribution import Attribution, attribute
from controller.profiles.trace import OPS, PYTHON, RUNTIME, Event, TraceFacts, events

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
        counts = sorted(self.facts.left_out.items(), key=lambda item: -item[1])
        left_out = ", ".join(f"{count:,} {category}" for category, count in counts)
        told = {
            f"left out of {self.name}, which is read for what ran on CPUs: {left_out}": left_out,
            f"{self.name} ends in the middle of the trace": self.facts.torn,
            f"{late} events of {self.name} are out of order, and left out": late,
        }
        return tuple(note for note, is_so in told.items() if is_so)

    @property
    def timeline_notes(self) -> tuple[str, ...]:
        """Return what its timeline has not."""
        short = self.found.short
        return (f"the {short:,} shortest spans are not in the timeline",) if short else ()


def read_trace(path: Path, beside: Iterable[Event] = (), *, load_apart: bool = False) -> TraceRead:
    """Read a trace as a stream, merged with other events; raises ProfileUnreadable and OSError.

    torch writes Python functions after all ops, so the file is then read at two places at a time.
    Calls of a GPU's runtime are in no order: those that wait are read before, and sorted.
    load_apart: loading a batch is no part of a step.
    """
    facts = TraceFacts()
    seen = _words_in(path, [f'"{kind}"'.encode() for kind in (*PYTHON, *RUNTIME)])
    kinds = [OPS, PYTHON] if f'"{PYTHON[0]}"'.encode() in seen else [OPS]
    with ExitStack() as files:
        streams: list[Iterable[Event]] = [
            events(files.enter_context(open_file(path)), facts, str(path), kind) for kind in kinds
        ]
        if any(f'"{kind}"'.encode() in seen for kind in RUNTIME):
            with open_file(path) as file:
                streams.append(sorted(events(file, facts, str(path), RUNTIME), key=_order))
        found = attribute(merge(*streams, beside, key=_order), load_apart=load_apart)
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


def _words_in(path: Path, words: Sequence[bytes]) -> frozenset[bytes]:
    """Return which of some words a file holds."""
    rest, missing = b"", set(words)
    longest = max(map(len, words))
    with open_file(path) as file:
        while missing and (chunk := file.read(_CHUNK_BYTES)):
            seen = rest + chunk
            missing = {word for word in missing if word not in seen}
            rest = seen[-longest:]
    return frozenset(words) - missing
