"""A phone's temperatures: first-order RC models driven by the CPU time that its processes really
use.

Each zone follows T' = (ambient + R*P - T) / tau, with P the power in watt of the cores in use and
of the rest of the phone. Nothing is slowed down: the status is only reported.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, PositiveFloat

from controller.contracts.base import Contract


class ThermalStatus(enum.IntEnum):
    """Android's thermal status (android.os.PowerManager.THERMAL_STATUS_*)."""

    NONE = 0
    LIGHT = 1
    MODERATE = 2
    SEVERE = 3
    CRITICAL = 4
    EMERGENCY = 5
    SHUTDOWN = 6


class ZoneType(enum.IntEnum):
    """The type of a zone (android.hardware.thermal TemperatureType)."""

    CPU = 0
    GPU = 1
    BATTERY = 2
    SKIN = 3


class Cooling(enum.IntEnum):
    """What a phone may slow down (android.hardware.thermal CoolingType); here nothing is."""

    BATTERY = 1
    CPU = 2


class Zone(Contract):
    """A thermal zone."""

    name: str
    """As in /sys/class/thermal/thermal_zone*/type."""
    type: ZoneType
    resistance_c_per_w: PositiveFloat
    """R: final rise in °C above ambient for one watt."""
    tau_s: PositiveFloat
    """Time constant: seconds to 63 % of a change."""
    thresholds_c: Annotated[tuple[float, ...], Field(max_length=6)] = ()
    """Lower bounds of LIGHT, MODERATE … SHUTDOWN; there may be fewer."""

    def status(self, celsius: float) -> ThermalStatus:
        """Return the status at a temperature."""
        return ThermalStatus(sum(celsius >= threshold for threshold in self.thresholds_c))


class ThermalModel(Contract):
    """A phone's thermal zones, and its power as heat."""

    ambient_c: float
    idle_w: Annotated[float, Field(ge=0)]
    core_w: PositiveFloat
    """Power of a core in full use."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=1)]

    def power_w(self, busy_cores: float) -> float:
        """Return the phone's power with this many cores in use (CPU seconds a second)."""
        return self.idle_w + self.core_w * busy_cores

    def at_rest(self) -> dict[str, float]:
        """Return each zone's temperature in °C after a long idle time."""
        return {z.name: self.ambient_c + z.resistance_c_per_w * self.idle_w for z in self.zones}

    def after(
        self, temperatures: Mapping[str, float], power_w: float, dt_s: float
    ) -> dict[str, float]:
        """Return each zone's temperature dt_s seconds later at this power; exact for any dt_s."""
        return {
            zone.name: _settle(
                temperatures[zone.name],
                self.ambient_c + zone.resistance_c_per_w * power_w,
                dt_s / zone.tau_s,
            )
            for zone in self.zones
        }

    def status(self, temperatures: Mapping[str, float]) -> ThermalStatus:
        """Return the phone's status: that of the worst skin sensor, as in Android's service."""
        skin = [z for z in self.zones if z.type is ZoneType.SKIN]
        return max((z.status(temperatures[z.name]) for z in skin), default=ThermalStatus.NONE)


def _settle(now: float, goal: float, time_constants: float) -> float:
    return goal + (now - goal) * math.exp(-time_constants)


def dumpsys_thermalservice(model: ThermalModel, temperatures: Mapping[str, float]) -> str:
    """Return the output of `dumpsys thermalservice` (Android 10 and later)."""
    readings = [_reading(zone, temperatures[zone.name]) for zone in model.zones]
    return "\n".join(
        [
            "IsStatusOverride: false",
            f"Thermal Status: {model.status(temperatures).value}",
            "Cached temperatures:",
            *readings,
            "HAL Ready: true",
            "HAL connection:",
            "\tThermalHAL 2.0 connected: yes",
            "Current temperatures from HAL:",
            *readings,
            "Current cooling devices from HAL:",
            *(
                f"\tCoolingDevice{{mValue=0, mType={d.value}, mName={d.name.lower()}}}"
                for d in Cooling
            ),
            "Temperature static thresholds from HAL:",
            *(_thresholds(zone) for zone in model.zones),
            "",
        ]
    )


def _reading(zone: Zone, celsius: float) -> str:
    return (
        f"\tTemperature{{mValue={celsius:.1f}, mType={zone.type.value}, mName={zone.name}, "
        f"mStatus={zone.status(celsius).value}}}"
    )


def _thresholds(zone: Zone) -> str:
    hot = _seven(zone.thresholds_c)
    return (
        f"\tTemperatureThreshold{{mType={zone.type.value}, mName={zone.name}, "
        f"mHotThrottlingThresholds=[{hot}], mColdThrottlingThresholds=[{_seven(())}]}}"
    )


def _seven(known: Sequence[float]) -> str:
    # One for each status but NONE.
    return ", ".join(["NaN", *(f"{c:.1f}" for c in known), *["NaN"] * (6 - len(known))])
