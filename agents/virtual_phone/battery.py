"""A phone's battery: charge integrated from the modelled power, in Android's and sysfs' formats."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import Field, PositiveFloat

from controller.contracts.base import Contract

_EMPTY_V, _FULL_V = 3.5, 4.4
"""Open-circuit voltages of a lithium-ion cell; linear in between."""


class ChargeStatus(enum.IntEnum):
    """android.os.BatteryManager.BATTERY_STATUS_*."""

    CHARGING = 2
    DISCHARGING = 3
    FULL = 5

    @property
    def sysfs(self) -> str:
        """The text in /sys/class/power_supply/battery/status."""
        return self.name.capitalize()


class Battery(Contract):
    """The state of a battery at one moment."""

    capacity_mah: PositiveFloat
    level_percent: Annotated[float, Field(ge=0, le=100)]
    charging: bool
    charger_ma: PositiveFloat

    @property
    def voltage_v(self) -> float:
        """Open-circuit voltage."""
        return _EMPTY_V + (_FULL_V - _EMPTY_V) * self.level_percent / 100

    @property
    def status(self) -> ChargeStatus:
        """The charging status."""
        if not self.charging:
            return ChargeStatus.DISCHARGING
        return ChargeStatus.FULL if self.level_percent >= 100 else ChargeStatus.CHARGING

    def current_ma(self, power_w: float) -> float:
        """Return the current into the battery; negative while the phone draws from it."""
        if self.status is ChargeStatus.FULL:
            return 0.0
        return (self.charger_ma if self.charging else 0.0) - 1000 * power_w / self.voltage_v

    def after(self, power_w: float, dt_s: float) -> Battery:
        """Return the battery dt_s seconds later, while the phone uses this power."""
        gained = 100 * self.current_ma(power_w) * dt_s / 3600 / self.capacity_mah
        level = min(100.0, max(0.0, self.level_percent + gained))
        return self.model_copy(update={"level_percent": level})


def dumpsys_battery(battery: Battery, celsius: float) -> str:
    """Return the output of `dumpsys battery`; temperature in tenths of a degree, voltage in mV."""
    usb = str(battery.charging).lower()
    return f"""Current Battery Service state:
  AC powered: false
  USB powered: {usb}
  Wireless powered: false
  Max charging current: {round(battery.charger_ma * 1000) if battery.charging else 0}
  Max charging voltage: {5_000_000 if battery.charging else 0}
  Charge counter: {_charge_uah(battery)}
  status: {battery.status.value}
  health: 2
  present: true
  level: {int(battery.level_percent)}
  scale: 100
  voltage: {round(battery.voltage_v * 1000)}
  temperature: {round(celsius * 10)}
  technology: Li-ion
"""


def sysfs(battery: Battery, celsius: float, power_w: float) -> dict[str, str]:
    """Return the files of /sys/class/power_supply/battery: µA, µV, µAh, tenths of a degree."""
    return {
        "capacity": str(int(battery.level_percent)),
        "charge_counter": str(_charge_uah(battery)),
        "charge_full": str(round(battery.capacity_mah * 1000)),
        "current_now": str(round(battery.current_ma(power_w) * 1000)),
        "health": "Good",
        "present": "1",
        "status": battery.status.sysfs,
        "technology": "Li-ion",
        "temp": str(round(celsius * 10)),
        "type": "Battery",
        "voltage_now": str(round(battery.voltage_v * 1_000_000)),
    }


def _charge_uah(battery: Battery) -> int:
    return round(battery.capacity_mah * 10 * battery.level_percent)
