"""The conditions of a phone: commands that report them, and parsers of their output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Final

from agents.energy.battery import is_in_ua, is_in_uah
from agents.host.strain import MILLICELSIUS
from controller.contracts.base import Scalar
from controller.contracts.result import Environment

BATTERY = ("dumpsys", "battery")
THERMAL = ("dumpsys", "thermalservice")
OTHERS = (
    "sh",
    "-c",
    r"""
tell() { if [ -r "$2" ] && read -r value <"$2" 2>/dev/null; then echo "$1: $value"; fi; }
tell current_ua /sys/class/power_supply/battery/current_now
tell charge_uah /sys/class/power_supply/battery/charge_counter
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
  tell "khz_${cpu##*/}" "$cpu/cpufreq/scaling_cur_freq"
  tell "governor_${cpu##*/}" "$cpu/cpufreq/scaling_governor"
done
tell load /proc/loadavg
while read -r name value unit; do
  if [ "$name" = MemAvailable: ]; then echo "memory_kb: $value"; break; fi
done </proc/meminfo
echo "airplane_mode: $(settings get global airplane_mode_on 2>/dev/null)"
echo "screen_brightness: $(settings get system screen_brightness 2>/dev/null)"
echo "selinux: $(getenforce 2>/dev/null)"
if [ "$(id -u)" = 0 ] || command -v su >/dev/null 2>&1; then echo "root: 1"; else echo "root: 0"; fi
dumpsys power 2>/dev/null | while read -r line; do
  case $line in mWakefulness=*) echo "screen: ${line#mWakefulness=}"; break ;; esac
done
""",
)
"""Prints `NAME: VALUE` lines for conditions that no service reports together."""
THERMAL_STATUS = ("NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN")
"""Android's ThrottlingSeverity, by number."""
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)
_WORD = re.compile(r"[\w.-]{1,32}", re.ASCII)
_CLOCK = re.compile(r"khz_cpu\d{1,4}", re.ASCII)
_GOVERNOR = re.compile(r"governor_cpu\d{1,4}", re.ASCII)
# Not \s, which takes line ends, too: endless empty lines would take quadratic time.
_STOPPED = re.compile(r"^[ \t]*\(UPDATES STOPPED\b", re.MULTILINE)
_OVERRIDDEN = re.compile(r"^[ \t]*IsStatusOverride: (true|false)[ \t\r]*$", re.MULTILINE)
_STATUS = re.compile(r"^[ \t]*Thermal Status: (\d{1,9})\b", re.MULTILINE)
_LOAD = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ", re.ASCII)
_SENSOR = re.compile(
    r"Temperature\{mValue=(-?\d{1,9}(?:\.\d{1,9})?), mType=(-?\d{1,3}), mName=([^,{}\n]{1,64}), ",
    re.ASCII,
)
_NO_TEMPERATURE: Final = frozenset({"6", "7", "8"})
"""Types of sensors in volt, ampere and percent (android.hardware.thermal TemperatureType)."""
MAX_SENSORS: Final = 64
"""Most temperatures of one device, each of which is a fact and a series; a phone has fewer."""
MAX_CLOCKS: Final = 256
"""Most cores of one device whose frequency is a fact."""
MAX_GOVERNORS: Final = 8
"""Most different governors of one device; with more, they are not known."""


def battery_facts(dumpsys: str) -> dict[str, Scalar]:
    """Parse `dumpsys battery`; facts that the phone doesn't report are left out.

    `dumpsys battery set` and `unplug` replace what the battery says until `dumpsys battery reset`
    (AOSP BatteryService): `battery_overridden`.
    """
    pairs = (line.partition(":") for line in dumpsys.splitlines())
    said = {key.strip(): value.strip() for key, _, value in pairs}
    facts: dict[str, Scalar] = {}
    if _WHOLE.fullmatch(said.get("level", "")):
        facts["battery_percent"] = int(said["level"])
    if _WHOLE.fullmatch(said.get("temperature", "")):
        facts |= hottest([("battery_celsius", int(said["temperature"]) / 10)])
    # AC, USB, Wireless, Dock: the sources that this phone has.
    powered = [value for key, value in said.items() if key.endswith(" powered")]
    if powered:
        facts["charging"] = "true" in powered
    if facts:
        facts["battery_overridden"] = _STOPPED.search(dumpsys) is not None
    return facts


