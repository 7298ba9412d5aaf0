"""Which causes the facts speak for, likeliest first. Pure.

A change of what was computed goes before all else. Next are conditions that can account for the
whole difference by what is known of them; then other software, of which nobody knows how much it
does; then conditions that are known to do something, but not how much; last what can account for
a part only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from controller.contracts.explanation import Cause, Effect, FactChange, PossibleCause
from controller.reports.explanation.causes import BUNDLED
from controller.reports.explanation.measured import Moved

NEARLY: Final = 0.8
"""Without an interval, what accounts for so much of the logarithm of a ratio is enough."""
_CPU: Final = ("xnnpack", "none", "cpu")
"""Delegates whose speed is the clock of the cores."""


class Tier(IntEnum):
    """How likely a cause is, before all others of a later tier."""

    WORK = 0
    CONDITION = 1
    SOFTWARE = 2
    POSSIBLE = 3
    PART = 4


_TIERS: Final[Mapping[Cause, Tier]] = {
    **dict.fromkeys(
        (Cause.MODEL, Cause.DATA, Cause.DELEGATE, Cause.THREADS, Cause.RUN, Cause.HARDWARE),
        Tier.WORK,
    ),
    **dict.fromkeys((Cause.GOVERNOR, Cause.LOAD, Cause.THROTTLING, Cause.CLOCK), Tier.CONDITION),
    **dict.fromkeys(
        (Cause.BUNDLE, Cause.VERSIONS, Cause.KERNEL, Cause.MICROCODE, Cause.SYSTEM, Cause.SETTINGS),
        Tier.SOFTWARE,
    ),
    **dict.fromkeys((Cause.HEAT, Cause.MEMORY, Cause.POWER), Tier.POSSIBLE),
}
"""The tier of a cause of which it is not known how much it does."""
TAKES: Final[Mapping[Cause, tuple[Cause, ...]]] = {
    Cause.MODEL: (Cause.DELEGATE,),
    Cause.GOVERNOR: (Cause.CLOCK,),
    Cause.HEAT: (Cause.THROTTLING, Cause.CLOCK),
    Cause.THROTTLING: (Cause.CLOCK,),
}
"""What a cause brings about; then that is evidence of it, and no cause by itself."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A difference of times: the logarithm of time now over time before."""

    effect: float
    least: float
    """The end of its interval that is nearer to 0; without an interval, NEARLY of it."""


@dataclass(frozen=True, slots=True)
class _Found:
    cause: Cause
    evidence: tuple[FactChange, ...]
    at_most: float | None = None


def ranked(
    told: Mapping[Cause, Sequence[FactChange]],
    moved: Mapping[Cause, Sequence[Moved]],
    measured: Measured,
    clock: str | None,
) -> tuple[PossibleCause, ...]:
    """Return the causes of a difference, likeliest first.

    told: facts that differ and can act this way; moved: measured facts that have changed. clock:
    the delegate of a run whose clock is known, empty without one; None if it is not known.
    """
    slower = measured.effect > 0
    agreeing = {c: [one for one in of if one.slows == slower] for c, of in moved.items()}
    found = {cause: _found(cause, told.get(cause, ()), agreeing.get(cause, ())) for cause in Cause}
    if bounded := _by_threads(found[Cause.THREADS], slower=slower):
        found[Cause.THREADS] = bounded
    present = {cause: one for cause, one in found.items() if one.evidence}
    if clock is not None and (not clock or clock in _CPU):
        _drop_harmless_heat(present)
    merged = _taken(_bundled(present))
    order = list(Cause)

    def place(one: _Found) -> tuple[Tier, float, int]:
        tier = _tier(one, measured)
        return tier, -_log(one) if tier is Tier.PART else 0.0, order.index(one.cause)

    return tuple(
        PossibleCause(
            cause=one.cause,
            effect=_effect(one, measured),
            at_most=one.at_most,
            evidence=one.evidence,
        )
        for one in sorted(merged, key=place)
    )


def _found(cause: Cause, told: Iterable[FactChange], moved: Sequence[Moved]) -> _Found:
    bounds = [one.at_most for one in moved if one.at_most is not None]
    # What other processes and the hypervisor take adds up; two signs of one clock don't.
    at_most = math.prod(bounds) if cause is Cause.LOAD else max(bounds, default=1.0)
    return _Found(cause, (*told, *(one.change for one in moved)), at_most if bounds else None)


def _by_threads(one: _Found, *, slower: bool) -> _Found | None:
    """Bound what other threads may do: no program gains more by threads than their number."""
    for change in one.evidence:
        before, now = change.before[-1], change.now
        if change.fact == "threads" and isinstance(before, int) and isinstance(now, int):
            most, least = (before, now) if slower else (now, before)
            return replace(one, at_most=most / least) if 0 < least < most else None
    return None


def _drop_harmless_heat(present: dict[Cause, _Found]) -> None:
    """Leave out heat where the clock is known, and neither it fell nor anything was throttled."""
    if Cause.CLOCK not in present and Cause.THROTTLING not in present:
        present.pop(Cause.HEAT, None)


def _bundled(present: Mapping[Cause, _Found]) -> dict[Cause, _Found]:
    """Count the versions of what is in a bundle as evidence of another bundle."""
    found = dict(present)
    bundle, versions = found.get(Cause.BUNDLE), found.get(Cause.VERSIONS)
    if bundle is None or versions is None:
        return found
    inside = tuple(change for change in versions.evidence if change.fact in BUNDLED)
    found[Cause.BUNDLE] = replace(bundle, evidence=(*bundle.evidence, *inside))
    rest = tuple(change for change in versions.evidence if change.fact not in BUNDLED)
    del found[Cause.VERSIONS]
    if rest:
        found[Cause.VERSIONS] = replace(versions, evidence=rest)
    return found


def _taken(present: Mapping[Cause, _Found]) -> list[_Found]:
    """Return the causes without those that others of them bring about."""
    taken = {after for cause in present for after in TAKES.get(cause, ())}
    found = []
    for cause, one in present.items():
        if cause in taken:
            continue
        after = [present[each] for each in TAKES.get(cause, ()) if each in present]
        bounds = [each.at_most for each in (one, *after) if each.at_most is not None]
        evidence = tuple(change for each in (one, *after) for change in each.evidence)
        found.append(_Found(cause, evidence, max(bounds, default=None)))
    return found


def _tier(one: _Found, measured: Measured) -> Tier:
    match _effect(one, measured):
        case Effect.ENOUGH:
            return min(_TIERS[one.cause], Tier.CONDITION)
        case Effect.PART if one.cause is not Cause.GOVERNOR and _TIERS[one.cause] > Tier.WORK:
            return Tier.PART
        case _:
            throttled = one.cause is Cause.HEAT and any(
                change.fact.startswith(("thermal_status", "timed_throttles"))
                for change in one.evidence
            )
            return Tier.CONDITION if throttled else _TIERS[one.cause]


def _effect(one: _Found, measured: Measured) -> Effect:
    if one.at_most is None:
        return Effect.UNKNOWN
    return Effect.ENOUGH if _log(one) >= abs(measured.least) else Effect.PART


def _log(one: _Found) -> float:
    return math.log(one.at_most) if one.at_most else 0.0
