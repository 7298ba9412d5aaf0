"""How much CPU time this process's control groups may use, and how long the kernel has stopped them
for it (CFS bandwidth control). The standard library only, since runners on devices have it, too."""

from __future__ import annotations

from pathlib import Path

from controller.platform.control_groups import (
    CGROUPS,
    OWN_CGROUPS,
    control_groups,
    number_in,
    number_of,
    numbers_in,
    text_of,
)


def cpu_quota(own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> float | None:
    """Return the lowest CPU quota of this process's control groups and their parents, in cores;
    None if there is none."""
    quotas = (_quota(group, is_first) for group, is_first in control_groups("cpu", own, root))
    return min((quota for quota in quotas if quota is not None), default=None)


def quota_throttled_us(own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> int | None:
    """Return for how many µs quotas have throttled this process's control groups and their parents.

    The kernel counts each core by itself. None if it doesn't count.
    """
    counts = [_throttled_us(*group) for group in control_groups("cpu", own, root)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _quota(group: Path, is_first: bool) -> float | None:
    if is_first:
        quota = number_in(group / "cpu.cfs_quota_us")
        period = number_in(group / "cpu.cfs_period_us")
    else:
        quota, period = map(number_of, (*text_of(group / "cpu.max").split(), "", "")[:2])
    # The first version's word for none is -1, the second's max.
    return quota / period if quota and period and min(quota, period) > 0 else None


def _throttled_us(group: Path, is_first: bool) -> int | None:
    counts = numbers_in(group / "cpu.stat")
    if not is_first:
        return counts.get("throttled_usec")
    nanoseconds = counts.get("throttled_time")
    return None if nanoseconds is None else nanoseconds // 1000
