"""Reading of a trace file: its attribution, and the events that could not be read."""

from __future__ import annotations

import gzip
import io
import math
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from heapq import merge
from pathlib import Path
from typing import Any, BinaryIO, cast

from controller.profiles.attribution import Attribution, attribute
from controller.profiles.timeline import MOST_FRAMES
from controller.profiles.trace import OPS, PYTHON, RUNTIME, Event, TraceFacts, events

_GZIP = b"\x1f\x8b"
_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class TraceRead:
    """A trace that was read to its end."""

    name: str
    found: Attribution
    facts: TraceFacts
    has_python: bool = False
    """Whether it has functions of Python, which are behind all ops."""
    left_out: int = 0
    """Its last steps, which may lack events of a file that is cut."""

    @property
    def is_cut(self) -> bool:
        """Return whether the file has more than was read, or had."""
        return self.facts.torn or self.facts.broken is not None

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
            f"{self.name} has broken JSON, behind which it is not read: {self.facts.broken}": (
                self.facts.broken
            ),
            f"last steps of {self.name} that may lack events are left out: {self.left_out}": (
                self.left_out
            ),
            f"{self.name} may lack modules and waiting: Python's functions are its end": (
                self.is_cut and self.has_python
            ),
            f"{late} events of {self.name} are out of order, and left out": late,
        }
        return tuple(note for note, is_so in told.items() if is_so)

    @property
    def timeline_notes(self) -> tuple[str, ...]:
        """Return what its timeline has not."""
        short = self.found.short
        told = {
            f"the {short:,} shortest spans are not in the timeline": short,
            f"no timeline: every step has more than {MOST_FRAMES:,} events": (
                self.found.marked and self.found.steps and not self.found.spans
            ),
        }
        return tuple(note for note, is_so in told.items() if is_so)


def read_whole_steps(path: Path) -> TraceRead:
    """Read a trace without the steps that a file which is cut may have in part, if others are left.

    These are those from where it is cut, in the ops or in Python's functions behind them. Raises
    ProfileUnreadable and OSError.
    """
    trace = read_trace(path)
    starts_s, last_s = trace.found.step_starts_s, trace.facts.last_python_s
    begun = sum(last_s is None or start_s <= last_s for start_s in starts_s)
    if not trace.is_cut or begun < 2:
        return trace
    whole = read_trace(path, until_s=starts_s[begun - 1])
    return replace(whole, left_out=len(starts_s) - begun + 1)


def read_trace(
    path: Path,
    beside: Iterable[Event] = (),
    *,
    load_apart: bool = False,
    until_s: float = math.inf,
) -> TraceRead:
    """Read a trace as a stream, merged with other events; raises ProfileUnreadable and OSError.

    torch writes Python functions after all ops, so the file is then read at two places at a time.
    Calls of a GPU's runtime are in no order: those that wait are read before, and sorted.
    load_apart: loading a batch is no part of a step. until_s: what begins later is left out.
    """
    facts = TraceFacts()
    seen = words_in(path, [f'"{kind}"'.encode() for kind in (*PYTHON, *RUNTIME)])
    kinds = [OPS, PYTHON] if f'"{PYTHON[0]}"'.encode() in seen else [OPS]
    with ExitStack() as files:
        streams: list[Iterable[Event]] = [
            events(files.enter_context(open_file(path)), facts, str(path), kind) for kind in kinds
        ]
        if any(f'"{kind}"'.encode() in seen for kind in RUNTIME):
            with open_file(path) as file:
                streams.append(sorted(events(file, facts, str(path), RUNTIME), key=_order))
        read = merge(*streams, beside, key=_order)
        found = attribute((e for e in read if e.start_s < until_s), load_apart=load_apart)
    return TraceRead(path.name, found, facts, has_python=PYTHON in kinds)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed if it is gzip; raises OSError and zlib.error.

    It is read from behind a byte order mark. A gzip file that is cut off ends there, as a plain one
    does.
    """
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    found = cast("BinaryIO", io.BufferedReader(_Unpacked(path))) if packed else path.open("rb")
    try:
        if found.read(len(BOM_UTF8)) != BOM_UTF8:
            found.seek(0)
    except BaseException:
        found.close()
        raise
    return found


def is_cut_gzip(file: BinaryIO) -> bool:
    """Return whether a file of `open_file`, read to its end, is gzip that was cut off."""
    raw = getattr(file, "raw", None)
    return isinstance(raw, _Unpacked) and raw.is_cut


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, up to where the file ends."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = gzip.GzipFile(path)
        self.is_cut = False
        """Whether its end was reached, and is none of gzip's."""

    def readable(self) -> bool:
        """See io.IOBase."""
        return True

    def seekable(self) -> bool:
        """See io.IOBase."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io.IOBase."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """See io.IOBase."""
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any buffer
        """See io.RawIOBase; raises zlib.error and OSError for damage."""
        try:
            piece = self._file.read1(len(buffer))  # `read` would lose what is before a cut
        except EOFError:
            self.is_cut, piece = True, b""
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """See io.IOBase."""
        self._file.close()
        super().close()


def _order(event: Event) -> tuple[float, float]:
    """Return the merge key of an event: its start; of two with the same start, the longer one is
    first."""
    return event.start_s, -event.seconds


def words_in(path: Path, words: Sequence[bytes]) -> frozenset[bytes]:
    """Return which of some words a file holds; raises OSError."""
    rest, missing = b"", set(words)
    longest = max(map(len, words))
    with open_file(path) as file:
        while missing and (chunk := file.read(_CHUNK_BYTES)):
            seen = rest + chunk
            missing = {word for word in missing if word not in seen}
            rest = seen[-longest:]
    return frozenset(words) - missing
