"""The comparison of A and B from stored results: the numbers and a plain verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from controller.contracts.base import Contract, Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.pair import Pair
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Validity, worst
from controller.contracts.sweep import Side, side_labels
from controller.contracts.units import Unit
from controller.reports.sides import side_of, sides_of
from controller.reports.verdict import ComparisonOutcome, outcome_of, verdict
from controller.stats.medians import Ratio, Runs, ratio_of_medians, spread
from controller.stats.pairs import ratio_of_pairs, times_better

DISTURBED: Final = "; DISTURBED: the machine was not quiet"
"""What is added to a verdict; both sides were measured in turns under the same disturbance."""


class Comparison(Contract):
    """The comparison of two sides; the format of `compare --json`, see docs/comparison.md."""

    a: str
    b: str
    """The sides, named by their stacks and the knobs that differ."""
    metric: str
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


def compare_pairs(
    results: Sequence[StoredResult], metric: str, sides: tuple[Side, Side] | None = None
) -> Comparison:
    """Compare two sides by paired results; without `sides`, take those of the first result.

    A result with the sides in the other order is swapped.
    """
    a, b = sides or sides_of(results[0])
    sessions = [_oriented(result, a) for result in results]
    unit = results[0].metrics[f"{metric}_a"].unit
    found = times_better(ratio_of_pairs(*sessions), unit)
    ratio = Ratio(found.value, (found.low, found.high) if found.bounded else None)
    pairs = [pair for session in sessions for pair in session]
    samples = [pair.a for pair in pairs], [pair.b for pair in pairs]
    return _comparison(results, (a, b), metric, unit, samples, ratio, found.pairs)


def compare_runs(
    ours: Sequence[StoredResult], theirs: Sequence[StoredResult], metric: str
) -> Comparison:
    """Compare two sides by results of separate runs."""
    unit = ours[0].metrics[metric].unit
    samples = _samples(ours, metric), _samples(theirs, metric)
    over, under = samples if unit.lower_is_better else samples[::-1]
    sides = side_of(ours[0]), side_of(theirs[0])
    ratio = ratio_of_medians(over, under)
    return _comparison((*ours, *theirs), sides, metric, unit, samples, ratio, 0)


def _comparison(
    results: Sequence[StoredResult],
    sides: tuple[Side, Side],
    metric: str,
    unit: Unit,
    samples: tuple[Runs, Runs],
    ratio: Ratio,
    pairs: int,
) -> Comparison:
    first, (a, b) = results[0], side_labels(*sides)
    low, high = ratio.interval or (None, None)
    validity = worst(result.validity for result in results)
    # The most precise of several: none of them is said to have been less demanding.
    asked = min((r.versus.width for r in results if r.versus), default=None)
    return Comparison(
        a=a,
        b=b,
        metric=metric,
        ratio=ratio.value,
        ratio_low=low,
        ratio_high=high,
        pairs=pairs,
        asked_width=asked,
        outcome=outcome_of(ratio, asked),
        verdict=f"{verdict(ratio, asked)}{DISTURBED if validity is Validity.DISTURBED else ''}",
        workload=first.workload,
        scenario=first.scenario,
        device=_distinct(result.device for result in results),
        device_names=_distinct(result.shown_device for result in results),
        device_kind=_distinct(result.device_kind for result in results),
        virtual=any(result.virtual for result in results),
        unit=unit,
        value_a=spread(samples[0]).median,
        value_b=spread(samples[1]).median,
        knobs=_agreed([side.knobs for side in sides]),
        validity=validity,
        reasons=_distinct(reason for result in results for reason in result.reasons),
        runs=_distinct(result.run_id for result in results),
        environment=_agreed([result.environment for result in results]),
    )


def _oriented(result: StoredResult, a: Side) -> Sequence[Pair]:
    return result.pairs if side_of(result) == a else [pair.swapped() for pair in result.pairs]


def _samples(results: Sequence[StoredResult], metric: str) -> Runs:
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
