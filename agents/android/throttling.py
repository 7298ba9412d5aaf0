"""What was sampled during a run, and whether and when heat slowed the phone down. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agents.android.conditions import THERMAL_STATUS
from agents.android.policy import Policy, Throttled, is_throttling
from controller.contracts.base import Scalar

WINDOWS: Final = 10
"""A run's latencies in parts of equal number, by whose medians a drift is told."""
LEAST_LATENCIES: Final = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """What a device said of itself at one moment."""

    at_s: float
    """Seconds since the first query; negative before it."""
    values: Mapping[str, str]
    """As the sampler prints them: see agents/android/runner/sampler.py."""

    def number(self, name: str) -> float | None:
        """Return a value that is a finite number, None if none was read."""
        try:
            value = float(self.values[name])
        except (KeyError, ValueError):
            return None
        return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that began during a run."""

    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.what} from {self.at_s:.1f} s on"


def readings_of(text: str, started_uptime_s: float) -> list[Reading]:
    """Read what the sampler wrote; a last round that is cut off counts as far as it goes."""
    found: list[Reading] = []
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "at":
            try:
                at_s = float(value) - started_uptime_s
            except ValueError:
                break
            values = {}
            found.append(Reading(at_s, values))
        elif found and value:
            values[name] = value.strip()
    return found


def findings(
    readings: Sequence[Reading],
    latencies_s: Sequence[float],
    duration_s: float,
    limits: Throttled,
) -> list[Finding]:
    """Return every sign of throttling in a run of so long, each with the moment it began."""
    return [
        *_by_status(readings, limits.thermal_status),
        *_by_frequency(readings, limits.frequency_share),
        *_by_latency(latencies_s, duration_s, limits.latency_drift),
    ]


def charging_began(readings: Sequence[Reading], policy: Policy) -> list[Finding]:
    """Return when charging began, under a policy that forbids it."""
    if policy.may_charge:
        return []
    for reading in readings:
        if reading.values.get("battery_status") == "Charging":
            return [Finding("the phone was charging", max(0.0, reading.at_s))]
    return []


def _by_status(readings: Sequence[Reading], from_here: str) -> Iterator[Finding]:
    for reading in readings:
        number = reading.number("thermal_status")
        if number is None:
            continue
        known = int(number) < len(THERMAL_STATUS)
        status = THERMAL_STATUS[int(number)] if known else str(int(number))
        if is_throttling(status, from_here):
            yield Finding(f"throttled: thermal status {status}", max(0.0, reading.at_s))
            return


def _by_frequency(readings: Sequence[Reading], share: float) -> Iterator[Finding]:
    """Yield the first core whose highest allowed frequency fell below its share of the first."""
    if not readings:
        return
    for name in (n for n in readings[0].values if n.startswith("limit_")):
        first = readings[0].number(name)
        for reading in readings[1:]:
            now = reading.number(name)
            if first and now is not None and now < share * first:
                core = name.removeprefix("limit_")
                what = f"throttled: {core} limited to {now / first:.0%} of its frequency"
                yield Finding(what, max(0.0, reading.at_s))
                return


def _by_latency(latencies_s: Sequence[float], duration_s: float, drift: float) -> Iterator[Finding]:
    """Yield from where on latencies stay above those of the start, to the end of the run.

    The moment is in proportion: a run that waits for queries, or has several at once, lasts longer
    or shorter than its latencies together.
    """
    if len(latencies_s) < LEAST_LATENCIES:
        return
    parts = np.array_split(np.asarray(latencies_s), WINDOWS)
    medians = np.array([float(np.median(part)) for part in parts])
    start = medians[:2].min()
    slow = medians > (1 + drift) * start
    if not slow[-2:].all():  # one window may be any other program's doing
        return
    first = int(np.flatnonzero(~slow)[-1]) + 1
    before = sum(float(part.sum()) for part in parts[:first])
    at_s = duration_s * before / sum(float(part.sum()) for part in parts)
    yield Finding(f"throttled: latency {medians[-1] / start:.2f} times that of the start", at_s)


def summary(readings: Sequence[Reading]) -> dict[str, Scalar]:
    """Return the extremes of what was sampled, as facts of a result."""
    facts: dict[str, Scalar] = {"conditions_samples": len(readings)}
    names = dict.fromkeys(name for reading in readings for name in reading.values)
    for name in names:
        values = [v for reading in readings if (v := reading.number(name)) is not None]
        if not values:
            continue
        if name.startswith("zone_"):
            facts[f"celsius_{name[5:]}_during_max"] = max(values) / 1000
        elif name == "battery_temp":
            facts["battery_celsius_during_max"] = max(values) / 10
        elif name == "thermal_status":
            facts["thermal_status_during_max"] = THERMAL_STATUS[min(int(max(values)), 6)]
        elif name.startswith("frequency_"):
            facts[f"{name}_khz_during_mean"] = round(float(np.mean(values)))
    return facts
