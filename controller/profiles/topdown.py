"""Top-down shares from what perf stat and PerfSpect print.

perf stat prints them as metrics (`--topdown`, `-M TopdownL1,TopdownL2`), or as counts of the events
slots and topdown-*, from which level 2 follows: tools/perf/Documentation/topdown.txt of the kernel.
PerfSpect's `metrics` prints them as rows named TMA_… in its CSV. Pure but for reading the file.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, dropwhile
from math import isfinite, nan
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from controller.contracts.topdown import LEVELS, TopDown
from controller.contracts.wording import faults_of
from controller.profiles.errors import ProfileUnreadable

MOST_BYTES: Final = 16 * 2**20
"""A summary has some kilobytes; intervals of hours some megabytes."""
LONGEST: Final = 2**16
"""Characters of a line; neither tool prints longer ones."""
_NODES: Final = {*LEVELS, *(name for children in LEVELS.values() for name in children)}
_EVENTS: Final[Mapping[str, str]] = {
    "topdown-retiring": "retiring",
    "topdown-bad-spec": "bad_speculation",
    "topdown-fe-bound": "frontend_bound",
    "topdown-be-bound": "backend_bound",
    "topdown-heavy-ops": "heavy_operations",
    "topdown-br-mispredict": "branch_mispredicts",
    "topdown-fetch-lat": "fetch_latency",
    "topdown-mem-bound": "memory_bound",
}
"""Events of Intel's from Ice Lake on (level 2 from Sapphire Rapids on) → node."""
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
_PERFSPECT: Final = re.compile(r"(?:metric_)?TMA_\.*(\w+)\(%\)$", re.IGNORECASE)
_SHARE: Final = re.compile(r"(?:%slots|percent of slots|%)\s+(.+)")
"""A share of slots, as Intel's, AMD's and Arm's metrics are named."""
_TELLS: Final = re.compile("%|slots|topdown-", re.IGNORECASE)
"""In every line that names a metric or an event."""
_SEPARATORS: Final = (",", ";", "|", "\t")
"""Those of `perf stat -x SEPARATOR` that are recognised."""
_FEWEST_FIELDS: Final = 7
"""Of a line of `perf stat -x,`: value, unit, event, run time, share, metric, its unit."""
_BEFORE_EVENT: Final = 2
"""Fields from a count to its event."""
_BEFORE_UNIT: Final = 1
"""Fields from a metric to its unit."""
SLOTS: Final = "slots"
"""The event that counts all slots."""
PARENTS: Final = {child: parent for parent, children in LEVELS.items() for child in children}
"""Node of level 2 → node of level 1."""
UNCOUNTED: Final = "<not counted>"
"""What perf prints for an event that had no counter in an interval."""
SMT: Final = "smt_contention"
"""AMD's share of the slots that the core's other thread took."""
Values = dict[str, list[float]]
"""Node → percents, or event → counts, of each interval or group of cores; NaN where not counted."""
Pair = tuple[str, float | None]
"""A node and a percent, or an event and a count; None where there is no number."""


def read_topdown(path: Path) -> TopDown:
    """Read a file of either tool; raises ProfileUnreadable."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(str(path), error.strerror or str(error)) from error
    return topdown_in(data, str(path))


def topdown_in(data: bytes, what: str, source: str | None = None) -> TopDown:
    """Return the shares that either tool has printed; raises ProfileUnreadable.

    what: what is read, for errors. source: as shares are to say; by default, tool and file.
    """
    if len(data) > MOST_BYTES:
        raise _unreadable(what, f"it has more than {MOST_BYTES >> 20} MiB")
    lines = [line for line in data.decode(errors="replace").splitlines() if len(line) < LONGEST]
    for tool, reader in (("perf", _perf), ("PerfSpect", _perfspect)):
        values = reader(lines)
        used = _whole(values) if SLOTS in values else _alike(values)
        if shares := _shares(used):
            notes = _notes(values, used)
            return _topdown(what, source or f"{tool}, {Path(what).name}", shares, notes)
    raise _unreadable(what, "it has no top-down metric and none of the events slots, topdown-*")


def _whole(values: Values) -> Values:
    """Return the counts of intervals, or groups of cores, in which all of level 1 was counted.

    An event of level 2 that was not counted in each of them is left out, as is one that was counted
    in another number than slots: in all slots, it would have another share.
    """
    same = {
        name: each
        for name, each in values.items()
        if len(each) == len(values[SLOTS]) and any(map(isfinite, each))
    }
    first = [each for name, each in same.items() if _EVENTS.get(name) not in PARENTS]
    whole = [i for i, counts in enumerate(zip(*first, strict=True)) if all(map(isfinite, counts))]
    kept = {name: [each[i] for i in whole] for name, each in same.items()}
    return {name: each for name, each in kept.items() if each and all(map(isfinite, each))}


def _alike(values: Values) -> Values:
    """Return the percents, without those of level 2 of which there are fewer than of the parent."""
    finite = {name: [*filter(isfinite, each)] for name, each in values.items()}
    counted = {name: len(each) for name, each in finite.items()}
    fewest = {name: counted.get(PARENTS.get(name, ""), 0) for name in finite}
    return {name: each for name, each in finite.items() if each and counted[name] >= fewest[name]}


def _shares(values: Values) -> dict[str, float]:
    """Return each node's share of the slots: its events over slots, or else its mean percent."""
    if SLOTS not in values:
        means = {name: sum(each) / len(each) for name, each in values.items()}
        return {name: mean / 100 for name, mean in means.items() if name not in _EVENTS}
    slots = sum(values[SLOTS])
    counts = {name: sum(each) for name, each in values.items() if name != SLOTS}
    return {_EVENTS[name]: count / slots for name, count in counts.items()} if slots > 0 else {}


