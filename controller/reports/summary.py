"""What a sweep says: one line a cell and device, with spread, validity and the ratio to a baseline.

Pure: records in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.base import Scalar
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.statistics import Ratio, Spread, ratio_of_medians, spread


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric of one cell on one device."""

    unit: Unit
    spread: Spread


@dataclass(frozen=True, slots=True)
class CellLine:
    """One cell on one device; metrics come from VALID results only."""

    device: str
    virtual: bool
    workload: str
    stack: str
    scenario: str
    knobs: Mapping[str, Scalar]
    metrics: Mapping[str, MetricLine]
    valid: int
    invalid: int
    failed: int
    reasons: tuple[str, ...]
    is_baseline: bool
    speedup: Ratio | None
    """How many times better than the baseline on the scenario's own metric; above 1 is better."""


@dataclass(slots=True)
class _Group:
    results: list[StoredResult]
    failures: list[StoredFailure]

    @property
    def origin(self) -> OutcomeOrigin:
        return (self.results or self.failures)[0]

    def samples(self, metric: str) -> list[tuple[float, ...]]:
        found = [r.metrics[metric] for r in self._valid if metric in r.metrics]
        return [m.samples or (m.value,) for m in found]

    @property
    def _valid(self) -> list[StoredResult]:
        return [r for r in self.results if r.validity is Validity.VALID]

    def metrics(self) -> dict[str, MetricLine]:
        names: dict[str, Measurement] = {}
        for result in self._valid:
            names |= result.metrics
        return {n: MetricLine(m.unit, spread(self.samples(n))) for n, m in names.items()}


def summarise(
    results: Iterable[StoredResult],
    failures: Iterable[StoredFailure],
    baseline: Mapping[str, Scalar],
    metric_of: Mapping[str, str],
) -> list[CellLine]:
    """Return a line for each (cell, device), best first within each workload; no paired ones.

    baseline: the sweep's; empty for none. metric_of: scenario → the metric that ranks it. A line
    is compared with the baseline on its own device where there is one.
    """
    groups = _grouped(results, failures)
    chosen = [g for g in groups if baseline and _matches(g.origin, baseline)]
    lines = [_line(g, _rival(g, chosen), g in chosen, metric_of) for g in groups]
    return sorted(lines, key=lambda line: (line.workload, -_rank(line)))


def varying_knobs(lines: Sequence[CellLine]) -> list[str]:
    """Return the knobs that are not the same on every line, in order."""
    names = dict.fromkeys(name for line in lines for name in line.knobs)
    return [n for n in names if len({line.knobs.get(n) for line in lines}) > 1]


def _grouped(results: Iterable[StoredResult], failures: Iterable[StoredFailure]) -> list[_Group]:
    groups: dict[tuple[str, str], _Group] = {}

    def group(origin: OutcomeOrigin) -> _Group:
        return groups.setdefault((origin.cell_key, origin.device), _Group([], []))

    for result in results:
        if result.counted and result.versus is None:
            group(result).results.append(result)
    for failure in failures:
        if failure.counted and failure.versus is None:
            group(failure).failures.append(failure)
    return list(groups.values())


def _matches(origin: OutcomeOrigin, baseline: Mapping[str, Scalar]) -> bool:
    fields = {name: getattr(origin, name) for name in ("workload", "stack", "scenario", "device")}
    return all(fields.get(n, origin.knobs.get(n)) == value for n, value in baseline.items())


def _rival(group: _Group, chosen: Sequence[_Group]) -> _Group | None:
    mine = group.origin
    alike = [g for g in chosen if g.origin.workload == mine.workload]
    alike = [g for g in alike if g.origin.scenario == mine.scenario]
    own = [g for g in alike if g.origin.device == mine.device]
    # Two baselines on one device would make the ratio a matter of luck: none then.
    return own[0] if len(own) == 1 else alike[0] if len(alike) == 1 else None


def _line(
    group: _Group, rival: _Group | None, is_baseline: bool, metric_of: Mapping[str, str]
) -> CellLine:
    origin, metric = group.origin, metric_of[group.origin.scenario]
    metrics = group.metrics()
    speedup = None
    if rival is not None and not is_baseline and metric in metrics and rival.samples(metric):
        mine, theirs = group.samples(metric), rival.samples(metric)
        lower = metrics[metric].unit.lower_is_better
        speedup = ratio_of_medians(theirs, mine) if lower else ratio_of_medians(mine, theirs)
    return CellLine(
        device=origin.device,
        virtual=origin.virtual,
        workload=origin.workload,
        stack=origin.stack,
        scenario=origin.scenario,
        knobs=origin.knobs,
        metrics=metrics,
        valid=sum(r.validity is Validity.VALID for r in group.results),
        invalid=sum(r.validity is Validity.INVALID for r in group.results),
        failed=len(group.failures),
        reasons=tuple(dict.fromkeys(_reasons(group))),
        is_baseline=is_baseline,
        speedup=speedup,
    )


def _reasons(group: _Group) -> list[str]:
    invalid = [reason for result in group.results for reason in result.reasons]
    return invalid + [f"{f.blame}: {f.message}" for f in group.failures]


def _rank(line: CellLine) -> float:
    if line.is_baseline:
        return 1.0
    return line.speedup.value if line.speedup else 0.0
