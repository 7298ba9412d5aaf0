"""The gate for quiet: whether what ran beside a timed section, or strained its machine, was too
much.

Used by whatever is timed on a host: `with watch.timing(): …`, then `objections` by a policy,
`validity_of` the result, and `environment_of` for its facts. Policies have the bounds: threads that
wait for each other are as slow as the slowest, so that what others may use is a number of cores,
however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from agents.host.cpu_watch import TICKS_PER_S, CpuTimes, CpuWatch
from agents.host.strain import Strain
from controller.contracts.policy import HostLimits, Policy
from controller.contracts.result import Environment, Result, Validity

__all__ = [
    "OWN_SPEED",
    "CpuTimes",
    "CpuWatch",
    "environment_of",
    "judged",
    "objections",
    "speed_objections",
    "validity_of",
]
OWN_SPEED: Final = "the machine's own speed changed"
"""Begins the objection that no other process explains."""


def environment_of(timed: CpuTimes) -> Environment:
    """Return the facts that show how much the timed sections were disturbed."""
    return {
        "timed_s": round(timed.elapsed_s, 3),
        "timed_own_cores": timed.own_cores,
        "timed_other_cores": timed.other_cores,
        "timed_steal_share": timed.steal_share,
        "timed_memory_pressure": timed.strain.memory_pressure,
        "timed_quota_throttled_s": timed.strain.quota_throttled_s,
        "timed_throttles": timed.strain.throttles,
        "timed_frequency_drop": timed.strain.frequency_drop,
        "timed_hottest_celsius": timed.strain.celsius,
    }


def objections(timed: CpuTimes, policy: Policy) -> tuple[str, ...]:
    """Return why a run was disturbed by a policy's limits; what is not known is not judged."""
    if (limits := policy.host) is None:
        return ()
    # Ticks are coarse: beside a short run, one for each core is not known to be a disturbance.
    tick_s = 0.0 if limits.enforced else 1 / TICKS_PER_S
    return (
        *_of_the_cores(timed, limits, policy.name, timed.cores * tick_s),
        *_of_the_strain(timed.strain, limits, policy.name, tick_s),
    )


def _of_the_cores(
    timed: CpuTimes, limits: HostLimits, name: str, unknown_s: float
) -> Iterator[str]:
    others = timed.busy_s - timed.own_s > limits.most_other_cores * timed.known_s + unknown_s
    if (timed.other_cores or 0.0) > limits.most_other_cores and others:
        yield (
            f"other processes kept {_cores_of_others(timed)} busy while it was timed ("
            f"{timed.busy_s - timed.own_s:.2f} CPU s in {timed.known_s:.2f} s); "
            f"policy {name} allows {limits.most_other_cores:g}"
        )
    stolen = timed.steal_s > limits.most_steal_share * timed.known_s * timed.cores + unknown_s
    if (timed.steal_share or 0.0) > limits.most_steal_share and stolen:
        yield (
            f"the hypervisor took {timed.steal_share:.1%} of the cores' time while it was timed; "
            f"policy {name} allows {limits.most_steal_share:.0%}"
        )


def _cores_of_others(timed: CpuTimes) -> str:
    others = timed.other_cores or 0.0
    if others <= timed.cores:
        return f"{others:.2f} of {timed.cores} cores"
    return f"{others:.2f} cores, siblings of the {timed.cores} timed ones among them,"


def _of_the_strain(
    strain: Strain, limits: HostLimits, name: str, unknown_s: float
) -> Iterator[str]:
    pressure, most_pressure = strain.memory_pressure or 0.0, limits.most_memory_pressure or 1.0
    waited = strain.memory_s > most_pressure * strain.memory_of_s + unknown_s
    if pressure > most_pressure and waited:
        yield (
            f"processes waited for memory in {pressure:.1%} of the time that was timed; "
            f"policy {name} allows {most_pressure:.0%}"
        )
    most_quota = limits.most_quota_throttled or math.inf
    if strain.quota_s > most_quota * strain.quota_of_s + unknown_s:
        yield (
            f"the CPU quota of its control group stopped its threads for {strain.quota_s:.2f} s in "
            f"{strain.quota_of_s:.2f} s that were timed, summed over the cores; "
            f"policy {name} allows {most_quota:.0%}"
        )
    if strain.throttles and not limits.may_throttle:
        yield (
            f"heat throttled the cores while it was timed ({strain.throttles} events counted); "
            f"policy {name} allows none"
        )
    drop, most_drop = strain.frequency_drop or 0.0, limits.most_frequency_drop or 1.0
    if drop > most_drop:
        yield (
            f"the highest clock frequency of the cores fell by {drop:.1%} while it was timed, from "
            f"{strain.first_khz} to {strain.least_khz} kHz; policy {name} allows {most_drop:.0%}"
        )


def speed_objections(gflops: Sequence[float], when: str, policy: Policy) -> tuple[str, ...]:
    """Return that a fixed matrix product ran at too different rates, if it did.

    gflops: 10⁹ FLOPs a second, each time it ran. when: "before and after what was timed", say.
    """
    most = policy.host.most_speed_change if policy.host else None
    if most is None or not gflops or min(gflops) >= (1 - most) * max(gflops):
        return ()
    rates = f"{min(gflops):.4g} to {max(gflops):.4g} GFLOP/s"
    allowed = f"policy {policy.name} allows {most:.0%} less than the fastest"
    return (f"{OWN_SPEED}: a matrix product ran at {rates} {when}; {allowed}",)


def validity_of(broken: Sequence[str], disturbed: Sequence[str], policy: Policy) -> Validity:
    """Return the validity of a run from the rules it broke and what disturbed it."""
    if broken or (disturbed and policy.host and policy.host.enforced):
        return Validity.INVALID
    return Validity.DISTURBED if disturbed else Validity.VALID


def judged(result: Result, timed: CpuTimes, policy: Policy) -> Result:
    """Return a result with how quiet its host was; DISTURBED or INVALID if its policy says so."""
    disturbed = objections(timed, policy)
    return result.model_copy(
        update={
            "validity": validity_of(result.reasons, disturbed, policy),
            "reasons": (*result.reasons, *disturbed),
            "environment": {**result.environment, **environment_of(timed)},
        }
    )
