"""oneDNN's verbose logs, read as a stream: https://uxlfoundation.github.io/oneDNN, Verbose Mode.

A line that tells of an execution is, from 1.0 on,

    MARKER[,v1][,TIMESTAMP][,primitive],exec,ENGINE,PRIMITIVE,…,PROBLEM,MILLISECONDS

with MARKER `mkldnn_verbose` in 1.0, `dnnl_verbose` from 1.1, `onednn_verbose` from 2.7 on,
`primitive` from 3.3 and `v1` from 3.5 on. From `exec,` to the time all is the same for every
execution of one primitive: its *body*. Only the distinct ones are taken apart (`primitive.py`), so
that a line costs little more than finding its two ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

CHUNK_BYTES = 2**20
MOST_S = 86400.0
"""No primitive takes a day: such a time is a torn line."""
BODY_COMMAS = (6, 7)
"""Commas in ENGINE,PRIMITIVE,IMPLEMENTATION,KIND,MEMORY[,ATTRIBUTES],AUXILIARY,PROBLEM; early
releases had no attributes."""
MAX_EXAMPLE = 160
"""Characters of a skipped line that are kept to be shown."""

_MARKERS = (b"onednn_verbose", b"dnnl_verbose", b"mkldnn_verbose")
_EXEC = b",exec,"
_OTHER = re.compile(
    rb"\w+_verbose,(?:v\d+,)?(?:\d+\.?\d*,)?"
    rb"(?:info,|(?:primitive,)?(?:info,|create|error|warn)|graph,|ukernel,|common,)"
)
"""What oneDNN tells besides executions of primitives."""
_STARTED = re.compile(rb",(\d{6,}\.?\d*)(?:,|$)")
_LIBRARY = re.compile(rb",info,(?:oneDNN|DNNL|Intel MKL-DNN) v([\w.]+)")
_ISA = re.compile(rb",info,(?:cpu,isa:|Detected ISA is )([^\r\n]+)")
_THREADS = re.compile(rb",info,cpu,runtime:(\w+)(?:,nthr:(\d+))?")


@dataclass(slots=True)
class LogFacts:
    """What a log says of itself, and what in it was no execution."""

    libraries: list[str] = field(default_factory=list)
    """Versions of oneDNN as they first appear: several, where logs were put together."""
    isa: str | None = None
    runtime: str | None = None
    threads: int | None = None
    told: int = 0
    """Lines of oneDNN's that tell of something else: headers, creations, graphs."""
    skipped: int = 0
    example: str | None = None
    """The first line that was skipped."""

    def skip(self, line: bytes) -> None:
        """Count a line that says nothing we know."""
        self.skipped += 1
        if self.example is None:
            self.example = line.decode(errors="replace").strip()[:MAX_EXAMPLE]


def executions(file: BinaryIO, facts: LogFacts) -> Iterator[tuple[bytes, bytes, float]]:
    """Yield head, body and seconds of every execution in order; `facts` is complete at the end.

    A body that was not met before is well-formed: `_is_body` has seen it.
    """
    known: set[bytes] = set()
    for chunk in _whole_lines(file):
        for line in chunk.split(b"\n"):
            head, found, rest = line.partition(_EXEC)
            body, _, milliseconds = rest.rpartition(b",")
            if not found or (body not in known and not _is_body(head, body)):
                _note_other(line, facts)
                continue
            try:
                seconds = float(milliseconds) * 1e-3
            except ValueError:
                facts.skip(line)
                continue
            if not head.startswith(_MARKERS) or not 0 <= seconds < MOST_S:
                facts.skip(line)
                continue
            known.add(body)
            yield head, body, seconds


def started_s(head: bytes) -> float | None:
    """Return when an execution began, in seconds since the epoch; None without a timestamp."""
    found = _STARTED.search(head)
    return float(found[1]) * 1e-3 if found else None


@dataclass(slots=True)
class Total:
    """All executions of one body: how many, and seconds."""

    calls: int = 0
    seconds: float = 0.0
    least: float = float("inf")
    most: float = 0.0


def totals(file: BinaryIO, facts: LogFacts) -> dict[bytes, Total]:
    """Add up the executions of each body: the way through a log of any size."""
    found: dict[bytes, Total] = {}
    for _, body, seconds in executions(file, facts):
        total = found.get(body)
        if total is None:
            total = found[body] = Total()
        total.calls += 1
        total.seconds += seconds
        if seconds < total.least:
            total.least = seconds
        if seconds > total.most:
            total.most = seconds
    return found


def _is_body(head: bytes, body: bytes) -> bool:
    """Whether a body that was not met before has as many fields as one must have."""
    return head.startswith(_MARKERS) and body.count(b",") in BODY_COMMAS


def _note_other(line: bytes, facts: LogFacts) -> None:
    if not line.strip():
        return
    if not line.startswith(_MARKERS) or not _OTHER.match(line):
        facts.skip(line)
        return
    facts.told += 1
    _note_header(line, facts)


def _note_header(line: bytes, facts: LogFacts) -> None:
    if library := _LIBRARY.search(line):
        if (name := library[1].decode()) not in facts.libraries:
            facts.libraries.append(name)
    elif isa := _ISA.search(line):
        facts.isa = isa[1].decode(errors="replace").strip()
    elif threads := _THREADS.search(line):
        facts.runtime = threads[1].decode()
        facts.threads = int(threads[2]) if threads[2] else None


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield chunks that end with a line's end; a line of more than a chunk is cut."""
    rest = b""
    while data := file.read(CHUNK_BYTES):
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        elif len(rest) < CHUNK_BYTES:
            rest += data
        else:
            yield rest + b"\n"
            rest = data
    if rest:
        yield rest
