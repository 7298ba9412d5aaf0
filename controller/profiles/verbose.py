"""oneDNN's verbose logs, read as a stream: https://uxlfoundation.github.io/oneDNN, Verbose Mode.

Since 1.0, the line of an execution is

    MARKER[,v1][,TIMESTAMP][,primitive],exec,ENGINE,PRIMITIVE,…,PROBLEM,MILLISECONDS

with MARKER `mkldnn_verbose` in 1.0, `dnnl_verbose` from 1.1, `onednn_verbose` from 2.7 on,
`primitive` from 3.3 and `v1` from 3.5 on. The text between `exec,` and the time is the same for
every execution of one primitive: its *body*. Only distinct bodies are parsed (`primitive.py`); in
each line, only the two ends of its body are searched (`verbose_columns.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, TypeVar

import numpy as np

from controller.profiles.repeating import Order
from controller.profiles.verbose_columns import EXEC, MARKERS, MOST_S, Executions, executions_of

CHUNK_BYTES = 2**21
HEAD_BYTES = 2**16
MAX_EXAMPLE = 160
"""Characters kept of a skipped line."""

_OTHER = re.compile(
    rb"(?:onednn|dnnl|mkldnn)_verbose,(?:v\d+,)?(?:\d{1,20}(?:\.\d{0,20})?,)?"
    rb"(?:info,|(?:primitive,)?(?:info,|create|error|warn)|graph,|ukernel,|common,)"
)
"""oneDNN's lines other than executions."""
_STARTED = re.compile(rb",(\d{6,20}(?:\.\d{0,20})?)(?:,|$)")
_LIBRARY = re.compile(rb",info,(?:oneDNN|DNNL|Intel MKL-DNN) v([\w.]{1,40})")
_ISA = re.compile(rb",info,(?:cpu,isa:|Detected ISA is )([^\r\n]{1,200})")
_THREADS = re.compile(rb",info,cpu,runtime:(\w+)(?:,nthr:(\d{1,6})\b)?")
_BEGAN = re.compile(rb"_verbose,(?:v\d+,)?(\d{9,16}(?:\.\d{0,20})?),")
_CREATE = b",create"
_ENGINES = (b"cpu", b"gpu")
_Fact = TypeVar("_Fact")
MOST_BODIES = 100_000
"""Of which the executions are added up apart: each is a row, of some 4 kB."""
LONGEST_HEAD = 80
"""Bytes of a line before its body, at most."""
MOST_KINDS = 16
"""Of creations, releases and other facts: a log that names more is damaged."""


@dataclass(slots=True)
class Total:
    """The number and the seconds of all executions of one body."""

    calls: int = 0
    seconds: float = 0.0
    least: float = float("inf")
    most: float = 0.0


@dataclass(slots=True)
class LogFacts:
    """Facts about a log besides its executions."""

    libraries: list[str] = field(default_factory=list)
    """Versions of oneDNN in order of appearance; several if logs were concatenated."""
    headers: int = 0
    """How often oneDNN's first lines come, which each copy of it in a process prints once."""
    isas: list[str] = field(default_factory=list)
    """Instruction sets by those lines, each once."""
    runtime: str | None = None
    thread_counts: list[int] = field(default_factory=list)
    """Numbers of threads by those lines, each once."""
    told: int = 0
    """oneDNN's lines about other things: headers, creations, graphs."""
    skipped: int = 0
    example: str | None = None
    """The first line that was skipped."""
    before: tuple[str, str] | None = None
    """What stands before oneDNN's marker in the first execution that was skipped for it, and the
    marker."""
    created: dict[bytes, tuple[int, float]] = field(default_factory=dict)
    """How creations went (`cache_miss`, `cache_hit` …) → how many, and seconds."""
    began_s: float | None = None
    """When its first line with a timestamp was written, in seconds since the epoch."""
    torn: bool = False
    """It ends in the middle of a line."""
    beyond: Total = field(default_factory=Total)
    """Executions of primitives that are not added up apart, after very many others."""

    @property
    def isa(self) -> str | None:
        """Return the instruction set; None if none is told, or several are."""
        return self.isas[0] if len(self.isas) == 1 else None

    @property
    def threads(self) -> int | None:
        """Return the number of threads; None if none is told, or several are."""
        return self.thread_counts[0] if len(self.thread_counts) == 1 else None

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Return what is not known since oneDNN's first lines tell it in several ways."""
        told: dict[str, Sequence[object]] = {
            "threads are": self.thread_counts,
            "the instruction set is": self.isas,
        }
        return tuple(
            f"{what} not known: {' or '.join(map(str, ways))}"
            for what, ways in told.items()
            if len(ways) > 1
        )

    @property
    def notes(self) -> Iterator[str]:
        """Yield what makes the figures less sure."""
        if self.torn:
            yield "the log ends in the middle of a line: it is cut off, and maybe its time"
        if self.beyond.calls:
            yield (
                f"{self.beyond.calls:,} executions, of {self.beyond.seconds:.4g} s, are in no row: "
                "the log has too many different ones"
            )

    def skip(self, line: bytes) -> None:
        """Count a line that is not understood."""
        self.skipped += 1
        if self.example is None:
            self.example = line.decode(errors="replace").strip()[:MAX_EXAMPLE]
        self.before = self.before or _before(line)


