"""The conditions of a phone: commands that report them, and parsers of their output."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
_LOAD = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ", re.ASCII)
_ZONE = re.compile(r"mValue=(-?\d{1,9}(?:\.\d{1,9})?), mType=\d+, mName=([^,]{1,64}),", re.ASCII)


def battery_facts(dumpsys: str) -> dict[str, Scalar]:
    """Parse `dumpsys battery`; facts that the phone doesn't report are left out."""
    pairs = (line.partition(":") for line in dumpsys.splitlines())
    said = {key.strip(): value.strip() for key, _, value in pairs}
    facts: dict[str, Scalar] = {}
    if _WHOLE.fullmatch(said.get("level", "")):
        facts["battery_percent"] = int(said["level"])
    if _WHOLE.fullmatch(said.get("temperature", "")):
        facts["battery_celsius"] = int(said["temperature"]) / 10
    # AC, USB, Wireless, Dock: the sources that this phone has.
    powered = [value for key, value in said.items() if key.endswith(" powered")]
    if powered:
        facts["charging"] = "true" in powered
    return facts


def thermal_facts(dumpsys: str) -> dict[str, Scalar]:
    """Parse `dumpsys thermalservice`: status and present temperatures; old phones report none."""
    facts: dict[str, Scalar] = {}
    if status := re.search(r"^\s*Thermal Status: (\d{1,9})\b", dumpsys, re.MULTILINE):
        number = int(status[1])
        known = number < len(THERMAL_STATUS)
        facts["thermal_status"] = THERMAL_STATUS[number] if known else str(number)
    current = dumpsys.partition("Current temperatures from HAL:")[2] or dumpsys
    for celsius, name in _ZONE.findall(current):
        facts.setdefault(f"celsius_{name}", float(celsius))
    return facts


def other_facts(text: str, cores: int | None) -> dict[str, Scalar]:
    """Parse the output of OTHERS: load over a minute, memory, current, frequencies, screen.

    cores: number of the device's cores, to scale the load; None if unknown.
    """
    pairs = (line.partition(": ") for line in text.splitlines())
    said = {key: value.strip() for key, _, value in pairs if value.strip()}
    facts: dict[str, Scalar] = {"cores": cores} if cores else {}
    if load := _LOAD.match(said.get("load", "")):
        facts["load"] = float(load[1])
    whole = {"current_ua": "battery_current_ua", "charge_uah": "battery_charge_uah"}
    whole |= {"memory_kb": "memory_available_kb", "screen_brightness": "screen_brightness"}
    whole |= {name: name for name in said if name.startswith("khz_cpu")}
    for name, fact in whole.items():
        if _WHOLE.fullmatch(said.get(name, "")):
            facts[fact] = int(said[name])
    for name in ("airplane_mode", "root"):
        if said.get(name) in ("0", "1"):
            facts[name] = said[name] == "1"
    facts |= {name: said[name] for name in ("screen", "selinux") if name in said}
    if governors := {value for name, value in said.items() if name.startswith("governor_")}:
        facts["governor"] = " ".join(sorted(governors))
    return facts


def environment_of(before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> Environment:
    """Return conditions as facts of a result, named by when they were read."""
    moments = {"before": before, "after": after}
    return {f"{name}_{when}": v for when, facts in moments.items() for name, v in facts.items()}
