"""How much this process and others used the cores during timed sections.

What the kernel says of the cores this process may use and of their siblings (/proc/stat) less what
the process has used itself; beside it the machine's strain. The standard library only, since
runners on devices have it, too.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from agents.host.cpu_lists import parse_cpus
from agents.host.strain import (
    CPUS,
    NO_STRAIN,
    PROC,
    SYS,
    Strain,
    between,
    own_cores,
    read_strain,
)
from controller.platform.control_groups import text_of

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6)
"""Columns of /proc/stat: user, nice, system, irq, softirq."""
_STEAL: Final = 7


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU times in seconds, of the cores that this process may use."""

    elapsed_s: float = 0.0
    cores: int = 0
    busy_s: float = 0.0
    """CPU time used by all processes, on the cores' siblings as well, since both share a core; NaN:
    /proc/stat could not be read."""
    steal_s: float = 0.0
    """CPU time that the hypervisor gave to others; NaN as well."""
    own_s: float = 0.0
    """CPU time used by all threads of this process."""
    unknown_s: float = 0.0
    """Of elapsed_s: sections whose CPU times are not known, and so are in none of the others."""
    strain: Strain = NO_STRAIN

    def since(self, start: CpuTimes) -> CpuTimes:
        """Return the times that have passed since `start`; unknown if a counter went backwards."""
        elapsed_s = self.elapsed_s - start.elapsed_s
        busy_s, steal_s = self.busy_s - start.busy_s, self.steal_s - start.steal_s
        own_s = self.own_s - start.own_s
        if not (busy_s >= 0 and steal_s >= 0 and own_s >= 0):  # NaN, too
            return CpuTimes(elapsed_s, self.cores, unknown_s=elapsed_s)
        return CpuTimes(elapsed_s, self.cores, busy_s, steal_s, own_s)

    def plus(self, other: CpuTimes) -> CpuTimes:
        """Return the sum."""
        return CpuTimes(
            self.elapsed_s + other.elapsed_s,
            other.cores,
            self.busy_s + other.busy_s,
            self.steal_s + other.steal_s,
            self.own_s + other.own_s,
            self.unknown_s + other.unknown_s,
            self.strain.plus(other.strain),
        )

    @property
    def known_s(self) -> float:
        """Elapsed seconds of the sections whose CPU times are known."""
        return self.elapsed_s - self.unknown_s

    @property
    def own_cores(self) -> float | None:
        """Mean number of cores that this process kept busy; None if it is not known."""
        return round(self.own_s / self.known_s, 4) if self.known_s > 0 else None

    @property
    def other_cores(self) -> float | None:
        """Mean number of cores that others kept busy; None if it is not known.

        At least 0: the kernel counts in ticks of 10 ms, so that the difference may be negative.
        """
        if self.known_s <= 0:
            return None
        return round(max(0.0, self.busy_s - self.own_s) / self.known_s, 4)

    @property
    def steal_share(self) -> float | None:
        """Share of the cores' time that the hypervisor took; None if it is not known."""
        if self.known_s * self.cores <= 0:
            return None
        return round(self.steal_s / (self.known_s * self.cores), 4)


class CpuWatch:
    """The CPU times and the strain of all timed sections."""

    def __init__(self) -> None:
        self.timed = CpuTimes()

    @contextmanager
    def timing(self, own_s: Callable[[], float] | None = None) -> Iterator[None]:
        """Add the CPU times of this context; may be entered repeatedly.

        own_s: returns the CPU seconds so far of what is timed; None: this process is.
        """
        before = read_strain()
        start = _read(own_s)
        yield
        section = _read(own_s).since(start)
        self.timed = self.timed.plus(replace(section, strain=between(before, read_strain())))


def _read(own_s: Callable[[], float] | None) -> CpuTimes:
    now = read_cpu_times()
    return replace(now, own_s=own_s()) if own_s else now


def read_cpu_times(stat: Path = PROC / "stat", sys: Path = SYS) -> CpuTimes:
    """Read the CPU times now; those of /proc/stat are NaN if it can't be read or is damaged."""
    cores = own_cores()
    siblings = siblings_of(cores, sys)
    try:
        busy, steal = cpu_ticks(stat.read_text(), cores, siblings)
    except (OSError, ValueError):
        busy = steal = math.nan
    return CpuTimes(
        elapsed_s=time.monotonic(),
        cores=len(cores),
        busy_s=busy / TICKS_PER_S,
        steal_s=steal / TICKS_PER_S,
        own_s=time.process_time(),
    )


@cache
def siblings_of(cores: frozenset[int], sys: Path = SYS) -> frozenset[int]:
    """Return the other logical CPUs of the same physical cores, as far as the kernel tells them."""
    found: set[int] = set()
    for core in cores:
        with suppress(ValueError):  # what a missing file says is no list, either
            siblings = sys / CPUS / f"cpu{core}/topology/thread_siblings_list"
            found |= parse_cpus(text_of(siblings))
    return frozenset(found) - cores


def cpu_ticks(
    stat: str, cores: frozenset[int], siblings: frozenset[int] = frozenset()
) -> tuple[float, float]:
    """Return used and stolen ticks of some cores, from /proc/stat; raises ValueError.

    siblings: CPUs of which the used ticks count, too, if they are in /proc/stat.
    """
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    ticks = {name: [int(field) for field in fields] for name, *fields in lines}
    wanted = [ticks.get(f"cpu{core}", []) for core in cores]
    beside = [ticks[name] for core in siblings if (name := f"cpu{core}") in ticks]
    if any(len(columns) <= _STEAL for columns in (*wanted, *beside)):
        raise ValueError("/proc/stat does not have all cores, or not all of their times")
    busy = sum(columns[column] for columns in (*wanted, *beside) for column in _BUSY)
    return busy, sum(columns[_STEAL] for columns in wanted)
