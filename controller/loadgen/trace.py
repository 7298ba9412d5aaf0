"""The raw latencies of a run, from LoadGen's trace (`enable_trace`; mlperf_log_trace.json).

A trace has an event `Sample` for each sample, with the nanoseconds from its scheduled time to its
completion (`complete_ns`), from which LoadGen's results are computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.loadgen.logs import LogUnreadable
from controller.loadgen.texts import MIB, read_lines

MOST_BYTES: Final = 2048 * MIB
MOST_SAMPLES: Final = 2_000_000
_LONGEST: Final = 64 * 1024
_SAMPLE: Final = re.compile(rb'"name"\s*:\s*"Sample"\s*,.*"ph"\s*:\s*"b"')
_START: Final = re.compile(rb'"ts"\s*:\s*(\d{1,16})\.(\d{3})\b')
_FIELD: Final = {
    name: re.compile(rb'"%s"\s*:\s*(\d{1,19})\b' % name.encode())
    for name in ("sample_seq", "query_seq", "issue_start_ns", "complete_ns")
}


@dataclass(frozen=True, slots=True)
class RawQueries:
    """The queries of a trace; times in nanoseconds."""

    samples: Sequence[int]
    """Latencies of all samples, sorted."""
    queries: Sequence[int]
    """Latencies of all queries, sorted: each that of its last sample."""
    first_started: int
    """From the origin of the trace to the start of the first query."""
    last_issued: int
    """From the start of the first query to that of the last one."""
    last_scheduled: int
    last_done: int
    """To the completion of the last query."""


def read_trace(path: Path) -> RawQueries | None:
    """Read a trace; None if there is none, or one without samples; raises LogUnreadable."""
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return None  # LoadGen makes an empty file where it is to write no trace
    latencies: dict[int, int] = {}
    starts: dict[int, tuple[int, int, int]] = {}  # query → scheduled, issued, done
    ended = False
    for line in read_lines(path, MOST_BYTES, _LONGEST):
        ended |= b"displayTimeUnit" in line
        if not _SAMPLE.search(line):
            continue
        sample, query, scheduled, said = _sample_of(line, path.name)
        if sample in latencies:
            raise LogUnreadable(f"{path.name}: sample {sample} is there twice")
        if len(latencies) >= MOST_SAMPLES:
            raise LogUnreadable(f"{path.name}: more than {MOST_SAMPLES} samples")
        latencies[sample] = said["complete_ns"]
        done = max(scheduled + said["complete_ns"], starts.get(query, (0, 0, 0))[2])
        starts[query] = (scheduled, scheduled + said["issue_start_ns"], done)
    if not ended:
        raise LogUnreadable(f"{path.name}: truncated, or not a trace of LoadGen")
    return _queries_of(latencies, starts) if latencies else None


def _sample_of(line: bytes, name: str) -> tuple[int, int, int, Mapping[str, int]]:
    """Return the numbers of a sample and of its query, when it was scheduled, and its fields."""
    found = {field: pattern.search(line) for field, pattern in _FIELD.items()}
    said = {field: int(match[1]) for field, match in found.items() if match}
    start = _START.search(line)
    if start is None or len(said) < len(_FIELD):
        raise LogUnreadable(f"{name}: an event of a sample lacks a field: {line[:120]!r}")
    return said["sample_seq"], said["query_seq"], int(start[1]) * 1000 + int(start[2]), said


def _queries_of(
    latencies: Mapping[int, int], starts: Mapping[int, tuple[int, int, int]]
) -> RawQueries:
    first = min(scheduled for scheduled, _, _ in starts.values())
    scheduled, issued, done = starts[max(starts)]
    return RawQueries(
        sorted(latencies.values()),
        sorted(done - scheduled for scheduled, _, done in starts.values()),
        first,
        issued - first,
        scheduled - first,
        done - first,
    )
