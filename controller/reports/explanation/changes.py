"""Facts that either differ from what they were before, or don't. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from controller.contracts.explanation import Cause, FactChange, FactValue
from controller.contracts.facts import OwnFact, unit_of
from controller.contracts.result import Environment
from controller.reports.explanation.causes import EXPECTED, cause_of


@dataclass(frozen=True, slots=True)
class Timed:
    """A run's environment, and its time; of a rate, one over it."""

    environment: Environment
    time: float


def changed_facts(
    before: Sequence[Timed], now: Timed, own: Mapping[str, OwnFact]
) -> dict[Cause, list[FactChange]]:
    """Return the facts whose values tell the run from the earlier ones, by cause.

    A value that earlier runs had, too, tells nothing, unless these took about as long as this one.
    own: what the catalogue's stacks and scenarios declare.
    """
    found: dict[Cause, list[FactChange]] = {}
    for name, value in now.environment.items():
        cause = cause_of(name, own)
        if cause is None or value is None:
            continue
        known = [run for run in before if run.environment.get(name) is not None]
        if known and _tells(name, known, now):
            values = tuple(dict.fromkeys(run.environment[name] for run in known))
            change = FactChange(fact=name, before=values, now=value, unit=unit_of(name, own))
            found.setdefault(cause, []).append(change)
    return found


def _tells(name: str, known: Sequence[Timed], now: Timed) -> bool:
    value = now.environment[name]
    like = [run.time for run in known if run.environment[name] == value]
    unlike = [run.time for run in known if run.environment[name] != value]
    if not like or not unlike:
        return not like
    return _apart(now.time, median(like)) < _apart(now.time, median(unlike)) / 2


def _apart(one: float, other: float) -> float:
    return abs(math.log(one / other))


def missing_facts(before: Iterable[Timed], now: Timed) -> tuple[str, ...]:
    """Return the facts that tell a cause, but are missing in this run or in all earlier ones."""
    earlier = [run.environment for run in before]
    return tuple(
        name
        for name in EXPECTED
        if now.environment.get(name) is None
        or all(environment.get(name) is None for environment in earlier)
    )


def differing(change: FactChange) -> tuple[FactValue, FactValue]:
    """Return what the newest value before and that now have alone, of lists; else both whole."""
    before, now = change.before[-1], change.now
    if not isinstance(before, tuple) or not isinstance(now, tuple):
        return before, now
    return (
        tuple(part for part in before if part not in now),
        tuple(part for part in now if part not in before),
    )