def thermal_facts(dumpsys: str) -> dict[str, Scalar]:
    """Parse `dumpsys thermalservice`: status and present temperatures; old phones report none.

    `cmd thermalservice override-status` replaces the status until `cmd thermalservice reset` (AOSP
    ThermalManagerService): `thermal_overridden`.
    """
    facts: dict[str, Scalar] = {}
    if overridden := _OVERRIDDEN.search(dumpsys):
        facts["thermal_overridden"] = overridden[1] == "true"
    number = _STATUS.search(dumpsys)
    if number and (status := status_named(int(number[1]))):
        facts["thermal_status"] = status
    current = dumpsys.partition("Current temperatures from HAL:")[2] or dumpsys
    current = current.partition("Current cooling devices")[0]
    said = _SENSOR.findall(current)
    found = hottest((name, float(c)) for c, kind, name in said if kind not in _NO_TEMPERATURE)
    return {**facts, **{f"celsius_{name}": celsius for name, celsius in found.items()}}


def status_named(number: float | None) -> str | None:
    """Return the name of a thermal status, or None for a number that Android doesn't have."""
    if number is None or number not in range(len(THERMAL_STATUS)):
        return None
    return THERMAL_STATUS[int(number)]


def hottest(said: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the highest temperature of each sensor in °C, of at most the MAX_SENSORS hottest.

    Left out is what can be no temperature: sensors without one say numbers far outside.
    """
    found: dict[str, float] = {}
    for name, celsius in said:
        if MILLICELSIUS.start <= celsius * 1000 < MILLICELSIUS.stop:
            found[name] = max(celsius, found.get(name, celsius))
    kept = frozenset(nlargest(MAX_SENSORS, found, key=found.__getitem__))
    return {name: celsius for name, celsius in found.items() if name in kept}


def other_facts(text: str, cores: int | None, percent: float | None = None) -> dict[str, Scalar]:
    """Parse the output of OTHERS: load over a minute, memory, current, frequencies, screen.

    cores: number of the device's cores, to scale the load; None if unknown. percent: the battery's
    level, by which its charge is checked; None if unknown.
    """
    pairs = (line.partition(": ") for line in text.splitlines())
    said = {key: value.strip() for key, _, value in pairs if value.strip()}
    facts: dict[str, Scalar] = {"cores": cores} if cores else {}
    if load := _LOAD.match(said.get("load", "")):
        facts["load"] = float(load[1])
    whole = {"current_ua": "battery_current_ua", "charge_uah": "battery_charge_uah"}
    whole |= {"memory_kb": "memory_available_kb", "screen_brightness": "screen_brightness"}
    whole |= {name: name for name in list(filter(_CLOCK.fullmatch, said))[:MAX_CLOCKS]}
    for name, fact in whole.items():
        if _WHOLE.fullmatch(said.get(name, "")) and _fits(fact, int(said[name]), percent):
            facts[fact] = int(said[name])
    for name in ("airplane_mode", "root"):
        if said.get(name) in ("0", "1"):
            facts[name] = said[name] == "1"
    for name in ("screen", "selinux"):
        if _WORD.fullmatch(said.get(name, "")):
            facts[name] = said[name]
    governors = {said[name] for name in filter(_GOVERNOR.fullmatch, said)}
    if 0 < len(governors) <= MAX_GOVERNORS and all(map(_WORD.fullmatch, governors)):
        facts["governor"] = " ".join(sorted(governors))
    return facts


def _fits(fact: str, value: int, percent: float | None) -> bool:
    """Return whether a value can be in its fact's unit: batteries of some phones use another."""
    if fact == "battery_current_ua":
        return is_in_ua(value)
    return fact != "battery_charge_uah" or is_in_uah(value, percent)


def environment_of(before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> Environment:
    """Return conditions as facts of a result, named by when they were read."""
    moments = {"before": before, "after": after}
    return {f"{name}_{when}": v for when, facts in moments.items() for name, v in facts.items()}
