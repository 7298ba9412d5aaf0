"""The summary of a sweep: one line a cell and device, with spread, validity and speed-up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.base import Scalar
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Validity
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.reports.groups import Group, baseline_of, grouped, matches
from controller.stats.bootstrap import Ratio, Spread, ratio_of_medians, spread


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric of one cell on one device."""

    unit: Unit
    spread: Spread
    draws: tuple[float, ...] = ()
    """The value of each result, where it is itself a ratio: it differs from minute to minute."""


@dataclass(frozen=True, slots=True)
class CellLine:
    """One cell on one device; metrics come from VALID results only."""

    device: str
    virtual: bool
    workload: str
    stack: str
    scenario: str
    knobs: Mapping[str, Scalar]
    ranked_by: str
    """The scenario's ranking metric."""
    metrics: Mapping[str, MetricLine]
    energy_unknown: str
    """Why energy is unknown; empty if it is known, or not mentioned."""
    valid: int
    disturbed: int
    invalid: int
    failed: int
    reasons: tuple[str, ...]
    is_baseline: bool
    speedup: Ratio | None
    """How many times better than the baseline on the ranking metric; above 1 is better."""


def summarise(
    results: Iterable[StoredResult],
    failures: Iterable[StoredFailure],
    baseline: Mapping[str, Scalar],
    metric_of: Mapping[str, str],
) -> list[CellLine]:
    """Return a line for each (cell, device), best first within each workload, without paired ones.

    baseline: the sweep's baseline; may be empty. metric_of: scenario → ranking metric. A line is
    compared with the baseline on its own device if there is one.
    """
    groups = grouped(results, failures)
    chosen = [g for g in groups if matches(g.origin, baseline)]
    lines = [_line(g, baseline_of(g, chosen), g in chosen, metric_of) for g in groups]
    return sorted(lines, key=lambda line: (line.workload, -_rank(line)))


def varying_knobs(lines: Sequence[CellLine | Cell]) -> list[str]:
    """Return the knobs that differ between lines or cells, in order."""
    names = dict.fromkeys(name for line in lines for name in line.knobs)
    return [n for n in names if len({line.knobs.get(n) for line in lines}) > 1]


def _line(
    group: Group, against: Group | None, is_baseline: bool, metric_of: Mapping[str, str]
) -> CellLine:
    origin, metric = group.origin, metric_of.get(group.origin.scenario, "")
    metrics = {n: _metric(group, n, m.unit) for n, m in group.measurements().items()}
    speedup = None
    if against is not None and not is_baseline and metric in metrics and against.samples(metric):
        mine, theirs = group.samples(metric), against.samples(metric)
        lower = metrics[metric].unit.lower_is_better
        speedup = ratio_of_medians(theirs, mine) if lower else ratio_of_medians(mine, theirs)
    return CellLine(
        device=origin.device,
        virtual=origin.virtual,
        workload=origin.workload,
        stack=origin.stack,
        scenario=origin.scenario,
        knobs=origin.knobs,
        ranked_by=metric,
        metrics=metrics,
        energy_unknown=group.energy_unknown,
        valid=len(group.valid),
        disturbed=group.count(Validity.DISTURBED),
        invalid=group.count(Validity.INVALID),
        failed=len(group.failures),
        reasons=tuple(dict.fromkeys(_reasons(group))),
        is_baseline=is_baseline,
        speedup=speedup,
    )


def _metric(group: Group, name: str, unit: Unit) -> MetricLine:
    if unit is not Unit.RATIO:
        return MetricLine(unit, spread(group.samples(name)))
    draws = group.values(name)
    return MetricLine(unit, spread([draws]), draws)


def _reasons(group: Group) -> list[str]:
    told = [reason for result in group.results for reason in result.reasons]
    return told + [f"{f.blame}: {f.message}" for f in group.failures]


def _rank(line: CellLine) -> float:
    if line.is_baseline:
        return 1.0
    return line.speedup.value if line.speedup else 0.0
