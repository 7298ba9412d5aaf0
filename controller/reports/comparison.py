"""The comparison of A and B from stored results: the numbers and a plain verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from controller.contracts.base import Contract, Scalar, scalar_text
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceKind
from controller.contracts.errors import UserError
from controller.contracts.pair import Pair
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Validity, worst
from controller.contracts.sweep import Side, side_labels
from controller.contracts.units import Unit
from controller.contracts.work import BATCH_SIZE, other_work
from controller.reports.groups import NoRatio
from controller.reports.sides import side_of, sides_of, without_lone_defaults
from controller.reports.verdict import ComparisonOutcome, outcome_of, verdict
from controller.stats.medians import Ratio, Runs, median_of_runs, ratio_of_medians, spread
from controller.stats.pairs import ratio_of_pairs, times_better

DISTURBED: Final = "; DISTURBED: the machine was not quiet"
"""What is added to a verdict; both sides were measured in turns under the same disturbance."""


_TRIED: Final = "compare stored results"
_INSTEAD: Final = "Choose other results with `--sweep` or `--knob`."
NO_METRIC: Final = "it doesn't tell which metric it compared, as exactly one should have samples"
STEP_TIME: Final = "step_time"
THROUGHPUT: Final = "throughput"
"""What is compared in place of the time of a step if the two sides' steps have unlike batches."""


class Comparison(Contract):
    """The comparison of two sides; the format of `compare --json`, see docs/comparison.md."""

    a: str
    b: str
    """The sides, named by their stacks and the knobs that differ."""
    metric: str
    """The scenario's when it was measured; `throughput` for steps of unlike batches."""
    ratio: float
    """How many times better B is than A."""
    ratio_low: float | None
    ratio_high: float | None
    """The 95 % interval; None if there are too few measurements for one."""
    pairs: int
    """Interleaved pairs that it is computed from, without warm-up; 0 for separate runs."""
    asked_width: float | None
    """The width that the interval was to reach, as a share of the ratio; None for separate runs."""
    outcome: ComparisonOutcome
    verdict: str
    """The outcome as a sentence."""
    other_work: tuple[str, ...] = ()
    """Knobs by which the sides don't compute the same, so that their speeds say little."""
    workload: str
    scenario: str
    device: tuple[str, ...]
    device_names: tuple[str, ...]
    """The devices' names for people."""
    device_kind: tuple[DeviceKind, ...]
    virtual: bool
    unit: Unit
    value_a: float
    """Median of the metric."""
    value_b: float
    knobs: dict[str, Scalar]
    """Knobs that both sides share."""
    validity: Validity
    reasons: tuple[str, ...]
    runs: tuple[str, ...]
    """Ids of the runs that it is computed from."""
    environment: Environment
    """Facts that are equal in all these runs."""


def measured_metric(result: StoredResult) -> str | None:
    """Return the metric by which a paired result compares its sides; None if it doesn't tell.

    It alone has samples of both sides. The scenario's may be another since it was measured.
    """
    of_a = [name for name, m in result.metrics.items() if name.endswith("_a") and m.samples]
    return of_a[0].removesuffix("_a") if len(of_a) == 1 else None


def compare_pairs(
    results: Sequence[StoredResult],
    catalog: Catalog,
    sides: tuple[Side, Side] | None = None,
) -> Comparison:
    """Compare two sides by paired results, in the metric that was measured; without `sides`, take
    those of the first result.

    A result with the sides in the other order is swapped. Raises UserError if the results don't
    tell their metric, or were measured in several.
    """
    metric = _common_metric(results)
    a, b = sides or sides_of(results[0])
    sessions = [_oriented(result, a) for result in results]
    unit = results[0].metrics[f"{metric}_a"].unit
    found = times_better(ratio_of_pairs(*sessions), unit)
    ratio = Ratio(found.value, (found.low, found.high) if found.bounded else None)
    pairs = [pair for session in sessions for pair in session]
    samples = [pair.a for pair in pairs], [pair.b for pair in pairs]
    measured = _Measured(metric, unit, samples, ratio, found.pairs)
    return _comparison(results, (a, b), measured, catalog)


def _common_metric(results: Sequence[StoredResult]) -> str:
    """Return the metric of paired results; raises UserError if there isn't exactly one."""
    found: dict[str, str] = {}
    for result in results:
        if (metric := measured_metric(result)) is None:
            raise UserError(_TRIED, f"run {result.run_id}: {NO_METRIC}", _INSTEAD)
        found.setdefault(metric, result.run_id)
    if len(found) > 1:
        seen = " and ".join(f"run {run_id} compared {metric}" for metric, run_id in found.items())
        raise UserError(_TRIED, seen, "Choose those of one metric with `--sweep`.")
    return next(iter(found))


