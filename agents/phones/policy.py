"""Whether a phone is as its policy asks: before a run, and while it lasts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agents.phones.conditions import THERMAL_STATUS
from controller.contracts.base import Scalar
from controller.contracts.policy import Policy

Facts = Mapping[str, Scalar]
READ_APART_CELSIUS: Final = 1.0
"""By so much a battery may be hotter than a policy allows when LoadGen begins: it let the phone go
by what Android said, and the kernel may say a little more soon after."""


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


def changed(policy: Policy, facts: Facts) -> tuple[str, ...]:
    """Return what a run must not change, and did, by the conditions after it.

    Heat is no such thing: see Policy.throttled.
    """
    return tuple(_settings(policy, facts))


def too_hot(policy: Policy, celsius: float) -> tuple[str, ...]:
    """Return the objection to a battery's temperature when LoadGen began, if there is one."""
    most = policy.most_battery_celsius
    if most is None or celsius <= most + READ_APART_CELSIUS:
        return ()
    return tuple(_hot(policy, celsius))


def _hopeless(policy: Policy, facts: Facts) -> Iterator[str]:
    if facts.get("charging") is not True and (low := _low_battery(policy, facts)):
        yield f"{low} and it is not charging"
    yield from _settings(policy, facts)


def _settings(policy: Policy, facts: Facts) -> Iterator[str]:
    # Readings that somebody has set say nothing of the phone.
    if policy.judges and facts.get("battery_overridden") is True:
        yield "the readings of the battery are overridden"
    if policy.judges and facts.get("thermal_overridden") is True:
        yield "the thermal status is overridden"
    if facts.get("charging") is True and not policy.may_charge:
        yield "the phone is charging"
    if policy.airplane_mode and facts.get("airplane_mode") is False:
        yield "airplane mode is off"
    yield from _above(policy.most_brightness, _number(facts, "screen_brightness"), "brightness", "")


def _waiting(policy: Policy, facts: Facts) -> Iterator[str]:
    if facts.get("charging") is True and (low := _low_battery(policy, facts)):
        yield low
    yield from _hot(policy, _number(facts, "battery_celsius"))
    status, most = facts.get("thermal_status"), policy.most_thermal_status
    if most and isinstance(status, str) and _severity(status) > _severity(most):
        yield f"thermal status {status} is above {most}"
    load, cores = _number(facts, "load"), _number(facts, "cores")
    if load is not None and cores:
        yield from _above(policy.most_load_per_core, load / cores, "load", " a core")


def _hot(policy: Policy, celsius: float | None) -> Iterator[str]:
    yield from _above(policy.most_battery_celsius, celsius, "battery at", " °C")


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
