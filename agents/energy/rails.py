"""Energy by power rails that the kernel exports: hwmon's and the ODPM's of Pixel phones. Pure.

A rail that feeds the whole device gives the device's energy. Other rails feed parts. They can't be
summed, because rails feed each other and not every rail is measured; they are recorded as facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agents.energy.account import Used
from agents.energy.battery import CHARGE, CURRENT, require_no_charger
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
from controller.contracts.result import Environment

_BATTERY: Final = frozenset({"VBAT", "VBATT", "VSYS_PWR_VBATT"})
_WHOLE: Final = _BATTERY | {"VSYS", "VDD_IN", "POM_5V_IN", "SYSTEM", "TOTAL SYSTEM POWER"}
"""Names, in capitals, of rails that feed a whole phone or board: the battery's, a Jetson's input,
those of OpenPOWER's and Apple's management controllers."""
_SOURCE: Final = "power rail: "
"""Begins the name of the source; the rail's name follows."""
MOST_RAILS: Final = 64
_PLACE: Final = re.compile(r"rail_(u[jw]):([A-Za-z0-9]{1,16}:[A-Za-z0-9]{1,16})")
_NAME: Final = re.compile(r"[A-Za-z0-9_.+\- ]{1,48}")
_MICRO: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Rail:
    """A rail in the sampler's readings."""

    key: str
    name: str
    counts: bool
    """Whether it counts microjoules; otherwise it reports microwatts."""

    @property
    def is_whole(self) -> bool:
        """Whether it feeds the whole device."""
        return self.name.upper() in _WHOLE

    def used(self, readings: Sequence[Reading], span: Span) -> Joules:
        """Return its energy in a span; raises EnergyUnknownError."""
        told: Samples = [(r.at_s, n) for r in readings if (n := r.number(self.key)) is not None]
        scaled = [(at_s, value * _MICRO) for at_s, value in told]
        if not self.counts:
            require_changes([watts for _, watts in scaled], "its reading", "W")
            return of_power(scaled, span)
        return of_counter(scaled, span, resolution(told) * _MICRO)


def rails_of(readings: Sequence[Reading]) -> tuple[Rail, ...]:
    """Return a device's named rails, counters first."""
    named: dict[str, Rail] = {}
    for reading in readings:
        for key, place in _keys(reading.values):
            name = reading.values.get(f"railname:{place}", "")
            if key not in named and len(named) < MOST_RAILS and _NAME.fullmatch(name):
                named[key] = Rail(key, name, key.startswith("rail_uj"))
    return tuple(sorted(named.values(), key=lambda rail: not rail.counts))


def _keys(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key in values:
        if matched := _PLACE.fullmatch(key):
            yield key, matched[2]


def of_rail(readings: Sequence[Reading], span: Span) -> Used:
    """Return a device's energy in a span, from the rail that feeds it; raises
    EnergyUnknownError."""
    whole = next((rail for rail in rails_of(readings) if rail.is_whole), None)
    if whole is None:
        raise EnergyUnknownError("its power rails feed parts of it, whose sum is not the device's")
    if whole.name.upper() in _BATTERY:
        require_no_charger(readings)
    return Used(whole.used(readings, span), span.seconds, f"{_SOURCE}{whole.name}")


def is_of_battery(source: str) -> bool:
    """Return whether a source of energy, as results name it, tells what a battery delivers."""
    rail = source.removeprefix(_SOURCE).upper()
    return source in (CURRENT, CHARGE) or rail in _BATTERY


def rail_facts(readings: Sequence[Reading], span: Span) -> Environment:
    """Return the mean power of each rail in a span, as a fact of a result; empty without rails."""
    told = []
    for rail in rails_of(readings):
        try:
            watts = rail.used(readings, span).value / span.seconds
        except EnergyUnknownError:  # leave out a rail without usable readings
            continue
        told.append(f"{rail.name} {watts:.4g} W")
    return {"power_rails": tuple(told)} if told else {}