def _notes(values: Values, used: Values) -> list[str]:
    """Return notes on the values that shares are computed from. used: those not left out."""
    most = max(map(len, used.values()))
    alike = "" if SLOTS in values else ", each of which counts alike"
    notes = [f"means of {most} intervals or groups of cores{alike}"] if most > 1 else []
    partly = [n for n, each in values.items() if n not in used and any(map(isfinite, each))]
    if partly:
        names = ", ".join(_EVENTS.get(name, name) for name in partly)
        others = "not counted in the same intervals, or groups of cores, as level 1"
        notes.append(f"left out {names}: {others}")
    total, kept = (sum(map(len, each.values())) for each in (values, used))
    if kept < total:  # perf prints `nan` for a core that was idle
        told = "not counted, not finite, or beside such a value"
        notes.append(f"left out {total - kept} of {total} values: {told}")
    return notes


def _topdown(what: str, source: str, shares: Mapping[str, float], notes: Sequence[str]) -> TopDown:
    """Return shares of the slots that the core's other thread left; raises ProfileUnreadable."""
    taken = shares.get(SMT, 0.0)
    shares = {name: share for name, share in shares.items() if name != SMT}
    if 0 < taken < 1:
        shares = {name: share / (1 - taken) for name, share in shares.items()}
        note = f"without the {taken:.1%} of slots that the core's other thread took"
        notes = [*notes, note]
    try:
        return TopDown(source=source, shares=_completed(shares), notes=tuple(notes))
    except ValidationError as error:
        fault = faults_of(error)[0]
        where = ".".join(map(str, fault.place))
        raise _unreadable(what, f"{where}: {fault.said}".removeprefix(": ")) from error


