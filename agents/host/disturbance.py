"""How much other processes used the cores during timed sections, and whether it was too much.

What the kernel says of the cores this process may use (/proc/stat) less what the process has used
itself. Policies have the bounds: threads that wait for each other are as slow as the slowest, so
that what others may use is a number of cores, however many there are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.policy import Policy
from controller.contracts.result import Environment, Validity

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6)
"""Columns of /proc/stat: user, nice, system, irq, softirq."""
_STEAL: Final = 7


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU times in seconds, of the cores that this process may use."""

    elapsed_s: float = 0.0
    cores: int = 0
    busy_s: float = 0.0
    """CPU time used by all processes."""
    steal_s: float = 0.0
    """CPU time that the hypervisor gave to others."""
    own_s: float = 0.0
    """CPU time used by all threads of this process."""

    def since(self, start: CpuTimes) -> CpuTimes:
        """Return the times that have passed since `start`."""
        return CpuTimes(
            self.elapsed_s - start.elapsed_s,
            self.cores,
            self.busy_s - start.busy_s,
            self.steal_s - start.steal_s,
            self.own_s - start.own_s,
        )

    def plus(self, other: CpuTimes) -> CpuTimes:
        """Return the sum."""
        return CpuTimes(
            self.elapsed_s + other.elapsed_s,
            other.cores,
            self.busy_s + other.busy_s,
            self.steal_s + other.steal_s,
            self.own_s + other.own_s,
        )

    @property
    def other_cores(self) -> float | None:
        """Mean number of cores that others kept busy; None if nothing was timed.

        May be slightly negative, since the kernel counts in ticks of 10 ms.
        """
        if not self.elapsed_s:
            return None
        return round(max(0.0, self.busy_s - self.own_s) / self.elapsed_s, 4)

    @property
    def steal_share(self) -> float | None:
        """Share of the cores' time that the hypervisor took; None if nothing was timed."""
        if not self.elapsed_s:
            return None
        return round(self.steal_s / (self.elapsed_s * self.cores), 4)


class CpuWatch:
    """The CPU times of all timed sections."""

    def __init__(self) -> None:
        self.timed = CpuTimes()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Add the CPU times of this context; may be entered repeatedly."""
        start = read_cpu_times()
        yield
        self.timed = self.timed.plus(read_cpu_times().since(start))


def read_cpu_times(stat: Path = Path("/proc/stat")) -> CpuTimes:
    """Read the CPU times now; raises OSError without /proc."""
    cores = os.sched_getaffinity(0)
    busy, steal = cpu_ticks(stat.read_text(), frozenset(cores))
    return CpuTimes(
        elapsed_s=time.monotonic(),
        cores=len(cores),
        busy_s=busy / _TICKS_PER_S,
        steal_s=steal / _TICKS_PER_S,
        own_s=time.process_time(),
    )


def cpu_ticks(stat: str, cores: frozenset[int]) -> tuple[int, int]:
    """Return used and stolen ticks of some cores, from /proc/stat."""
    wanted = {f"cpu{core}" for core in cores}
    busy = steal = 0
    for name, *fields in map(str.split, stat.splitlines()):
        if name in wanted:
            ticks = [int(field) for field in fields]
            busy += sum(ticks[column] for column in _BUSY)
            steal += ticks[_STEAL]
    return busy, steal


def environment_of(timed: CpuTimes) -> Environment:
    """Return the facts that show how much the timed sections were disturbed."""
    return {
        "timed_s": round(timed.elapsed_s, 3),
        "timed_other_cores": timed.other_cores,
        "timed_steal_share": timed.steal_share,
    }


def objections(timed: CpuTimes, policy: Policy) -> tuple[str, ...]:
    """Return why a run was disturbed by a policy's limits: others used the cores."""
    if (limits := policy.host) is None:
        return ()
    found = []
    # Ticks are coarse: beside a short run, one for each core is not known to be a disturbance.
    unknown_s = 0.0 if limits.enforced else timed.cores / _TICKS_PER_S
    others = timed.busy_s - timed.own_s > limits.most_other_cores * timed.elapsed_s + unknown_s
    if (timed.other_cores or 0.0) > limits.most_other_cores and others:
        found.append(
            f"other processes kept {timed.other_cores:.2f} of {timed.cores} cores busy while it "
            f"was timed ({timed.busy_s - timed.own_s:.2f} CPU s in {timed.elapsed_s:.2f} s); "
            f"policy {policy.name} allows {limits.most_other_cores:g}"
        )
    stolen = timed.steal_s > limits.most_steal_share * timed.elapsed_s * timed.cores + unknown_s
    if (timed.steal_share or 0.0) > limits.most_steal_share and stolen:
        found.append(
            f"the hypervisor took {timed.steal_share:.1%} of the cores' time while it was timed; "
            f"policy {policy.name} allows {limits.most_steal_share:.0%}"
        )
    return tuple(found)


def validity_of(broken: Sequence[str], disturbed: Sequence[str], policy: Policy) -> Validity:
    """Return the validity of a run from the rules it broke and what disturbed it."""
    if broken or (disturbed and policy.host and policy.host.enforced):
        return Validity.INVALID
    return Validity.DISTURBED if disturbed else Validity.VALID