def compare_runs(
    ours: Sequence[StoredResult], theirs: Sequence[StoredResult], metric: str, catalog: Catalog
) -> Comparison:
    """Compare two sides by results of separate runs.

    Raises UserError for a result without the metric, and for a median that is not positive.
    """
    samples = _samples(ours, metric), _samples(theirs, metric)
    for side, runs in zip("AB", samples, strict=True):
        if median_of_runs(runs).median <= 0:  # as a user's program may print
            seen = f"{metric} of side {side}: {NoRatio.NOT_POSITIVE}"
            raise UserError(_TRIED, seen, _INSTEAD)
    unit = ours[0].metrics[metric].unit
    over, under = samples if unit.lower_is_better else samples[::-1]
    sides = side_of(ours[0]), side_of(theirs[0])
    measured = _Measured(metric, unit, samples, ratio_of_medians(over, under), pairs=0)
    return _comparison((*ours, *theirs), sides, measured, catalog)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What was measured of two sides, and how many times better B is."""

    metric: str
    unit: Unit
    samples: tuple[Runs, Runs]
    ratio: Ratio
    pairs: int


def batches_of(sides: tuple[Side, Side], metric: str) -> tuple[int, int] | None:
    """Return the samples in a step of each side; None if steps are not compared, or are alike."""
    a, b = (side.knobs.get(BATCH_SIZE) for side in sides)
    if metric != STEP_TIME or not isinstance(a, int) or not isinstance(b, int) or a == b:
        return None
    return a, b


def _by_samples(found: _Measured, batches: tuple[int, int], unit: Unit) -> _Measured:
    """Return what was measured of steps with unlike batches as samples per second."""
    factor = batches[1] / batches[0]
    ends = found.ratio.interval
    interval = None if ends is None else (ends[0] * factor, ends[1] * factor)
    a, b = (
        [tuple(batch / seconds if seconds else math.inf for seconds in run) for run in runs]
        for batch, runs in zip(batches, found.samples, strict=True)
    )
    ratio = Ratio(found.ratio.value * factor, interval)
    return _Measured(THROUGHPUT, unit, (a, b), ratio, found.pairs)


def _rate_unit(result: StoredResult) -> Unit:
    """Return the unit in which a workload's throughput is told: images per second, say."""
    told = result.metrics.get(THROUGHPUT) or result.metrics.get(f"{THROUGHPUT}_a")
    return told.unit if told else Unit.SAMPLES_PER_SECOND


def _comparison(
    results: Sequence[StoredResult], sides: tuple[Side, Side], found: _Measured, catalog: Catalog
) -> Comparison:
    first = results[0]
    a, b = side_labels(*without_lone_defaults(sides, first, catalog))
    if batches := batches_of(sides, found.metric):
        found = _by_samples(found, batches, _rate_unit(first))
    other = other_work(catalog, first.workload, first.scenario, *sides)
    low, high = found.ratio.interval or (None, None)
    validity = worst(result.validity for result in results)
    # The most precise of several: none of them is said to have been less demanding.
    asked = min((r.versus.width for r in results if r.versus), default=None)
    return Comparison(
        a=a,
        b=b,
        metric=found.metric,
        ratio=found.ratio.value,
        ratio_low=low,
        ratio_high=high,
        pairs=found.pairs,
        asked_width=asked,
        outcome=outcome_of(found.ratio, asked),
        verdict=verdict(found.ratio, asked) + _remarks(found.unit, batches, other, validity),
        other_work=tuple(other),
        workload=first.workload,
        scenario=first.scenario,
        device=_distinct(result.device for result in results),
        device_names=_distinct(result.shown_device for result in results),
        device_kind=_distinct(result.device_kind for result in results),
        virtual=any(result.virtual for result in results),
        unit=found.unit,
        value_a=spread(found.samples[0]).median,
        value_b=spread(found.samples[1]).median,
        knobs=_agreed([side.knobs for side in sides]),
        validity=validity,
        reasons=_distinct(reason for result in results for reason in result.reasons),
        runs=_distinct(result.run_id for result in results),
        environment=_agreed([result.environment for result in results]),
    )


def _remarks(
    unit: Unit,
    batches: tuple[int, int] | None,
    other: Mapping[str, tuple[Scalar, Scalar]],
    validity: Validity,
) -> str:
    """Return what a verdict says beyond the ratio."""
    by = f"; by {unit}, since {BATCH_SIZE} is {batches[0]} and {batches[1]}" if batches else ""
    knobs = (f"{n} is {scalar_text(a)} and {scalar_text(b)}" for n, (a, b) in other.items())
    unlike = f"; other work: {', '.join(knobs)}" if other else ""
    return f"{by}{unlike}{DISTURBED if validity is Validity.DISTURBED else ''}"


def _oriented(result: StoredResult, a: Side) -> Sequence[Pair]:
    return result.pairs if side_of(result) == a else [pair.swapped() for pair in result.pairs]


def _samples(results: Sequence[StoredResult], metric: str) -> Runs:
    if without := next((one for one in results if metric not in one.metrics), None):
        seen = f"run {without.run_id} has no {metric}, as one with mode=accuracy"
        raise UserError(_TRIED, seen, "Choose runs that measure speed: `--knob mode=performance`.")
    found = [result.metrics[metric] for result in results]
    return [m.samples or (m.value,) for m in found]


Item = TypeVar("Item")


def _distinct(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def _agreed(mappings: Sequence[Mapping[str, Item]]) -> dict[str, Item]:
    """Return the items that are equal in all mappings."""
    first, *others = mappings
    return {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }
