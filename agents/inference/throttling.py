"""Signs of throttling in a run's samples and latencies, and when each began. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

import numpy as np

from agents.energy.readings import Reading
from agents.phones.conditions import hottest, status_named
from agents.phones.policy import is_throttling
from agents.remotes.remote import MAX_CHARACTERS
from controller.contracts.base import Scalar
from controller.contracts.policy import Policy, Throttled

WINDOWS: Final = 10
"""A run's latencies are split into this many equal windows, whose medians show a drift."""
LEAST_LATENCIES: Final = 60
CONDITIONS: Final = ("battery_status", "battery_temp", "thermal_status")
"""What has to be known throughout a run; each may stop to be readable by itself."""
BEGAN_AT: Final = "battery_celsius_as_it_began"
"""The fact with the battery's temperature when LoadGen began."""
BEGAN_WITHIN_S: Final = 5.0
"""A later reading has the run's own heat. The sampler's first rounds may be slow."""
_LIMIT: Final = r"limit_cpu\d{1,4}"
"""Names of the maximum allowed frequencies, one a core."""
_ZONE: Final = r"zone_\d{1,4}:.{1,64}"
_BEYOND: Final = 2**64
"""The kernel's numbers have 64 bits."""


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
    *,
    rested: Sequence[Reading] = (),
) -> list[ThrottlingSign]:
    """Return every sign of throttling in a run, each with the moment it began.

    rested: earlier readings, in which a core may have had more of its frequency.
    """
    return [
        *_by_status(readings, limits.thermal_status),
        *_by_frequency(readings, _highest_limits([*rested, *readings]), limits.frequency_share),
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
        status = status_named(reading.number("thermal_status"))
        if status and is_throttling(status, from_here):
            yield ThrottlingSign(f"throttled: thermal status {status}", max(0.0, reading.at_s))
            return


def _highest_limits(readings: Sequence[Reading]) -> dict[str, float]:
    """Return the highest maximum frequency that each core was allowed, by the value's name."""
    highest: dict[str, float] = {}
    for name, khz in _numbers(readings, _LIMIT):
        highest[name] = max(khz, highest.get(name, khz))
    return highest


def _by_frequency(
    readings: Sequence[Reading], highest: Mapping[str, float], share: float
) -> Iterator[ThrottlingSign]:
    """Yield the earliest moment at which a core was allowed less than this share of its highest
    frequency while it was timed: what held before the warm-up's end is the last reading of it."""
    timed_from = max((r.at_s for r in readings if r.at_s <= 0), default=0.0)
    for reading in (r for r in readings if r.at_s >= timed_from):
        for name, khz in _numbers([reading], _LIMIT):
            if 0 <= khz < share * highest[name]:
                core, left = name.removeprefix("limit_"), khz / highest[name]
                what = f"throttled: {core} limited to {left:.0%} of its frequency"
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
    facts: dict[str, Scalar] = {
        "conditions_samples": len(readings),
        "conditions_longest_gap_s": _longest_gap_s(readings, duration_s),
    }
    if statuses := {r.values["battery_status"] for r in readings if "battery_status" in r.values}:
        facts["battery_status_during"] = ", ".join(sorted(statuses))[:MAX_CHARACTERS]
    if known := [n for _, n in _numbers(readings, "thermal_status") if status_named(n)]:
        facts["thermal_status_during_max"] = str(status_named(max(known)))
    told = [n / 10 for _, n in _numbers(readings, "battery_temp")]
    early = [reading for reading in readings if reading.at_s <= BEGAN_WITHIN_S]
    at_begin = [n / 10 for _, n in _numbers(early, "battery_temp")][:1]
    if begun := hottest(("battery", celsius) for celsius in at_begin):
        facts[BEGAN_AT] = begun["battery"]
    if battery := hottest(("battery", celsius) for celsius in told):
        facts["battery_celsius_during_max"] = battery["battery"]
    zones = ((name.partition(":")[2], n / 1000) for name, n in _numbers(readings, _ZONE))
    facts |= {f"celsius_{name}_during_max": celsius for name, celsius in hottest(zones).items()}
    clocks: defaultdict[str, list[float]] = defaultdict(list)
    for name, khz in _numbers(readings, r"frequency_cpu\d{1,4}"):
        clocks[name].append(khz)
    return facts | {f"{name}_khz_during_mean": round(fmean(khz)) for name, khz in clocks.items()}


def _numbers(readings: Sequence[Reading], names: str) -> Iterator[tuple[str, float]]:
    """Yield every number that the kernel can say of the names that match, with its name."""
    wanted = re.compile(names, re.ASCII)
    for reading in readings:
        for name in filter(wanted.fullmatch, reading.values):
            if (value := reading.number(name)) is not None and abs(value) < _BEYOND:
                yield name, value


def _longest_gap_s(readings: Sequence[Reading], duration_s: float) -> float:
    """Return the longest time of a run without one of CONDITIONS that the device tells at all."""
    told: list[Sequence[Reading]] = [
        [r for r in readings if name in r.values] for name in CONDITIONS
    ]
    return max(_gap_s(rounds, duration_s) for rounds in list(filter(None, told)) or [readings])


def _gap_s(readings: Sequence[Reading], duration_s: float) -> float:
    moments = [0.0, *(r.at_s for r in readings if 0 < r.at_s < duration_s), duration_s]
    return max(later - earlier for earlier, later in pairwise(moments))
