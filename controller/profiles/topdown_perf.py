"""Top-down values in what perf stat prints: rows, columns or objects. Pure.

Of a CPU with two kinds of cores, perf prints the values of each kind.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Final

from controller.contracts.topdown import LEVELS
from controller.profiles.topdown_values import (
    EVENTS,
    NODES,
    SLOTS,
    SMT,
    Pair,
    Values,
    at,
    collected,
    number_in,
)

_OTHERS: Final[Mapping[str, str]] = {
    "backend_bound_memory": "memory_bound",
    "backend_bound_cpu": "core_bound",
    "frontend_bound_latency": "fetch_latency",
    "frontend_bound_bandwidth": "fetch_bandwidth",
    "bad_speculation_mispredicts": "branch_mispredicts",
    "bad_speculation_pipeline_restarts": "machine_clears",
    "retiring_microcode": "heavy_operations",
    "retiring_fastpath": "light_operations",
}
"""perf's names for AMD from Zen 4 on → node."""
_SHARE: Final = re.compile(r"(?:%slots|percent of slots|%)\s+(.+)")
"""A share of slots, as Intel's, AMD's and Arm's metrics are named."""
_TELLS: Final = re.compile(r"%|slots|topdown-|\(cpu_", re.IGNORECASE)
"""In every line that names a metric, an event, or the PMU of the metrics below it."""
_PMUS: Final = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""Those of Intel's kinds of cores; only the first, of P-cores, counts slots."""
_PMU: Final = re.compile(rf"\b(?:{'|'.join(_PMUS)})\b")
"""In `cpu_core/slots/` and `TopdownL1 (cpu_core)`."""
_SEPARATORS: Final = (",", ";", "|", "\t")
"""Those of `perf stat -x SEPARATOR` that are recognised."""
_FEWEST_FIELDS: Final = 7
"""Of a line of `perf stat -x,`: value, unit, event, run time, share, metric, its unit."""
_BEFORE_EVENT: Final = 2
"""Fields from a count to its event."""
_BEFORE_UNIT: Final = 1
"""Fields from a metric to its unit."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A value, and the PMU that counted it; empty where perf names none."""

    pmu: str
    pair: Pair

    @property
    def is_counted(self) -> bool:
        return self.pair[1] is not None and isfinite(self.pair[1])


def perf_values(lines: Sequence[str]) -> tuple[Values, list[str]]:
    """Return the metrics, or the counts of events where no metric has a value; with notes."""
    marked = [(line, bool(_TELLS.search(line))) for line in lines]
    telling = [line for line, tells in marked if tells]
    separated = max(
        ([*_of_rows(telling, each), *_of_columns(marked, each)] for each in _SEPARATORS), key=len
    )
    readings, notes = _of_one_kind([*separated, *_of_objects(telling)])
    values = collected(reading.pair for reading in readings)
    counts = {name: each for name, each in values.items() if name == SLOTS or name in EVENTS}
    metrics = {name: each for name, each in values.items() if name not in counts}
    return metrics if any(map(isfinite, chain(*metrics.values()))) else counts, notes


def _of_one_kind(readings: Sequence[_Reading]) -> tuple[Sequence[_Reading], list[str]]:
    """Return the values of the P-cores, or of the first kind that has any, and a note on the rest.

    Kinds differ in slots and in how long they ran, so there is no mean of them. What names no PMU
    is the P-cores': perf may leave out the PMU of an event that only one has, such as slots.
    """
    if not any(reading.pmu for reading in readings):
        return readings, []
    values = Counter(reading.pmu or _PMUS[0] for reading in readings if reading.is_counted)
    kind, *others = [pmu for pmu in _PMUS if values[pmu]] or _PMUS[:1]
    left_out = sum(values[pmu] for pmu in others)
    rest = f"left out {left_out} values of other kinds of cores: {', '.join(others)}"
    kept = [reading for reading in readings if (reading.pmu or _PMUS[0]) == kind]
    return kept, [f"only of {kind}; {rest}"] if others else []


def _fields(line: str, separator: str) -> list[str]:
    return [field.strip() for field in line.split(separator)]


def _event(text: str) -> str | None:
    """Return the event of EVENTS, or SLOTS, that a name is: `cpu_core/topdown-retiring/u`."""
    name = text.lower().partition("/")[2] or text.lower()
    plain = name.split("/")[0].split(":")[0].replace("topdown.slots", SLOTS)
    return plain if plain == SLOTS or plain in EVENTS else None


def _pmu(line: str) -> str:
    named = _PMU.search(line)
    return named[0] if named else ""


def _node_of_metric(unit: str) -> str | None:
    """Return the node that a metric's unit names: `%  tma_backend_bound`, `%slots  retiring`."""
    told = _SHARE.fullmatch(unit.strip())
    if told is None:
        return None
    plain = told[1].strip().lower().replace(" ", "_").removeprefix("tma_")
    plain = {"bad_spec": "bad_speculation", **_OTHERS}.get(plain, plain)
    return plain if plain in NODES or plain == SMT else None


def _of_objects(lines: Iterable[str]) -> Iterator[_Reading]:
    """Yield the event and the metric of each line of -j output; of --topdown, all metrics."""
    pmu = ""
    for line in lines:
        row = _object(line) if line.startswith("{") else {}
        # A metric without an event is of the event above it.
        pmu = _pmu(line) or ("" if "event" in row else pmu)
        for key, value in row.items():
            if node := _node_of_metric(key):
                yield _Reading(pmu, (node, number_in(value)))
        if event := _event(str(row.get("event", ""))):
            yield _Reading(pmu, (event, number_in(row.get("counter-value"))))
        if node := _node_of_metric(str(row.get("metric-unit", ""))):
            yield _Reading(pmu, (node, number_in(row.get("metric-value"))))


def _of_rows(lines: Iterable[str], separator: str) -> Iterator[_Reading]:
    """Yield the event and the metric of each line of -x output.

    A time or a core (-I, --per-core) may come first, a spread over runs (-r) behind the event.
    """
    above = ""
    for line in lines:
        fields, pmu = _fields(line, separator), _pmu(line)
        if len(fields) >= _FEWEST_FIELDS:
            if event := _first(fields, _event, _BEFORE_EVENT):
                yield _Reading(pmu, (event[0], number_in(fields[event[1]])))
            if metric := _first(fields, _node_of_metric, _BEFORE_UNIT):
                # Without an event, and so without its share of time, it is of the event above it.
                pmu = pmu or ("" if fields[metric[1] - 1] else above)
                yield _Reading(pmu, (metric[0], number_in(fields[metric[1]])))
        above = pmu


def _first(
    fields: Sequence[str], name_of: Callable[[str], str | None], before: int
) -> tuple[str, int] | None:
    """Return the first name in a line, and the place of its number, so many fields before it."""
    for place, field in enumerate(fields[before:]):
        if field and (name := name_of(field)):
            return name, place
    return None


def _of_columns(lines: Iterable[tuple[str, bool]], separator: str) -> Iterator[_Reading]:
    """Yield the metrics of -x output without events: a line of names, then values.

    `perf stat -x, --topdown` prints this. lines: each with whether it may have names.
    """
    names: Mapping[int, str] = {}
    for line, tells in lines:
        if tells:
            fields = _fields(line.removeprefix("#"), separator)
            named = {place: name for place, name in enumerate(map(_node_of_metric, fields)) if name}
            names = named if len(named) >= len(LEVELS) else names
        elif names:
            yield from (_Reading("", pair) for pair in at(names, _fields(line, separator)))


def _object(line: str) -> Mapping[str, object]:
    try:
        found = json.loads(line.rstrip().rstrip(","))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
