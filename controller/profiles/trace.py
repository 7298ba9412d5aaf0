"""Chrome traces of torch.profiler, read as a stream: what ran on CPUs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import ijson

from controller.contracts.documents import DocumentRefused, JsonGuard, shown_json
from controller.profiles import waiting
from controller.profiles.errors import ProfileUnreadable

HEAD_BYTES = 64 * 2**10
MAX_RECORD_BYTES = 16 * 2**20
MAX_EXAMPLE = 160
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,20})\b')
Kind = tuple[str | None, ...]
"""Categories of events."""
OPS: Kind = ("cpu_op", "user_annotation", None)
"""None: events without a category, which are broken."""
PYTHON: Kind = (waiting.PYTHON,)
"""Only with `with_stack=True`; written after all other events."""
RUNTIME: Kind = waiting.RUNTIME
"""There with a GPU, after all ops and in any order; only those that wait are read."""
MOST_CATEGORIES = 32
RECORDING = "Trace"
"""Category of the profiler's own span, which is no event of the program."""
MOST_S = 86400.0
"""Of an event; a day, as of a line of a log. torch has written some below 0."""
MOST_SINCE_EPOCH_S = 2.0**33
NO_SEQUENCE = 2**63
"""Sequence numbers from here on belong to nodes without a forward op, such as AccumulateGrad."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event with a duration, on one thread."""

    name: str
    category: str
    thread: int
    start_s: float
    """Since the epoch if the trace has the start of its clock, as with torch >= 2.2."""
    seconds: float
    sequence: int | None = None
    """Autograd's sequence number of the node that a forward op creates, or that a backward op
    runs."""
    backward: bool = False
    dims: str = ""
    """Sizes of the inputs as JSON; the next three are JSON, too."""
    strides: str = ""
    dtypes: str = ""
    values: str = ""
    """Inputs that are not tensors."""


@dataclass(slots=True)
class TraceFacts:
    """Facts about a trace besides its events; complete once the last event is read."""

    events: int = 0
    """Of ops, annotations and Python."""
    skipped: int = 0
    example: str | None = None
    torn: bool = False
    """Whether the file is truncated."""
    broken: str | None = None
    """Why the file can't be read to its end, though it goes on."""
    process: object = None
    """The one whose events these are."""
    last_python_s: float | None = None
    """When the last function of Python began, of those that were read."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Category → events that lasted, and that nothing here reads: a GPU's kernels and copies."""

    def leave_out(self, category: str) -> None:
        """Count an event that is left out, by its category or, of very many, together."""
        known = category in self.left_out or len(self.left_out) < MOST_CATEGORIES
        self.left_out[category if known else "other"] += 1


class GuardedJson:
    """A file that is checked against the limits as it is read, before it is parsed."""

    def __init__(self, file: BinaryIO, most_a_record: int, records_at: int) -> None:
        self._file = file
        self._guard = JsonGuard(most_a_record, records_at)
        self.is_at_end = False

    def read(self, size: int = -1) -> bytes:
        """Return the next piece; raises DocumentRefused."""
        piece = self._file.read(size)
        while piece.endswith(b"\\") and (more := self._file.read(1)):
            piece += more
        self.is_at_end = not piece
        self._guard.feed(piece)
        return piece


def events(file: BinaryIO, facts: TraceFacts, source: str, kind: Kind) -> Iterator[Event]:
    """Yield the profiler's events of a kind in the order of the file, which is by start.

    Raises ProfileUnreadable for events of a second process, and at the end if the file had no event
    of torch.profiler.
    """
    base_s, where = _beginning(file, source)
    records_at = where.count(".") + 1
    read = GuardedJson(file, MAX_RECORD_BYTES, records_at)
    try:
        for record in ijson.items(read, where, use_float=True):
            event = _event(record, base_s, kind)
            if event:
                _check_process(record, facts, source)
                facts.events += kind != RUNTIME
                facts.last_python_s = event.start_s if kind == PYTHON else facts.last_python_s
                yield event
            elif _should_be_one(record, kind):
                facts.skipped += 1
                facts.example = facts.example or shown_json(record, MAX_EXAMPLE)
            elif category := _left_out(record, kind):
                facts.leave_out(category)
    except DocumentRefused as error:
        raise _unreadable(source, str(error)) from error
    except (ijson.JSONError, UnicodeDecodeError) as error:  # the latter of half a character
        if not facts.events and kind != RUNTIME:
            raise _unreadable(source, f"broken JSON: {error}") from error
        facts.torn = read.is_at_end
        facts.broken = None if read.is_at_end else str(error).partition("\n")[0]
    if not facts.events and kind != RUNTIME:
        raise _unreadable(source, "it has no events of torch.profiler's CPU ops")


