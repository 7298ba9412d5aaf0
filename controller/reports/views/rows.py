"""The rows of one ranking, best first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from controller.contracts.result import Validity
from controller.contracts.suite_version import TARGET_UNKNOWN
from controller.contracts.units import Unit
from controller.reports.folding import setting
from controller.reports.groups import Group, NoRatio
from controller.reports.tables import draws_text
from controller.reports.views.conditions import device_name
from controller.reports.views.model import Columns, DeviceName, Distribution, Metric, Row
from controller.reports.views.reference import Reference
from controller.stats.medians import MedianOfRuns, Ratio, median_of_runs, ratio

SCALING_LOSSES: Mapping[str, str] = {
    "all_reduce_share": "the exchange",
    "rank_imbalance": "waiting for the slowest rank",
    "contention_share": "sharing the host",
}
"""Fact of several ranks → to what it says that a share of a step is lost."""
_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A group with its ranking data, which all comparisons share."""

    group: Group
    ranked: MedianOfRuns | None
    """None without a result that is shown."""

    @property
    def is_ranked(self) -> bool:
        """Whether it has a VALID result: what is DISTURBED is shown, and compared with nothing."""
        return self.ranked is not None and bool(self.group.valid)


def candidates_of(groups: Sequence[Group], columns: Columns) -> list[Candidate]:
    """Return candidates, best first; then those that are DISTURBED, then those without figures."""
    metric, found = columns.metric, []
    for group in groups:
        samples = group.samples(metric.name)
        found.append(Candidate(group, median_of_runs(samples) if samples else None))
    sign = 1 if metric.unit.lower_is_better else -1

    def place(one: Candidate) -> tuple[bool, bool, float]:
        middle = one.ranked.median if one.ranked else 0.0
        return not one.is_ranked, one.ranked is None, sign * middle

    return sorted(found, key=place)


def advantage(mine: Candidate, theirs: Candidate, columns: Columns) -> Ratio | None:
    """Return how many times as fast one is as the other; above 1, the first is faster."""
    if not columns.compares_speed or mine.ranked is None or theirs.ranked is None:
        return None
    if not (mine.is_ranked and theirs.is_ranked):
        return None
    if min(mine.ranked.median, theirs.ranked.median) <= 0:  # as a user's program may print
        return None
    if columns.metric.unit.lower_is_better:
        return ratio(theirs.ranked, mine.ranked)
    return ratio(mine.ranked, theirs.ranked)


def rows_of(
    candidates: Sequence[Candidate], columns: Columns, reference: Reference
) -> tuple[Row, ...]:
    """Return a row for each candidate, in order; an imported one is never the reference."""
    ours = [c.group for c in candidates if not c.group.origin.imported_from]
    chosen = reference.chosen(ours)
    by_group = {id(candidate.group): candidate for candidate in candidates}
    rows = []
    for number, candidate in enumerate(candidates):
        other: Group | NoRatio | None = None
        if reference.name and candidate.group not in chosen:
            other = reference.of(candidate.group, chosen)
        against = by_group[id(other)] if isinstance(other, Group) else other
        best = advantage(candidate, candidates[0], columns) if number else None
        is_reference = candidate.group in chosen
        rows.append(_row(candidate, columns, number + 1, best, against, is_reference=is_reference))
    return tuple(rows)


def _versus(
    mine: Candidate, against: Candidate | NoRatio | None, columns: Columns
) -> tuple[Ratio | None, NoRatio | None, DeviceName | None]:
    """Return the ratio, why there is none, and on which other device its reference was measured."""
    if against is None:
        return None, None, None
    if not mine.is_ranked:
        return None, NoRatio.NOT_VALID, None
    if isinstance(against, NoRatio):
        return None, against, None
    found = advantage(mine, against, columns)
    theirs = against.group
    elsewhere = theirs.origin.device != mine.group.origin.device
    device = device_name(theirs.origin, theirs.results) if found and elsewhere else None
    if found:
        return found, None, device
    return None, _no_ratio(against, columns), None


def _no_ratio(against: Candidate, columns: Columns) -> NoRatio:
    if not columns.compares_speed:
        return NoRatio.NO_SPEED
    return NoRatio.NOT_POSITIVE if against.is_ranked else NoRatio.BASELINE_NOT_VALID


def _row(
    candidate: Candidate,
    columns: Columns,
    place: int,
    best: Ratio | None,
    against: Candidate | NoRatio | None,
    *,
    is_reference: bool,
) -> Row:
    group, ranked = candidate.group, candidate.ranked
    versus, no_ratio, other_device = _versus(candidate, against, columns)
    return Row(
        rank=place if candidate.is_ranked else None,
        label=label_of(group, columns),
        device=device_name(group.origin, group.results),
        subject=group.subject,
        stack=group.origin.stack,
        knobs=tuple(str(group.origin.knobs.get(name, "")) for name in columns.knobs),
        all_knobs=group.origin.knobs,
        cell_key=group.origin.cell_key,
        median=ranked.median if ranked else None,
        interval=ranked.interval if ranked else None,
        vs_best=best,
        vs_reference=versus,
        no_ratio=no_ratio,
        other_device=other_device,
        is_reference=is_reference,
        quality=_median(group, columns.quality.metric.name) if columns.quality else None,
        details=tuple(_median(group, metric.name) for metric in columns.details),
        ranges=tuple(_range(group, metric) for metric in columns.details),
        distribution=_distribution(group, columns),
        energy_unknown=group.energy_unknown,
        target_unknown=group.told(TARGET_UNKNOWN),
        reference_differs=group.told("reference_differs"),
        reference_unknown=group.told("reference_unknown"),
        scaling_lost=_scaling_lost(group),
        random_weights=group.random_weights,
        valid=len(group.valid),
        disturbed=group.count(Validity.DISTURBED),
        invalid=group.count(Validity.INVALID),
        failed=len(group.failures),
        reasons=_reasons(group),
    )


def label_of(group: Group, columns: Columns) -> str:
    """Return what distinguishes a group in its ranking, in one line."""
    origin = group.origin
    device = origin.device_label
    parts = [group.subject] if group.subject not in ("", device) else []
    parts += [device, *([origin.stack] if columns.several_stacks else [])]
    knobs = (setting(n, origin.knobs[n]) for n in columns.knobs if n in origin.knobs)
    return " · ".join(part for part in (*parts, " ".join(knobs)) if part)


def _scaling_lost(group: Group) -> dict[str, float]:
    found = {lost: group.figures(fact) for fact, lost in SCALING_LOSSES.items()}
    return {lost: median(values) for lost, values in found.items() if values}


def _reasons(group: Group) -> tuple[str, ...]:
    told = [reason for result in group.results for reason in result.reasons]
    told += [f"{failure.blame}: {failure.message}" for failure in group.failures]
    return tuple(dict.fromkeys(told))


def _median(group: Group, metric: str) -> float | None:
    values = group.values(metric)
    return median(values) if values else None


def _range(group: Group, metric: Metric) -> str:
    if metric.unit is not Unit.RATIO:
        return ""
    return draws_text(group.values(metric.name), metric.unit)


def _distribution(group: Group, columns: Columns) -> Distribution | None:
    runs = group.samples(columns.distribution.name) if columns.distribution else []
    if not runs:
        return None
    samples = np.concatenate([np.asarray(run) for run in runs])
    low, lower, middle, upper, high = map(float, np.quantile(samples, _QUANTILES))
    return Distribution(len(samples), (low, lower, middle, upper, high))
