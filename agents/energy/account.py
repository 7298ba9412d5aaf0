"""The energy of a result: joules a query or step, above the same time at rest. Pure.

`energy` is that difference, `energy_gross` the total. An unknown value is left out, and the fact
`energy_unknown` gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.energy.trace import EnergyUnknownError, Joules, sure_enough
from controller.contracts.result import Environment, Measurement
from controller.contracts.units import Unit


@dataclass(frozen=True, slots=True)
class Used:
    """The energy of a time span, and its source."""

    joules: Joules
    seconds: float
    source: str


Metered = Callable[[], Used]
"""Returns the energy of a span; raises EnergyUnknownError."""


@dataclass(frozen=True, slots=True)
class Account:
    """Metrics and facts to add to a result."""

    metrics: Mapping[str, Measurement]
    facts: Environment


def account(during: Metered, at_rest: Metered, count: int, unit: Unit) -> Account:
    """Return the energy of each query or step."""
    try:
        used = during()
        if count < 1:
            raise EnergyUnknownError("nothing was counted that it was used for")
    except EnergyUnknownError as unknown:
        return Account({}, {"energy_unknown": str(unknown)})
    metrics = {"energy_gross": Measurement(value=used.joules.value / count, unit=unit)}
    facts: Environment = {
        "energy_source": used.source,
        "energy_gross_uncertainty": used.joules.uncertainty / used.joules.value,
    }
    try:
        rest = at_rest()
        net = _net(used, rest)
    except EnergyUnknownError as unknown:
        return Account(metrics, {**facts, "energy_unknown": f"idle power: {unknown}"})
    return Account(
        {"energy": Measurement(value=net.value / count, unit=unit), **metrics},
        {
            **facts,
            "energy_uncertainty": net.uncertainty / net.value,
            "idle_watts": rest.joules.value / rest.seconds,
            "rested_s": rest.seconds,
        },
    )


def _net(used: Used, rest: Used) -> Joules:
    return sure_enough(used.joules.above(rest.joules, used.seconds / rest.seconds), used.seconds)
