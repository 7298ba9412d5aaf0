"""The conditions a phone is in, as its own services tell them: parsed here, asked for elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.contracts.base import Scalar
from controller.contracts.result import Environment

BATTERY = ("dumpsys", "battery")
THERMAL = ("dumpsys", "thermalservice")
THERMAL_STATUS = ("NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN")
"""Android's ThrottlingSeverity, by number."""


def battery_facts(dumpsys: str) -> dict[str, Scalar]:
    """Read `dumpsys battery`; what a phone doesn't tell is left out."""
    pairs = (line.partition(":") for line in dumpsys.splitlines())
    said = {key.strip(): value.strip() for key, _, value in pairs}
    facts: dict[str, Scalar] = {}
    if said.get("level", "").isdigit():
        facts["battery_percent"] = int(said["level"])
    if re.fullmatch(r"-?\d+", said.get("temperature", "")):
        facts["battery_celsius"] = int(said["temperature"]) / 10
    powered = [said[f"{source} powered"] for source in ("AC", "USB") if f"{source} powered" in said]
    if powered:
        facts["charging"] = "true" in powered
    return facts


def thermal_facts(dumpsys: str) -> dict[str, Scalar]:
    """Read `dumpsys thermalservice`: the status, and the zones now; nothing from old phones."""
    facts: dict[str, Scalar] = {}
    if status := re.search(r"^\s*Thermal Status: (\d+)", dumpsys, re.MULTILINE):
        number = int(status[1])
        known = number < len(THERMAL_STATUS)
        facts["thermal_status"] = THERMAL_STATUS[number] if known else str(number)
    current = dumpsys.partition("Current temperatures from HAL:")[2] or dumpsys
    for celsius, name in re.findall(r"mValue=([-\d.]+), mType=\d+, mName=([^,]+),", current):
        facts.setdefault(f"celsius_{name}", float(celsius))
    return facts


def environment_of(before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> Environment:
    """Return conditions as facts of a result, told apart by when they were read."""
    moments = {"before": before, "after": after}
    return {f"{name}_{when}": v for when, facts in moments.items() for name, v in facts.items()}
