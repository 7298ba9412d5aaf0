"""Run policies: the conditions that a device is to be in, of which a run's knob `policy` names one.

Each is a file in `agents/manifests/policies`, for servers and phones alike.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, PositiveFloat

from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited

FOLDER: Final = Path(__file__).parents[2] / "agents" / "manifests" / "policies"
Status = Literal["NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN"]
Share = Annotated[float, Field(gt=0, le=1)]


class Throttled(Contract):
    """From where on a phone counts as slowed down by heat."""

    thermal_status: Status
    frequency_share: Share
    """Of the highest frequency a core may take, against the most that it might at any time of the
    run, its rest included."""
    latency_drift: PositiveFloat
    """By how much latencies lie above those of the run's start, to its end."""


class HostLimits(Contract):
    """How much may disturb what is timed on a server; what is None is recorded and not judged."""

    enforced: bool
    """Whether a result beyond them is INVALID; else it is DISTURBED."""
    most_other_cores: PositiveFloat
    """Cores that others keep busy, however many there are."""
    most_steal_share: Share
    """Of the cores' time, taken by the hypervisor."""
    most_memory_pressure: Share | None = None
    """Of the time, in which some task waits for memory."""
    most_quota_throttled: Share | None = None
    """Of the time, for which a CPU quota stops threads, summed over the cores."""
    most_frequency_drop: Share | None = None
    """Of the highest clock frequency of the cores, against that of the beginning."""
    most_speed_change: Share | None = None
    """Of a matrix product's rate, by which a slower one may be below the fastest."""
    may_throttle: bool = True
    """Whether the cores may be throttled by heat."""


class Policy(Contract):
    """Limits; what is None is not asked for. A phone that doesn't tell a fact isn't held to it."""

    name: str
    title: str
    rest_s: Annotated[float, Field(ge=0)]
    """How long a device is at rest before a run, while its idle power is measured."""
    host: HostLimits | None = None
    """None: disturbances of a server are recorded and not judged."""
    least_battery_percent: float | None = None
    may_charge: bool = True
    most_battery_celsius: float | None = None
    most_thermal_status: Status | None = None
    most_load_per_core: float | None = None
    airplane_mode: bool = False
    most_brightness: float | None = None
    wait_s: Annotated[float, Field(ge=0)] = 0.0
    """How long a phone is waited for that may still come into its limits."""
    ask_every_s: PositiveFloat = 5.0
    throttled: Throttled | None = None
    """None: throttling is recorded and not judged."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of a phone that it limits, as a result names them."""
        limited = {
            "battery_percent": self.least_battery_percent is not None,
            "charging": not self.may_charge,
            "battery_celsius": self.most_battery_celsius is not None,
            "thermal_status": self.most_thermal_status is not None,
            "airplane_mode": self.airplane_mode,
            "screen_brightness": self.most_brightness is not None,
        }
        return tuple(name for name, is_so in limited.items() if is_so)

    @property
    def judges(self) -> bool:
        """Whether it asks anything of a phone; else its conditions are recorded only."""
        named = {"name", "title", "rest_s", "host", "wait_s", "ask_every_s"}
        return self != Policy.model_validate(self.model_dump(include=named))


def lab_limits() -> HostLimits:
    """Return how quiet a server must be under policy `lab`."""
    limits = load_policy("lab").host
    if limits is None:
        raise ValueError("policy lab has no limits for servers")
    return limits


@cache
def load_policy(name: str, folder: Path = FOLDER) -> Policy:
    """Read a policy; the scenarios' knob `policy` names them all."""
    return Policy.model_validate(load_yaml(read_limited(folder / f"{name}.yaml")))
