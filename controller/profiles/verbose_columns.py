"""Parsing of all lines in a chunk of a verbose log at once.

A line takes microseconds in Python, and a few hundred nanoseconds with numpy and Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MARKERS = (b"onednn_verbose", b"dnnl_verbose", b"mkldnn_verbose")
MOST_S = 86400.0
"""Longest plausible time; a longer one means a broken line."""
BODY_COMMAS = (6, 7)
"""Commas in ENGINE,PRIMITIVE,IMPLEMENTATION,KIND,MEMORY[,ATTRIBUTES],AUXILIARY,PROBLEM; early
releases have no attributes."""

GUESSED_FROM = 100
"""Lines of a chunk from which the lengths of its heads are guessed."""
LONGEST_TIME = 24
"""Most characters of a time."""

EXEC = b",exec,"
_WORD = 8

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Spans:
    """Start and end positions of texts in a chunk."""

    starts: Places
    ends: Places

    def only(self, which: slice | npt.NDArray[np.bool_]) -> Spans:
        """Return the selected spans."""
        return Spans(self.starts[which], self.ends[which])

    def without(self, which: Places) -> Spans:
        """Return all but the selected spans."""
        return Spans(np.delete(self.starts, which), np.delete(self.ends, which))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of each."""
        return zip(self.starts.tolist(), self.ends.tolist(), strict=True)

    def texts(self, chunk: bytes) -> pa.BinaryArray:
        """Return the texts."""
        bounds = np.stack([self.starts, self.ends], axis=1).ravel().astype(np.int32)
        # Arrow's texts are contiguous: the gaps between ours become texts, too, which are left out.
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(chunk)]
        beside = pa.Array.from_buffers(pa.binary(), max(len(bounds) - 1, 0), buffers)
        ours = pa.array(np.arange(0, len(bounds), 2, dtype=np.int32))
        return pc.take(beside, ours, memory_pool=_pool())


@dataclass(frozen=True, slots=True)
class Executions:
    """The executions in a chunk, in order, and its other lines."""

    bodies: list[bytes]
    """The distinct bodies."""
    which: Places
    """Index of each execution's body."""
    seconds: npt.NDArray[np.float64]
    heads: Callable[[], list[bytes]]
    others: Callable[[], Iterator[bytes]]
    """Yields the lines that are not executions."""


def executions_of(chunk: bytes) -> Executions:
    """Parse a chunk of whole lines."""
    lines = _lines(chunk)
    execs = _execs(chunk, lines)
    told = np.flatnonzero((execs >= 0) & _have_marker(chunk, lines))
    heads = Spans(lines.starts[told], execs[told])
    ends = lines.ends[told]
    commas = _last_commas(chunk, ends)
    # A line that ends before that leaves an empty body, which has too few commas.
    begun = heads.ends + len(EXEC)
    bodies = Spans(begun, np.maximum(commas, begun)).texts(chunk)
    encoded = pc.dictionary_encode(bodies, memory_pool=_pool())
    seconds = _numbers(Spans(np.maximum(commas + 1, begun), ends).texts(chunk)) * 1e-3
    which = encoded.indices.to_numpy().astype(np.intp)
    distinct: list[bytes] = encoded.dictionary.to_pylist()
    formed = np.array([body.count(b",") in BODY_COMMAS for body in distinct], dtype=bool)
    good = formed[which] & (seconds >= 0) & (seconds < MOST_S)
    heads, others = heads.only(good), lines.without(told[good])
    return Executions(
        distinct,
        which[good],
        seconds[good],
        lambda: heads.texts(chunk).to_pylist(),
        lambda: (chunk[a:b] for a, b in others.pairs()),
    )


def _lines(chunk: bytes) -> Spans:
    ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
    if not chunk.endswith(b"\n"):
        ends = np.append(ends, len(chunk))
    return Spans(np.concatenate([[0], ends[:-1] + 1]), ends)


def _execs(chunk: bytes, lines: Spans) -> Places:
    """Return the position of `,exec,` in each line, -1 if there is none.

    Most heads of a log have the same length, so the position is guessed from a chunk's first lines,
    and searched only if the guesses fail.
    """
    found = np.full(len(lines.starts), -1)
    first = [chunk.find(EXEC, a, b) - a for a, b in lines.only(slice(GUESSED_FROM)).pairs()]
    for guess in sorted({place for place in first if place > 0}, reverse=True):
        at = lines.starts + guess
        there = (at < lines.ends) & _begin_with(chunk, at, EXEC)
        found[there] = at[there]
    for i in np.flatnonzero(found < 0).tolist():
        found[i] = chunk.find(EXEC, lines.starts[i], lines.ends[i])
    return found


def _last_commas(chunk: bytes, ends: Places) -> Places:
    """Return the last comma before each end; -1 if it is farther away than a time is long."""
    letters = np.frombuffer(chunk, np.uint8)
    places = ends - 1
    for _ in range(LONGEST_TIME):
        before = letters[places] != ord(",")
        if not before.any():
            return places
        places -= before
    return np.where(letters[places] == ord(","), places, -1)


def _have_marker(chunk: bytes, lines: Spans) -> npt.NDArray[np.bool_]:
    """Return which lines begin with a marker; markers have 9 to 15 characters."""
    found = np.zeros(len(lines.starts), dtype=bool)
    for marker in MARKERS:
        begun = _begin_with(chunk, lines.starts, marker[:_WORD])
        found |= begun & _begin_with(chunk, lines.starts + _WORD, marker[_WORD:])
    return found


def _begin_with(chunk: bytes, places: Places, text: bytes) -> npt.NDArray[np.bool_]:
    """Return at which positions of a chunk a text of up to eight characters stands."""
    words = np.ndarray((max(len(chunk) - _WORD + 1, 0),), "<u8", chunk, 0, (1,))
    there = places < len(words)
    mask = np.uint64((1 << 8 * len(text)) - 1)
    there[there] = words[places[there]] & mask == int.from_bytes(text, "little")
    return there


def _numbers(texts: pa.BinaryArray) -> npt.NDArray[np.float64]:
    """Parse each text as a number; nan if it is not one."""
    try:
        read = pc.cast(texts.cast(pa.string()), pa.float64(), memory_pool=_pool())
    except pa.ArrowInvalid:  # for all, if one is broken or ends in CR
        return np.array([_number(text) for text in texts.to_pylist()], dtype=np.float64)
    numbers: npt.NDArray[np.float64] = read.to_numpy()
    return numbers


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _pool() -> pa.MemoryPool:
    """Return the memory pool for arrays; Arrow's default pool returns and reallocates pages each
    time."""
    return pa.system_memory_pool()
