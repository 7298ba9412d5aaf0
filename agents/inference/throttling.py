"""Signs of throttling in a run's samples and latencies, and when each began. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from agents.energy.readings import Reading
from agents.phones.conditions import THERMAL_STATUS
from agents.phones.policy import is_throttling
from controller.contracts.base import Scalar
from controller.contracts.policy import Policy, Throttled

WINDOWS: Final = 10
"""A run's latencies are split into this many equal windows, whose medians show a drift."""
LEAST_LATENCIES: Final = 60


@dataclass(frozen=True, slots=True)
class ThrottlingSign:
    """A sign of throttling, and when it began."""

    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.what} from {self.at_s:.1f} s on"


def findings(
    readings: Sequence[Reading],
    latencies_s: Sequence[float],
    duration_s: float,
    limits: Throttled,
) -> list[ThrottlingSign]:
    """Return every sign of throttling in a run, each with the moment it began."""
    return [
        *_by_status(readings, limits.thermal_status),
        *_by_frequency(readings, limits.frequency_share),
        *_by_latency(latencies_s, duration_s, limits.latency_drift),
    ]


def charging_began(readings: Sequence[Reading], policy: Policy) -> list[ThrottlingSign]:
    """Return when charging began, if the policy forbids charging."""
    if policy.may_charge:
        return []
    for reading in readings:
        if reading.values.get("battery_status") == "Charging":
            return [ThrottlingSign("the phone was charging", max(0.0, reading.at_s))]
    return []


def _by_status(readings: Sequence[Reading], from_here: str) -> Iterator[ThrottlingSign]:
    for reading in readings:
        number = reading.number("thermal_status")
        if number is None:
            continue
        known = int(number) < len(THERMAL_STATUS)
        status = THERMAL_STATUS[int(number)] if known else str(int(number))
        if is_throttling(status, from_here):
            yield ThrottlingSign(f"throttled: thermal status {status}", max(0.0, reading.at_s))
            return


def _by_frequency(readings: Sequence[Reading], share: float) -> Iterator[ThrottlingSign]:
    """Yield the first core whose maximum allowed frequency fell below this share of its first
    value."""
    if not readings:
        return
    for name in (n for n in readings[0].values if n.startswith("limit_")):
        first = readings[0].number(name)
        for reading in readings[1:]:
            now = reading.number(name)
            if first and now is not None and now < share * first:
                core = name.removeprefix("limit_")
                what = f"throttled: {core} limited to {now / first:.0%} of its frequency"
                yield ThrottlingSign(what, max(0.0, reading.at_s))
                return


def _by_latency(
    latencies_s: Sequence[float], duration_s: float, drift: float
) -> Iterator[ThrottlingSign]:
    """Yield the moment from which latencies stay above those of the start, to the end of the run.

    The moment is proportional: with waits between queries, or several queries at once, a run lasts
    longer or shorter than the sum of its latencies.
    """
    if len(latencies_s) < LEAST_LATENCIES:
        return
    parts = np.array_split(np.asarray(latencies_s), WINDOWS)
    medians = np.array([float(np.median(part)) for part in parts])
    start = medians[:2].min()
    slow = medians > (1 + drift) * start
    if not slow[-2:].all():  # another program may disturb one window
        return
    first = int(np.flatnonzero(~slow)[-1]) + 1
    before = sum(float(part.sum()) for part in parts[:first])
    at_s = duration_s * before / sum(float(part.sum()) for part in parts)
    yield ThrottlingSign(
        f"throttled: latency {medians[-1] / start:.2f} times that of the start", at_s
    )


def summary(readings: Sequence[Reading], duration_s: float) -> dict[str, Scalar]:
    """Return the extremes of a run's samples as facts of its result."""
    moments = [0.0, *(r.at_s for r in readings if 0 < r.at_s < duration_s), duration_s]
    facts: dict[str, Scalar] = {
        "conditions_samples": len(readings),
        "conditions_longest_gap_s": max(b - a for a, b in pairwise(moments)),
    }
    if statuses := {r.values["battery_status"] for r in readings if "battery_status" in r.values}:
        facts["battery_status_during"] = ", ".join(sorted(statuses))
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
