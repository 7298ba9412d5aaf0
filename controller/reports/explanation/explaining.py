"""A result beside earlier ones of its cell and device: how much it differs, and why. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Final

from controller.contracts.errors import UserError
from controller.contracts.explanation import (
    FEWEST,
    Cause,
    Explanation,
    FactChange,
    PossibleCause,
    Speed,
)
from controller.contracts.facts import OwnFact
from controller.contracts.records import StoredResult
from controller.contracts.result import usable
from controller.reports.explanation.changes import Timed, changed_facts, missing_facts
from controller.reports.explanation.directions import acting, machine_of
from controller.reports.explanation.measured import all_moved, is_clock_known
from controller.reports.explanation.ranking import NEARLY, Measured, ranked
from controller.reports.verdict import FINEST
from controller.stats.medians import LARGEST_EXPONENT
from controller.stats.pairs import CONFIDENCE, t_quantile

NEWEST: Final = 10
"""Earlier runs that a result is compared with, at most."""


def result_of(run_id: str, results: Sequence[StoredResult]) -> StoredResult:
    """Return the result of a run that counts, else its newest; raises UserError without any."""
    found = [result for result in results if result.run_id == run_id]
    counted = [result for result in found if result.counted]
    if not found:
        seen = "it has no result"
        raise UserError(f"explain run {run_id}", seen, f"Run `benchfarm results show {run_id}`.")
    return (counted or found)[-1]


def earlier_of(
    result: StoredResult, results: Sequence[StoredResult], against: str | None = None
) -> list[StoredResult]:
    """Return the results with which one is compared, oldest first.

    These are the newest of earlier sweeps with the same cell on the same device, VALID if any is;
    without any, the earlier repeats of its own sweep. against: a sweep from which they are taken
    instead, earlier or not. Raises UserError without any.
    """
    alike = [r for r in results if _alike(r, result)]
    if against is None:
        before = [r for r in alike if r.started_at < result.started_at]
        others = [r for r in before if r.sweep_id != result.sweep_id] or before
    else:
        others = [r for r in alike if r.sweep_id == against]
    found = sorted(usable(others), key=lambda r: r.started_at)[-NEWEST:]
    if not found:
        where = f"of sweep {against}" if against else "before"
        seen = (
            f"no other result {where} is VALID or DISTURBED, of cell {result.cell_key} "
            f"on {result.shown_device}"
        )
        remedy = "Measure the cell again, and explain the newer run."
        raise UserError(f"explain run {result.run_id}", seen, remedy)
    return found


def _alike(one: StoredResult, other: StoredResult) -> bool:
    same = (one.cell_key, one.device, one.virtual) == (other.cell_key, other.device, other.virtual)
    return same and one.counted and one.run_id != other.run_id


def explain(
    result: StoredResult,
    earlier: Sequence[StoredResult],
    metric: str,
    own: Mapping[str, OwnFact],
) -> Explanation:
    """Return why a result differs from earlier ones of its cell.

    metric: the one that ranks its scenario. own: what the catalogue's stacks and scenarios declare.
    Raises UserError if the result or all earlier ones lack the metric, or it is not positive.
    """
    now, before = _timed(result, metric), [t for r in earlier if (t := _timed(r, metric))]
    if now is None or not before:
        seen = f"{metric} is missing, or not positive, now or before"
        remedy = f"Run `benchfarm results show {result.run_id}`."
        raise UserError(f"explain run {result.run_id}", seen, remedy)
    logs = [math.log(run.time) for run in before]
    effect, reach = math.log(now.time) - fmean(logs), _reach(logs)
    speed = _speed(effect, reach)
    told = changed_facts(before, now, own)
    able = told
    if result.versus is None:  # which way a fact moves a ratio is not known
        able = acting(told, slower=effect > 0, machine=machine_of(now.environment))
    causes = () if speed is Speed.NOT_SHOWN else _causes(before, now, able, effect, reach)
    claimed = {change.fact for cause in causes for change in cause.evidence}
    sign = 1 if result.metrics[metric].unit.lower_is_better else -1
    return Explanation(
        run_id=result.run_id,
        attempt=result.attempt,
        device=result.device,
        device_name=result.device_name,
        workload=result.workload,
        scenario=result.scenario,
        metric=metric,
        unit=result.metrics[metric].unit,
        value=result.metrics[metric].value,
        before=math.exp(sign * fmean(logs)),
        earlier=tuple(r.run_id for r in earlier),
        same_sweep=all(r.sweep_id == result.sweep_id for r in earlier),
        times_slower=math.exp(effect),
        interval=None if reach is None else (math.exp(effect - reach), math.exp(effect + reach)),
        speed=speed,
        causes=causes,
        changed=tuple(c for of in told.values() for c in of if c.fact not in claimed),
        not_recorded=missing_facts(before, now),
    )


def _causes(
    before: Sequence[Timed],
    now: Timed,
    told: Mapping[Cause, Sequence[FactChange]],
    effect: float,
    reach: float | None,
) -> tuple[PossibleCause, ...]:
    least = NEARLY * effect if reach is None else math.copysign(abs(effect) - reach, effect)
    environments = [run.environment for run in before]
    delegate = str(now.environment.get("delegate") or "")
    clock = delegate if is_clock_known(environments, now.environment) else None
    moved = all_moved(environments, now.environment)
    return ranked(told, moved, Measured(effect, least), clock)


def _timed(result: StoredResult, metric: str) -> Timed | None:
    measured = result.metrics.get(metric)
    if measured is None or measured.value <= 0:
        return None
    time = measured.value if measured.unit.lower_is_better else 1 / measured.value
    return Timed(result.environment, time)


def _reach(logs: Sequence[float]) -> float | None:
    """Return half the width of the 95 % prediction interval of one more run like some, as a
    logarithm; None for fewer than FEWEST.

    It is Student's t: the new run varies as the earlier ones do, and their mean is uncertain, too.
    """
    if len(logs) < FEWEST:
        return None
    spread = stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return min(max(t_quantile(len(logs) - 1, CONFIDENCE) * spread, FINEST), LARGEST_EXPONENT)


def _speed(effect: float, reach: float | None) -> Speed:
    if reach is None:
        return Speed.NO_INTERVAL
    if abs(effect) <= reach:
        return Speed.NOT_SHOWN
    return Speed.SLOWER if effect > 0 else Speed.FASTER
