"""Policies: named limits on a phone's conditions before and during a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, PositiveFloat

from agents.phones.conditions import THERMAL_STATUS
from controller.contracts.base import Contract, Scalar
from controller.contracts.documents import load_yaml, read_limited

FOLDER: Final = Path(__file__).parents[1] / "manifests" / "policies"
Facts = Mapping[str, Scalar]
Status = Literal["NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN"]


class Throttled(Contract):
    """Thresholds from which a phone counts as throttled."""

    thermal_status: Status
    frequency_share: Annotated[float, Field(gt=0, le=1)]
    """Share of a core's maximum allowed frequency at the start of the run."""
    latency_drift: PositiveFloat
    """Relative rise of latencies above those of the start, lasting until the end of the run."""


class Policy(Contract):
    """Limits on conditions; None: no limit. A fact that a phone doesn't report is not checked."""

    name: str
    title: str
    least_battery_percent: float | None = None
    may_charge: bool = True
    most_battery_celsius: float | None = None
    most_thermal_status: Status | None = None
    most_load_per_core: float | None = None
    airplane_mode: bool = False
    most_brightness: float | None = None
    wait_s: Annotated[float, Field(ge=0)] = 0.0
    """Longest wait in seconds for a phone to come within the limits."""
    ask_every_s: PositiveFloat = 5.0
    throttled: Throttled | None = None
    """None: throttling is recorded but doesn't make a result INVALID."""

    @property
    def judges(self) -> bool:
        """Whether it has any limit; without one, conditions are only recorded."""
        named = {"name", "title", "wait_s", "ask_every_s"}
        return self != Policy.model_validate(self.model_dump(include=named))


@cache
def load_policy(name: str) -> Policy:
    """Read a policy by name; the knob `policy` of the scenarios lists the names."""
    return Policy.model_validate(load_yaml(read_limited(FOLDER / f"{name}.yaml")))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run may begin."""

    hopeless: tuple[str, ...] = ()
    """Objections that waiting doesn't remove."""
    waiting: tuple[str, ...] = ()
    """Objections that waiting may remove."""

    @property
    def go(self) -> bool:
        """Whether the run may begin."""
        return not (self.hopeless or self.waiting)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All objections, each with the value and the limit."""
        return self.hopeless + self.waiting


def preflight(policy: Policy, facts: Facts) -> Verdict:
    """Return whether a phone with these conditions may be measured."""
    return Verdict(tuple(_hopeless(policy, facts)), tuple(_waiting(policy, facts)))


def _hopeless(policy: Policy, facts: Facts) -> Iterator[str]:
    charging = facts.get("charging") is True
    if charging and not policy.may_charge:
        yield "the phone is charging"
    if not charging and (low := _low_battery(policy, facts)):
        yield f"{low} and it is not charging"
    if policy.airplane_mode and facts.get("airplane_mode") is False:
        yield "airplane mode is off"
    yield from _above(policy.most_brightness, _number(facts, "screen_brightness"), "brightness", "")


def _waiting(policy: Policy, facts: Facts) -> Iterator[str]:
    if facts.get("charging") is True and (low := _low_battery(policy, facts)):
        yield low
    celsius = _number(facts, "battery_celsius")
    yield from _above(policy.most_battery_celsius, celsius, "battery at", " °C")
    status, most = facts.get("thermal_status"), policy.most_thermal_status
    if most and isinstance(status, str) and _severity(status) > _severity(most):
        yield f"thermal status {status} is above {most}"
    load, cores = _number(facts, "load"), _number(facts, "cores")
    if load is not None and cores:
        yield from _above(policy.most_load_per_core, load / cores, "load", " a core")


def _above(most: float | None, value: float | None, what: str, unit: str) -> Iterator[str]:
    if most is not None and value is not None and value > most:
        yield f"{what} {value:.3g}{unit} is above {most:g}{unit}"


def _low_battery(policy: Policy, facts: Facts) -> str | None:
    percent = _number(facts, "battery_percent")
    if policy.least_battery_percent is None or percent is None:
        return None
    if percent >= policy.least_battery_percent:
        return None
    return f"battery at {percent:g} % is below {policy.least_battery_percent:g} %"


def _number(facts: Facts, name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else None


def _severity(status: str) -> int:
    return THERMAL_STATUS.index(status) if status in THERMAL_STATUS else len(THERMAL_STATUS)


def is_throttling(status: str, from_here: str) -> bool:
    """Return whether a thermal status is at least the status that counts as throttled."""
    return _severity(status) >= _severity(from_here)
