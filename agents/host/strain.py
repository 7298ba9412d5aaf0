"""Memory pressure, CPU quota, heat and clock of the cores during timed sections.

From the kernel's pressure stall information (/proc/pressure/memory), its control groups, counters
of thermal throttling, cpufreq, thermal zones and hwmon. What can't be read, is damaged or went
backwards is not known, and is left out. The standard library only, since runners on devices have
it, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from controller.platform.control_groups import number_in, number_of, text_of
from controller.platform.cpu_quota import quota_throttled_us

Value = TypeVar("Value", int, float)
PROC: Final = Path("/proc")
SYS: Final = Path("/sys")
CPUS: Final = "devices/system/cpu"
_SENSORS: Final = ("class/thermal/thermal_zone*/temp", "class/hwmon/hwmon*/temp*_input")
MILLICELSIUS: Final = range(-50_000, 150_000)
"""What is taken for a temperature; sensors without one say numbers far outside."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the kernel says at one moment; None: it does not."""

    at_s: float = 0.0
    memory_us: int | None = None
    """Time in which some task waited for memory, since boot."""
    throttles: Mapping[str, int] = field(default_factory=dict)
    """Thermal throttling events since boot, by the counter's path."""
    khz: int | None = None
    """Highest clock frequency of the cores that this process may use."""
    celsius: float | None = None
    """Of the hottest sensor."""
    quota_us: int | None = None
    """Time for which CPU quotas have throttled the control groups of this process, of each core."""


@dataclass(frozen=True, slots=True)
class Strain:
    """What strained a machine during timed sections; None: not known."""

    memory_s: float = 0.0
    """Time in which some task waited for memory."""
    memory_of_s: float = 0.0
    """Elapsed time of the sections for which that is known."""
    throttles: int | None = None
    """Thermal throttling events."""
    first_khz: int | None = None
    """Highest clock frequency of a core when the first section began."""
    least_khz: int | None = None
    """The least of these at a section's end."""
    celsius: float | None = None
    """Of the hottest sensor, at a section's begin or end."""
    quota_s: float = 0.0
    """Time for which CPU quotas throttled the control groups, summed over the cores."""
    quota_of_s: float = 0.0
    """Elapsed time of the sections for which that is known."""

    def plus(self, later: Strain) -> Strain:
        """Return the strain of these sections and of later ones."""
        known = [count for count in (self.throttles, later.throttles) if count is not None]
        return Strain(
            self.memory_s + later.memory_s,
            self.memory_of_s + later.memory_of_s,
            sum(known) if known else None,
            later.first_khz if self.first_khz is None else self.first_khz,
            min(_known(self.least_khz, later.least_khz), default=None),
            max(_known(self.celsius, later.celsius), default=None),
            self.quota_s + later.quota_s,
            self.quota_of_s + later.quota_of_s,
        )

    @property
    def memory_pressure(self) -> float | None:
        """Share of the time in which some task waited for memory."""
        return round(self.memory_s / self.memory_of_s, 4) if self.memory_of_s > 0 else None

    @property
    def quota_throttled_s(self) -> float | None:
        """Time for which CPU quotas throttled the control groups; None if it is not known."""
        return round(self.quota_s, 3) if self.quota_of_s > 0 else None

    @property
    def frequency_drop(self) -> float | None:
        """Share by which the highest clock frequency fell from the first begin to the worst end."""
        if not self.first_khz or self.least_khz is None:
            return None
        return round(max(0.0, 1 - self.least_khz / self.first_khz), 4)


NO_STRAIN: Final = Strain()
"""Of no section."""


@cache
def own_cores() -> frozenset[int]:
    """Return the cores that this process was given; first called before torch is used.

    OpenMP may then pin the calling thread to one of them.
    """
    return frozenset(os.sched_getaffinity(0))


def between(start: Reading, end: Reading) -> Strain:
    """Return the strain of one section from the readings before and after it."""
    elapsed_s = end.at_s - start.at_s
    memory_s = _passed_s(start.memory_us, end.memory_us)
    quota_s = _passed_s(start.quota_us, end.quota_us)
    counted = [
        count - start.throttles[counter]
        for counter, count in end.throttles.items()
        if start.throttles.get(counter, count + 1) <= count
    ]
    return Strain(
        memory_s or 0.0,
        0.0 if memory_s is None else elapsed_s,
        sum(counted) if counted else None,
        start.khz,
        end.khz,
        max(_known(start.celsius, end.celsius), default=None),
        quota_s or 0.0,
        0.0 if quota_s is None else elapsed_s,
    )


def _passed_s(start_us: int | None, end_us: int | None) -> float | None:
    """Return what a counter has counted; None if it is not known or went backwards."""
    if start_us is None or end_us is None or end_us < start_us:
        return None
    return (end_us - start_us) / 1e6


def read_strain(proc: Path = PROC, sys: Path = SYS) -> Reading:
    """Read what the kernel says now of the cores that this process may use; raises nothing."""
    cores = [sys / CPUS / f"cpu{core}" for core in sorted(own_cores())]
    counters = [
        core / "thermal_throttle" / f"{part}_throttle_count"
        for core in cores
        for part in ("core", "package")
    ]
    clocks = [number_in(core / "cpufreq/scaling_cur_freq") for core in cores]
    return Reading(
        at_s=time.monotonic(),
        memory_us=memory_stall_us(text_of(proc / "pressure/memory")),
        throttles={str(path): count for path in counters if (count := number_in(path)) is not None},
        khz=max((khz for khz in _known(*clocks) if khz > 0), default=None),
        celsius=_hottest(path for sensors in _SENSORS for path in sys.glob(sensors)),
        quota_us=quota_throttled_us(proc / "self/cgroup", sys / "fs/cgroup"),
    )


def memory_stall_us(pressure: str) -> int | None:
    """Return the `total` of the line `some` of /proc/pressure/memory in µs; None: it has none."""
    for line in pressure.splitlines():
        kind, *fields = line.split() or [""]
        totals = [value for value in fields if value.startswith("total=")]
        if kind == "some" and len(totals) == 1:
            return number_of(totals[0].removeprefix("total="))
    return None


def _hottest(sensors: Iterable[Path]) -> float | None:
    found = [value for value in _known(*map(number_in, sensors)) if value in MILLICELSIUS]
    return max(found) / 1e3 if found else None


def _known(*values: Value | None) -> list[Value]:
    return [value for value in values if value is not None]
