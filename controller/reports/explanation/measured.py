"""Facts that vary from run to run: what is read, how much it varies, what it can do to times. Pure.

A number has changed if it is outside the 99 % prediction interval of the earlier runs. Since these
are few, their variance is pooled with what such facts usually vary by, which counts as much as
PRIOR further runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Final

from controller.contracts.explanation import Cause, FactChange
from controller.contracts.facts import unit_of
from controller.contracts.result import Environment
from controller.stats.pairs import t_quantile

PRIOR: Final = 4
CONFIDENCE: Final = 0.99
STATUSES: Final = ("NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN")
"""Android's ThrottlingSeverity, by number."""
_STATUS_FACTS: Final = ("thermal_status_during_max", "thermal_status_after")
Read = Callable[[Environment], tuple[str, float] | None]
"""Returns a fact's name and value."""
Bound = Callable[[float, float], float]
"""Returns by how many times a run takes longer at most, from the values before and now."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """How a measured fact is read and judged."""

    cause: Cause
    read: Read
    noise: float
    """Its usual standard deviation from run to run; of its logarithm, if `relative`."""
    least: float
    """The least change that can matter, likewise."""
    slows: bool
    """Whether a larger value makes a run slower."""
    relative: bool = False
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A measured fact that has changed."""

    gauge: Gauge
    change: FactChange
    slows: bool
    """Whether it can have made the run slower; otherwise faster."""
    at_most: float | None
    """How many times slower, or faster."""


def moved(
    gauge: Gauge, before: Sequence[Environment], now: Environment, confidence: float = CONFIDENCE
) -> Moved | None:
    """Return how a measured fact has changed; None if it has not, or isn't known."""
    seen = gauge.read(now)
    if seen is None:
        return None
    name, value = seen
    values = [found for env in before if (found := _same(gauge, env, name)) is not None]
    if not values or not _outside(gauge, values, value, confidence):
        return None
    usual = math.exp(fmean(map(math.log, values))) if gauge.relative else fmean(values)
    slows = (value > usual) == gauge.slows
    factor = gauge.bound(usual, value) if gauge.bound else None
    at_most = None if factor is None else (factor if slows else 1 / factor)
    shown = tuple(map(partial(_as_recorded, name), (*values, value)))
    change = FactChange(fact=name, before=shown[:-1], now=shown[-1], unit=unit_of(name, {}))
    return Moved(gauge, change, slows, at_most)


def _same(gauge: Gauge, environment: Environment, name: str) -> float | None:
    """Return the value of one fact, whichever the gauge would read: two sensors don't compare."""
    found = gauge.read(environment)
    return found[1] if found and found[0] == name else number_of(environment, name)


def _as_recorded(name: str, value: float) -> float | str:
    return STATUSES[int(value)] if name in _STATUS_FACTS else value


def _outside(gauge: Gauge, values: Sequence[float], value: float, confidence: float) -> bool:
    if gauge.relative:
        if min(*values, value) <= 0:
            return False
        values, value = [math.log(each) for each in values], math.log(value)
    count, middle = len(values), fmean(values)
    freedom = PRIOR + count - 1
    squares = PRIOR * gauge.noise**2 + sum((each - middle) ** 2 for each in values)
    reach = t_quantile(freedom, confidence) * math.sqrt(squares / freedom * (1 + 1 / count))
    return abs(value - middle) > max(gauge.least, reach)


def number_of(environment: Environment, name: str) -> float | None:
    """Return a fact that is a number, else None."""
    value = environment.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _first(*names: str) -> Read:
    def read(environment: Environment) -> tuple[str, float] | None:
        for name in names:
            if (value := number_of(environment, name)) is not None:
                return name, value
        return None

    return read


def _highest(*patterns: str) -> Read:
    """Read the highest of the facts that the first pattern fits that any fits."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def read(environment: Environment) -> tuple[str, float] | None:
        for pattern in compiled:
            found = [
                (value, name)
                for name in environment
                if pattern.fullmatch(name) and (value := number_of(environment, name)) is not None
            ]
            if found:
                value, name = max(found)
                return name, value
        return None

    return read


def _typical(*patterns: str) -> Read:
    """Read the middle one of the facts that the first pattern fits that any fits.

    One sensor of many that is off tells nothing of the others.
    """
    compiled = [re.compile(pattern) for pattern in patterns]

    def read(environment: Environment) -> tuple[str, float] | None:
        for pattern in compiled:
            found = sorted(
                (value, name)
                for name in environment
                if pattern.fullmatch(name) and (value := number_of(environment, name)) is not None
            )
            if found:
                value, name = found[len(found) // 2]
                return name, value
        return None

    return read


def _status(environment: Environment) -> tuple[str, float] | None:
    for name in _STATUS_FACTS:
        if (said := environment.get(name)) in STATUSES:
            return name, float(STATUSES.index(str(said)))
    return None


def _load(environment: Environment) -> tuple[str, float] | None:
    """Read what waited to run before; not where it is known what ran beside the timed section."""
    if number_of(environment, "timed_other_cores") is not None:
        return None
    value = number_of(environment, "load_before")
    return None if value is None else ("load_before", value)


def _clock_after(environment: Environment) -> tuple[str, float] | None:
    """Read the clock after the run; not where its mean during the run is known."""
    return None if _MEAN_CLOCK(environment) else _first("frequency_khz_after")(environment)


def by_rate(before: float, now: float) -> float:
    """Bound a program by a rate, such as its clock's: it needs as many cycles as before."""
    return before / now