def _before(line: bytes) -> tuple[str, str] | None:
    """Return what stands before a marker in an execution's line, and the marker; None without."""
    for marker in MARKERS:
        at = line.find(marker + b",")
        if at > 0 and line.find(EXEC, at) > 0:
            return line[:at].decode(errors="replace")[:MAX_EXAMPLE], marker.decode()
    return None


def executions(file: BinaryIO, facts: LogFacts) -> Iterator[tuple[bytes, bytes, float]]:
    """Yield head, body and seconds of every execution in order; `facts` is complete at the end.

    A body has at least the required number of fields.
    """
    for found in _by_chunk(file, facts):
        bodies = [found.bodies[i] for i in found.which.tolist()]
        yield from zip(found.heads(), bodies, found.seconds.tolist(), strict=True)


def facts_of(log: BinaryIO) -> LogFacts:
    """Return the facts about a log besides its executions."""
    facts = LogFacts()
    totals(log, facts)
    return facts


def started_s(head: bytes) -> float | None:
    """Return the start of an execution in seconds since the epoch; None without a timestamp."""
    found = _STARTED.search(head)
    return float(found[1]) * 1e-3 if found else None


def totals(
    file: BinaryIO,
    facts: LogFacts,
    order: Order | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    most_bodies: int = MOST_BODIES,
) -> dict[bytes, Total]:
    """Add up the executions of each body: the way through a log of any size.

    order: keeps which body each has, unless there are more than most_bodies.
    """
    found: dict[bytes, Total] = {}
    for chunk in _by_chunk(file, facts, chunk_bytes):
        if order is not None and not facts.beyond.calls:
            order.add(chunk.bodies, chunk.which)
        many = len(chunk.bodies)
        least, most = np.full(many, np.inf), np.zeros(many)
        np.minimum.at(least, chunk.which, chunk.seconds)
        np.maximum.at(most, chunk.which, chunk.seconds)
        calls = np.bincount(chunk.which, minlength=many)
        spent = np.bincount(chunk.which, chunk.seconds, many)
        for i in np.flatnonzero(calls).tolist():
            total = found.get(chunk.bodies[i])
            if total is None:
                is_kept = len(found) < most_bodies
                total = found.setdefault(chunk.bodies[i], Total()) if is_kept else facts.beyond
            total.calls += int(calls[i])
            total.seconds += float(spent[i])
            total.least = min(total.least, float(least[i]))
            total.most = max(total.most, float(most[i]))
    return found


def _by_chunk(
    file: BinaryIO, facts: LogFacts, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Executions]:
    for chunk in _whole_lines(file, chunk_bytes):
        facts.torn = not chunk.endswith(b"\n")
        if facts.began_s is None and (began := _BEGAN.search(chunk, 0, HEAD_BYTES)):
            facts.began_s = float(began[1]) * 1e-3
        found = executions_of(chunk)
        for line in found.others():
            _note_other(line, facts)
        yield found


def _note_other(line: bytes, facts: LogFacts) -> None:
    if _OTHER.match(line):
        facts.told += 1
        if (at := line.find(_CREATE, 0, LONGEST_HEAD)) >= 0:
            _note_creation(line, at + len(_CREATE), facts)
        elif b",info," in line:
            _note_header(line, facts)
    elif line.strip():
        facts.skip(line)


def _note_header(line: bytes, facts: LogFacts) -> None:
    if library := _LIBRARY.search(line):
        facts.headers += 1
        _keep(library[1].decode(), facts.libraries)
    elif isa := _ISA.search(line):
        _keep(isa[1].decode(errors="replace").strip(), facts.isas)
    elif threads := _THREADS.search(line):
        facts.runtime = threads[1].decode()
        if threads[2]:
            _keep(int(threads[2]), facts.thread_counts)


def _keep(one: _Fact, of: list[_Fact]) -> None:
    """Add what is told for the first time."""
    if one not in of and len(of) < MOST_KINDS:
        of.append(one)


def _note_creation(line: bytes, start: int, facts: LogFacts) -> None:
    """Count a creation; of `…,create:HOW,ENGINE,…,MILLISECONDS`, start is where `:HOW` begins."""
    end = line.find(b",", start)
    if not line.startswith(_ENGINES, end + 1):
        return  # why an implementation was not chosen: no time is told
    try:
        seconds = float(line[line.rfind(b",") + 1 :]) * 1e-3
    except ValueError:
        return
    if 0 <= seconds < MOST_S:
        how = line[start + 1 : end]
        if how not in facts.created and len(facts.created) >= MOST_KINDS:
            how = b"other"
        calls, total = facts.created.get(how, (0, 0.0))
        facts.created[how] = calls + 1, total + seconds


def _whole_lines(file: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """Yield chunks that end at a line end; a line longer than a chunk is cut."""
    while data := file.read(chunk_bytes):
        yield data + file.readline(chunk_bytes)