def _beginning(file: BinaryIO, source: str) -> tuple[float, str]:
    """Return when the trace's clock started, and where in the file the events are."""
    begun = file.tell()
    start = file.read(HEAD_BYTES)
    file.seek(begun)
    text = start.lstrip()
    if text.startswith(b"["):
        return 0.0, "item"
    if not text.startswith(b"{"):
        raise _unreadable(source, "it is not JSON")
    # torch writes it before the events.
    base = _BASE.search(start.partition(b'"traceEvents"')[0])
    return (int(base[1]) * 1e-9 if base else 0.0), "traceEvents.item"


def _check_process(record: Mapping[str, object], facts: TraceFacts, source: str) -> None:
    """Raise ProfileUnreadable for an event of another process: threads and steps of two would mix.

    record: an event.
    """
    process = record.get("pid", facts.process)
    if facts.process not in (None, process):
        seen = f"it has ops of two processes, {facts.process} and {process}"
        raise ProfileUnreadable(f"read {source}", seen, "Give a trace of one process.")
    facts.process = process


def _event(
    record: Any,  # noqa: ANN401 - any JSON
    base_s: float,
    kind: Kind,
) -> Event | None:
    if not isinstance(record, dict) or record.get("ph") != "X":
        return None
    args = record.get("args") or {}
    if not isinstance(args, dict):
        return None
    try:
        if record["cat"] is None or record["cat"] not in kind:
            return None
        if kind == RUNTIME and not waiting.is_wait(record["cat"], str(record["name"])):
            return None
        sequence = args.get("Sequence number")
        return Event(
            name=str(record["name"]),
            category=record["cat"],
            thread=int(record["tid"]),
            start_s=base_s + _microseconds(record["ts"], -MOST_S, MOST_SINCE_EPOCH_S),
            seconds=_microseconds(record["dur"], 0.0, MOST_S),
            sequence=sequence if isinstance(sequence, int) and sequence < NO_SEQUENCE else None,
            backward=bool(args.get("Fwd thread id")),
            dims=_text(args, "Input Dims"),
            strides=_text(args, "Input Strides"),
            dtypes=_text(args, "Input type"),
            values=_text(args, "Concrete Inputs"),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _microseconds(
    number: Any,  # noqa: ANN401 - any JSON
    least_s: float,
    most_s: float,
) -> float:
    """Return seconds; raises ValueError unless a program's clock can tell them."""
    if not least_s <= (seconds := float(number) * 1e-6) < most_s:
        raise ValueError("no time that a program takes")
    return seconds


def _should_be_one(record: Any, kind: Kind) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a record that can't be parsed is a broken event, and not one of another
    kind."""
    if not isinstance(record, dict):
        return None in kind
    if kind == RUNTIME and not waiting.is_wait(str(record.get("cat")), str(record.get("name"))):
        return False
    return record.get("ph") == "X" and record.get("cat") in kind


def _left_out(record: Any, kind: Kind) -> str | None:  # noqa: ANN401 - any JSON
    """Return the category of what lasted and is no event of any kind; of a runtime's, in turn."""
    if not isinstance(record, dict) or record.get("ph") != "X":
        return None
    category = str(record.get("cat"))[:40]
    if category in RUNTIME:
        return category if kind == RUNTIME else None
    read = (*PYTHON, RECORDING)
    return category if kind == OPS and category not in read else None


def _text(args: dict[str, Any], name: str) -> str:
    value = args.get(name)
    return json.dumps(value) if value else ""


def _unreadable(source: str, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {source}",
        seen,
        "Give a oneDNN verbose log, or a CPU trace of torch.profiler's export_chrome_trace.",
    )