def _completed(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the shares with the other node of each pair of which one is counted, in order."""
    known = dict(shares)
    for parent, (first, second) in ((p, c) for p, c in LEVELS.items() if p in shares):
        for told, other in ((first, second), (second, first)):
            if told in shares and other not in shares:
                known[other] = shares[parent] - shares[told]
    ordered = [*LEVELS, *(name for children in LEVELS.values() for name in children)]
    return {name: known[name] for name in ordered if name in known}


def _perf(lines: Sequence[str]) -> Values:
    """Return perf's metrics; its counts of events where no metric has a value."""
    marked = [(line, bool(_TELLS.search(line))) for line in lines]
    telling = [line for line, tells in marked if tells]
    separated = max(
        ([*_of_rows(telling, each), *_of_columns(marked, each)] for each in _SEPARATORS), key=len
    )
    values = _collected(chain(separated, _of_objects(telling)))
    counts = {name: each for name, each in values.items() if name == SLOTS or name in _EVENTS}
    metrics = {name: each for name, each in values.items() if name not in counts}
    return metrics if any(map(isfinite, chain(*metrics.values()))) else counts


def _collected(pairs: Iterable[Pair]) -> Values:
    """Return the numbers of each name."""
    values: Values = {}
    for name, number in pairs:
        if number is not None:
            values.setdefault(name, []).append(number)
    return values


def _fields(line: str, separator: str) -> list[str]:
    return [field.strip() for field in line.split(separator)]


def _event(text: str) -> str | None:
    """Return the event of _EVENTS, or SLOTS, that a name is: `cpu_core/topdown-retiring/u`."""
    name = text.lower().partition("/")[2] or text.lower()
    plain = name.split("/")[0].split(":")[0].replace("topdown.slots", SLOTS)
    return plain if plain == SLOTS or plain in _EVENTS else None


def _node_of_metric(unit: str) -> str | None:
    """Return the node that a metric's unit names: `%  tma_backend_bound`, `%slots  retiring`."""
    told = _SHARE.fullmatch(unit.strip())
    if told is None:
        return None
    plain = told[1].strip().lower().replace(" ", "_").removeprefix("tma_")
    plain = {"bad_spec": "bad_speculation", **_OTHERS}.get(plain, plain)
    return plain if plain in _NODES or plain == SMT else None


def _of_objects(lines: Iterable[str]) -> Iterator[Pair]:
    """Yield the event and the metric of each line of -j output; of --topdown, all metrics."""
    for line in lines:
        row = _object(line) if line.startswith("{") else {}
        for key, value in row.items():
            if node := _node_of_metric(key):
                yield node, _number(value)
        if event := _event(str(row.get("event", ""))):
            yield event, _number(row.get("counter-value"))
        if node := _node_of_metric(str(row.get("metric-unit", ""))):
            yield node, _number(row.get("metric-value"))


def _of_rows(lines: Iterable[str], separator: str) -> Iterator[Pair]:
    """Yield the event and the metric of each line of -x output.

    A time or a core (-I, --per-core) may come first, a spread over runs (-r) behind the event.
    """
    for line in lines:
        fields = _fields(line, separator)
        if len(fields) >= _FEWEST_FIELDS:
            yield from _first(fields, _event, _BEFORE_EVENT)
            yield from _first(fields, _node_of_metric, _BEFORE_UNIT)


def _first(
    fields: Sequence[str], name_of: Callable[[str], str | None], before: int
) -> Iterator[Pair]:
    """Yield the first name in a line, and the number that comes so many fields before it."""
    for place, field in enumerate(fields[before:]):
        if field and (name := name_of(field)):
            yield name, _number(fields[place])
            return


def _of_columns(lines: Iterable[tuple[str, bool]], separator: str) -> Iterator[Pair]:
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
            yield from _at(names, _fields(line, separator))


def _at(names: Mapping[int, str], fields: Sequence[str]) -> Iterator[Pair]:
    """Yield the number in the column of each name."""
    for place, name in names.items():
        if place < len(fields):
            yield name, _number(fields[place])


def _object(line: str) -> Mapping[str, object]:
    try:
        found = json.loads(line.rstrip().rstrip(","))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _perfspect(lines: Iterable[str]) -> Values:
    """Return the percents in a CSV of PerfSpect: a row a metric (summary), or a column a metric."""
    # Line by line: else an open quote takes all lines behind it into one field.
    rows = [next(csv.reader([line]), []) for line in dropwhile(_is_foreign, lines)]
    by_row = ((_node_of_cell(row[0]), row[1]) for row in rows if len(row) > 1)
    if values := _collected((node, _number(text)) for node, text in by_row if node):
        return values
    head = next((row for row in rows if any(map(_node_of_cell, row))), [])
    names = {place: node for place, cell in enumerate(head) if (node := _node_of_cell(cell))}
    after = rows[rows.index(head) + 1 :] if head else []
    return _collected(chain.from_iterable(_at(names, row) for row in after))


def _is_foreign(line: str) -> bool:
    return "TMA_" not in line.upper()


def _node_of_cell(cell: str) -> str | None:
    """Return the node that a cell of PerfSpect's names: `TMA_..Fetch_Latency(%)`."""
    matched = _PERFSPECT.match(cell)
    return node if matched and (node := matched[1].lower()) in _NODES else None


def _number(text: object) -> float | None:
    """Return a number; NaN for `<not counted>`, None for `<not supported>` and other text.

    A decimal comma, of locales that have one, is read: where commas separate fields, none is left.
    """
    if not isinstance(text, str | int | float) or isinstance(text, bool) or text == "":
        return None
    if text == UNCOUNTED:
        return nan
    try:
        return float(text.replace(",", ".") if isinstance(text, str) else text)
    except (ValueError, OverflowError):
        return None


def _unreadable(what: str, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {what}",
        seen,
        "Give the output of `perf stat -x, --topdown` or `perf stat -j -M TopdownL1,TopdownL2`, "
        "or the metrics CSV of PerfSpect.",
    )
