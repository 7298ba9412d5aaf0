"""Energy from a phone's battery, by the kernel's sysfs values. Pure.

Current in µA, of either sign; voltage in µV; charge in µAh (Linux, power_supply class).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from agents.energy.account import Used
from agents.energy.readings import Reading
from agents.energy.trace import (
    EnergyUnknownError,
    Joules,
    Samples,
    Span,
    of_counter,
    of_power,
    resolution,
)

_LEAST_UA: Final = 10_000.0
"""Least current in µA of an awake phone; a smaller value must be in mA."""
_VOLTS: Final = (2.5, 25.0)
"""Plausible voltages: one lithium cell to five in series."""
_JOULES_OF_UAH_V: Final = 3600e-6


def of_current(readings: Sequence[Reading], span: Span) -> Used:
    """Return the energy of a span from current and voltage; raises EnergyUnknownError."""
    require_no_charger(readings)
    return Used(_by_current(readings, span), span.seconds, "battery current")


def of_charge(readings: Sequence[Reading], span: Span) -> Used:
    """Return the energy of a span from the charge counter; raises EnergyUnknownError."""
    require_no_charger(readings)
    return Used(_by_charge(readings, span), span.seconds, "battery charge")


def require_no_charger(readings: Sequence[Reading]) -> None:
    """Raise EnergyUnknownError if a charger was connected."""
    # With a charger, the battery delivers only a part of the energy, or none.
    if any(r.values.get("battery_status") in ("Charging", "Full") for r in readings):
        raise EnergyUnknownError("the phone was being charged")


def _by_current(readings: Sequence[Reading], span: Span) -> Joules:
    during = [r for r in readings if span.began_s <= r.at_s <= span.ended_s]
    currents = np.asarray(_numbers(during, "battery_current_now"))
    if not currents.size:
        raise EnergyUnknownError("the battery's current is not told")
    if currents.min() < 0 < currents.max():
        raise EnergyUnknownError("the battery's current changed its direction, as with a charger")
    if float(np.median(np.abs(currents))) < _LEAST_UA:
        raise EnergyUnknownError(
            f"{np.median(np.abs(currents)):g} is not in µA, or of another part"
        )
    return of_power(
        [
            (r.at_s, abs(current) * 1e-6 * volts)
            for r in during
            if (current := r.number("battery_current_now")) is not None
            and (volts := _volts(r)) is not None
        ],
        span,
    )


def _by_charge(readings: Sequence[Reading], span: Span) -> Joules:
    charges: list[tuple[float, float]] = []
    volts: list[float] = []
    for r in readings:
        charge, volt = r.number("battery_charge_counter"), _volts(r)
        if charge is not None and volt is not None:
            charges.append((r.at_s, charge))
            volts.append(volt)
    if not charges:
        raise EnergyUnknownError("the battery's charge is not told")
    if any(b > a for (_, a), (_, b) in itertools.pairwise(charges)):
        raise EnergyUnknownError("the battery's charge rose, as with a charger")
    joules_a_step = _JOULES_OF_UAH_V * max(volts)
    return of_counter(_used(charges, volts), span, resolution(charges) * joules_a_step)


def _used(charges: Samples, volts: Sequence[float]) -> list[tuple[float, float]]:
    """Return joules since the first reading, each charge at its mean voltage."""
    used, joules = [(charges[0][0], 0.0)], 0.0
    for place in range(1, len(charges)):
        (_, before), (at_s, now) = charges[place - 1], charges[place]
        mean_v = (volts[place - 1] + volts[place]) / 2
        joules += (before - now) * _JOULES_OF_UAH_V * mean_v
        used.append((at_s, joules))
    return used


def _volts(reading: Reading) -> float | None:
    """Return the battery's voltage; None if not reported, raises EnergyUnknownError if
    implausible."""
    told = reading.number("battery_voltage_now")
    if told is None:
        return None
    if not _VOLTS[0] <= told * 1e-6 <= _VOLTS[1]:
        raise EnergyUnknownError(f"a voltage of {told:g} is not in µV")
    return told * 1e-6


def _numbers(readings: Sequence[Reading], name: str) -> list[float]:
    return [value for r in readings if (value := r.number(name)) is not None]