def by_share_taken(before: float, now: float) -> float:
    """Bound a program from which a share of its time, or of its clock, is taken."""
    return (1 - min(before, 0.99)) / (1 - min(now, 0.99))


def by_other_cores(before: float, now: float) -> float:
    """Bound a program whose threads wait for the slowest of them, beside others' work.

    One that shares its core gets at least half of it, of each further process one share less.
    """
    return _beside(now) / _beside(before)


def _beside(cores: float) -> float:
    return max(1 / (1 - min(max(cores, 0.0), 0.5)), 1 + cores if cores >= 1 else 1.0)


def _gauge(cause: Cause, read: Read, *, varies: float, least: float, slows: bool) -> Gauge:
    return Gauge(cause, read, varies, least, slows)


def _share(cause: Cause, *names: str, varies: float, least: float) -> Gauge:
    return Gauge(cause, _first(*names), varies, least, slows=True, bound=by_share_taken)


def _rate(
    cause: Cause, read: Read, *, varies: float, least: float, bound: Bound | None = by_rate
) -> Gauge:
    return Gauge(cause, read, varies, least, slows=False, relative=True, bound=bound)


_SENSORS: Final = (
    *("timed_hottest_celsius", r"celsius_.+_during_max", "battery_celsius_during_max"),
    *(r"celsius_.+_after", "battery_celsius_after"),
)
_CORES_USED: Final = Gauge(
    Cause.THREADS, _first("threads_used"), 0.5, 1.0, slows=False, bound=by_rate
)
_OTHER_CORES: Final = Gauge(
    Cause.LOAD, _first("timed_other_cores"), 0.05, 0.1, slows=True, bound=by_other_cores
)
_LOAD: Final = Gauge(Cause.LOAD, _load, 0.3, 0.75, slows=True, bound=by_other_cores)
_MEAN_CLOCK: Final = _highest(r"frequency_.+_khz_during_mean")
GAUGES: Final[tuple[Gauge, ...]] = (
    _CORES_USED,
    _OTHER_CORES,
    _share(Cause.LOAD, "timed_steal_share", "steal_share", varies=0.005, least=0.01),
    _LOAD,
    _gauge(Cause.HEAT, _typical(*_SENSORS), varies=1.5, least=4.0, slows=True),
    _gauge(Cause.THROTTLING, _status, varies=0.3, least=1.0, slows=True),
    _gauge(Cause.THROTTLING, _first("timed_throttles"), varies=1.0, least=3.0, slows=True),
    _share(Cause.THROTTLING, "timed_frequency_drop", varies=0.01, least=0.02),
    _rate(Cause.CLOCK, _MEAN_CLOCK, varies=0.015, least=0.03),
    _rate(Cause.CLOCK, _clock_after, varies=0.05, least=0.1),
    _rate(Cause.CLOCK, _first("matmul_gflops"), varies=0.02, least=0.04),
    _share(Cause.MEMORY, "timed_memory_pressure", varies=0.005, least=0.02),
    _rate(Cause.MEMORY, _first("copy_gbps"), varies=0.03, least=0.06),
    _rate(Cause.MEMORY, _first("memory_available_kb_before"), varies=0.1, least=0.35, bound=None),
    _rate(Cause.MEMORY, _first("huge_page_bytes"), varies=0.3, least=0.7, bound=None),
    _gauge(Cause.POWER, _first("screen_brightness_before"), varies=20.0, least=60.0, slows=True),
)


def all_moved(
    before: Sequence[Environment], now: Environment, gauges: Sequence[Gauge] = GAUGES
) -> Mapping[Cause, list[Moved]]:
    """Return the measured facts that have changed, by cause."""
    found: dict[Cause, list[Moved]] = {}
    for gauge in gauges:
        if change := moved(gauge, before, now):
            found.setdefault(gauge.cause, []).append(change)
    return found


def is_clock_known(before: Sequence[Environment], now: Environment) -> bool:
    """Return whether the clock during the runs is known, then and now."""
    known = (_MEAN_CLOCK, _first("timed_frequency_drop"))
    return any(read(now) and any(map(read, before)) for read in known)
