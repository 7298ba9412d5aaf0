"""Top-down shares from what perf stat and PerfSpect print.

perf stat prints them as metrics (`--topdown`, `-M TopdownL1,TopdownL2`), or as counts of the events
slots and topdown-*, from which level 2 follows: tools/perf/Documentation/topdown.txt of the kernel.
PerfSpect's `metrics` prints them as rows named TMA_… in its CSV. Pure but for reading the file.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
_FEWEST_FIELDS: Final = 7
"""Of a line of `perf stat -x,`: value, unit, event, run time, share, metric, its unit."""
Found = dict[str, list[float]]


SMT: Final = "smt_contention"
"""AMD's share of the slots that the core's other thread took."""


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
        if found := reader(lines):
            return _topdown(what, source or f"{tool}, {Path(what).name}", found)
    raise _unreadable(what, "it has no top-down metric and none of the events slots, topdown-*")


def _topdown(what: str, source: str, found: Found) -> TopDown:
    shares = {name: sum(values) / len(values) for name, values in found.items()}
    most = max(len(values) for values in found.values())
    notes = [f"means of {most} intervals or groups of cores"] if most > 1 else []
    if 0 < (taken := shares.pop(SMT, 0.0)) < 1:
        shares = {name: share / (1 - taken) for name, share in shares.items()}
        notes.append(f"without the {taken:.1%} of slots that the core's other thread took")
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


def _perf(lines: Iterable[str]) -> Found:
    """Return the shares of each interval: metrics, or else counts over slots."""
    metrics: Found = {}
    counts: Found = {}
    lines = list(lines)
    for event, count, metric, unit in [*_perf_rows(lines), *_metric_columns(lines)]:
        node = _node_of_metric(unit)
        if node and metric is not None:
            metrics.setdefault(node, []).append(metric / 100)
        if count is not None and (event in _EVENTS or event == "slots"):
            counts.setdefault(event, []).append(count)
    if metrics:
        return metrics
    slots = sum(counts.pop("slots", []))
    return {_EVENTS[event]: [sum(of) / slots] for event, of in counts.items()} if slots > 0 else {}


def _node_of_metric(unit: str) -> str | None:
    """Return the node that a metric's unit names: `%  tma_backend_bound`, `%slots  retiring`."""
    told = _SHARE.fullmatch(unit.strip())
    if told is None:
        return None
    plain = told[1].strip().lower().replace(" ", "_").removeprefix("tma_")
    plain = {"bad_spec": "bad_speculation", **_OTHERS}.get(plain, plain)
    return plain if plain in _NODES or plain == SMT else None


def _perf_rows(lines: Iterable[str]) -> Iterator[tuple[str, float | None, float | None, str]]:
    """Yield event, count, metric and the metric's unit of each line of -j or -x output."""
    for line in lines:
        if line.startswith("{"):
            row = _object(line)
            event = str(row.get("event", "")).removesuffix(":u").lower()
            counted, metric = row.get("counter-value"), row.get("metric-value")
            yield _plain(event), _number(counted), _number(metric), str(row.get("metric-unit", ""))
            continue
        fields = [field.strip() for field in re.split(r"[,;]", line)]
        for skipped in range(len(fields) - _FEWEST_FIELDS + 1):  # a time, a socket … come first
            value, _, event, _, _, metric, unit = fields[skipped : skipped + _FEWEST_FIELDS]
            if _plain(event) in _EVENTS or _plain(event) == "slots" or _node_of_metric(unit):
                yield _plain(event), _number(value), _number(metric), unit
                break


def _metric_columns(lines: Iterable[str]) -> Iterator[tuple[str, None, float | None, str]]:
    """Yield what `_perf_rows` does of -x output of metrics only: a line of names, then values.

    `perf stat -x, --topdown` prints this.
    """
    names: dict[int, str] = {}
    for line in lines:
        fields = [field.strip() for field in re.split(r"[,;]", line.removeprefix("#"))]
        named = {place: text for place, text in enumerate(fields) if _node_of_metric(text)}
        if len(named) >= len(LEVELS):
            names = named
            continue
        for place, name in names.items():
            if place < len(fields):
                yield "", None, _number(fields[place]), name


def _plain(event: str) -> str:
    """Return an event's name without its unit's: `cpu_core/topdown-retiring/u`, `slots:u`."""
    name = event.lower().partition("/")[2] or event.lower()
    return name.split("/")[0].split(":")[0].replace("topdown.slots", "slots")


def _object(line: str) -> Mapping[str, object]:
    try:
        found = json.loads(line.rstrip().rstrip(","))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _perfspect(lines: Iterable[str]) -> Found:
    """Return the shares in a CSV of PerfSpect: a row a metric (summary), or a column a metric."""
    rows = list(csv.reader(lines))
    by_row = {row[0]: row[1] for row in rows if len(row) > 1 and _PERFSPECT.match(row[0])}
    if by_row:
        return _shares(by_row.items())
    head = next((row for row in rows if any(_PERFSPECT.match(cell) for cell in row)), [])
    after = rows[rows.index(head) + 1 :] if head else []
    return _shares(
        (name, row[place])
        for row in after
        for place, name in enumerate(head)
        if _PERFSPECT.match(name) and place < len(row)
    )


def _shares(told: Iterable[tuple[str, str]]) -> Found:
    found: Found = {}
    for name, text in told:
        matched = _PERFSPECT.match(name)
        node, percent = (matched[1].lower() if matched else ""), _number(text)
        if node in _NODES and percent is not None:
            found.setdefault(node, []).append(percent / 100)
    return found


def _number(text: object) -> float | None:
    """Return a number; None for `<not supported>`, `<not counted>` and other text."""
    if not isinstance(text, str | int | float) or isinstance(text, bool) or text == "":
        return None
    try:
        return float(text)
    except (ValueError, OverflowError):
        return None


def _unreadable(what: str, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {what}",
        seen,
        "Give the output of `perf stat -x, --topdown` or `perf stat -j -M TopdownL1,TopdownL2`, "
        "or the metrics CSV of PerfSpect.",
    )
