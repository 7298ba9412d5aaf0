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
    require_changes,
    resolution,
)

CURRENT: Final = "battery current"
CHARGE: Final = "battery charge"
"""The sources' names in results."""
_ON_BATTERY: Final = "Discharging"
"""The only status of a battery (Linux, power_supply class) that excludes a charger."""
_UNTOLD: Final = 3
"""Most rounds in a row without a status. Where a service tells it, the sampler asks in every second
one, and the last of the rest, or of the run, may have been cut off."""
_LEAST_UA: Final = 10_000.0
"""Least current in µA of an awake phone; a smaller value must be in mA."""
_VOLTS: Final = (2.5, 25.0)
"""Plausible voltages: one lithium cell to five in series."""
_FULL_UAH: Final = (0.3e6, 30e6)
"""Plausible charges in µAh of a full battery: a watch's, and more than a large tablet's."""
_LEAST_UAH: Final = 100_000.0
"""Least charge in µAh of which no percentage is known; a smaller value must be in mAh."""
_LEAST_WATTS: Final = 0.02
"""Least power of an awake phone; less is of a charge in mAh."""
_JOULES_OF_UAH_V: Final = 3600e-6


def of_current(readings: Sequence[Reading], span: Span) -> Used:
    """Return the energy of a span from current and voltage; raises EnergyUnknownError."""
    require_no_charger(readings)
    return Used(_by_current(readings, span), span.seconds, CURRENT)


def of_charge(readings: Sequence[Reading], span: Span) -> Used:
    """Return the energy of a span from the charge counter; raises EnergyUnknownError."""
    require_no_charger(readings)
    return Used(_by_charge(readings, span), span.seconds, CHARGE)


def require_no_charger(readings: Sequence[Reading]) -> None:
    """Raise EnergyUnknownError unless the battery was discharging all the time."""
    # With a charger, the battery delivers only a part of the energy, or none; so it is with `Not
    # charging`, as at a charge limit or on a weak port.
    statuses = [r.values.get("battery_status") for r in readings]
    if {"Charging", "Full"} & {*statuses}:
        raise EnergyUnknownError("the phone was being charged")
    if others := {status for status in statuses if status} - {_ON_BATTERY}:
        told = ", ".join(sorted(others))
        raise EnergyUnknownError(
            f"the battery's status was {told}, which does not exclude a charger"
        )
    rounds = itertools.groupby(statuses, bool)
    untold = [len([*group]) for told, group in rounds if not told]
    if not any(statuses) or max(untold, default=0) > _UNTOLD:
        raise EnergyUnknownError("the battery's status is not told from end to end")


def is_in_ua(current: float) -> bool:
    """Return whether the current of an awake phone's battery can be in µA."""
    return abs(current) >= _LEAST_UA


def is_in_uah(charge: float, percent: float | None) -> bool:
    """Return whether a battery's charge can be in µAh; percent: its level, None if unknown."""
    least, most = _FULL_UAH
    if not percent:
        return _LEAST_UAH <= charge <= most
    return least <= 100 * charge / percent <= most


def _by_current(readings: Sequence[Reading], span: Span) -> Joules:
    during = [r for r in readings if span.began_s <= r.at_s <= span.ended_s]
    currents = np.asarray(_numbers(during, "battery_current_now"))
    if not currents.size:
        raise EnergyUnknownError("the battery's current is not told")
    if currents.min() < 0 < currents.max():
        raise EnergyUnknownError("the battery's current changed its direction, as with a charger")
    if not is_in_ua(float(np.median(np.abs(currents)))):
        raise EnergyUnknownError(
            f"{np.median(np.abs(currents)):g} is not in µA, or of another part"
        )
    watts = [
        (r.at_s, abs(current) * 1e-6 * volts)
        for r in during
        if (current := r.number("battery_current_now")) is not None
        and (volts := _volts(r)) is not None
    ]
    # The voltage is read anew even where the current stands.
    of_all = [abs(current) * 1e-6 for current in _numbers(readings, "battery_current_now")]
    require_changes(of_all, "its current", "A")
    return of_power(watts, span)


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
    used = of_counter(_used(charges, volts), span, resolution(charges) * joules_a_step)
    told, percents = [charge for _, charge in charges], _numbers(readings, "battery_capacity")
    if min(told) > 0:
        _require_uah(told, percents)
    elif used.value < _LEAST_WATTS * span.seconds:  # counted from anywhere, as Linux allows
        raise EnergyUnknownError(f"a charge that gives {used.value:g} J is not in µAh")
    return used


def _require_uah(charges: Sequence[float], percents: Sequence[float]) -> None:
    """Raise EnergyUnknownError if a battery's charges can't be in µAh."""
    charge = float(np.median(charges))
    percent = float(np.median(percents)) if percents else None
    if not is_in_uah(charge, percent):
        level = "" if percent is None else f" at {percent:g} %"
        raise EnergyUnknownError(f"a charge of {charge:g}{level} is not in µAh")


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
