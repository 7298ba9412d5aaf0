"""What keeps a phone from a VALID result under a policy, and how to fix it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from agents.phones.policy import Facts, preflight
from agents.phones.settings import (
    BRIGHTNESS_MODE,
    DEVELOPER,
    READ,
    SAVER,
    STAY_ON,
)
from controller.contracts.checks import Check, Health, worst_first
from controller.contracts.policy import Policy

SETTINGS: Final = (
    "sh",
    "-c",
    r"""
for one in "$@"; do
  echo "$one: $(settings get "${one%%/*}" "${one##*/}" 2>/dev/null)"
done
""",
    "benchfarm",
    *READ,
)
"""Prints `NAMESPACE/KEY: VALUE` lines, `null` for a key that isn't set."""
_SAID: Final = re.compile(r"^(\w+/\w+): (\S+)$", re.ASCII | re.MULTILINE)
OLDEST_SDK: Final = 21
"""Android 5: the oldest release on which the bundle has run."""

REMEDIES: Final[tuple[tuple[str, str], ...]] = (
    ("battery are overridden", "Run `adb shell dumpsys battery reset`."),
    ("thermal status is overridden", "Run `adb shell cmd thermalservice reset`."),
    ("it is not charging", "Charge it."),
    ("charging", "Run `adb tcpip 5555`, unplug it, then run `benchfarm phone connect HOST`."),
    ("% is below", "Charge it first."),
    ("°C is above", "Let it cool: screen off, out of its case, away from the charger."),
    ("thermal status", "Let it cool: screen off, out of its case, away from the charger."),
    (
        "airplane mode",
        "Turn airplane mode on; adb over USB stays, and Wi-Fi can be turned on again.",
    ),
    ("brightness", "Turn the brightness down and automatic brightness off, or use --set."),
    ("load", "Wait, or close what `adb shell top -n 1` shows."),
)
"""Words in a policy's objection → remedy."""


def settings_of(text: str) -> dict[str, str]:
    """Parse the output of SETTINGS; keys that aren't set are left out."""
    return {key: value for key, value in _SAID.findall(text) if value != "null"}


def checks(
    conditions: Facts,
    android: str,
    sdk: int | None,
    settings: Mapping[str, str],
    policy: Policy,
) -> list[Check]:
    """Return every check, the worst first.

    android, sdk: the phone's release and API level.
    """
    found = [
        _android(android, sdk),
        *_conditions(conditions, policy),
        *_settings(settings, policy),
    ]
    return worst_first(found)


def _android(release: str, sdk: int | None) -> Check:
    if sdk is None:
        return Check(
            what="Android", health=Health.UNKNOWN, seen="the phone does not report its API level"
        )
    seen = f"{release} (API {sdk})"
    if sdk < OLDEST_SDK:
        remedy = "Use another phone: the runtime needs Android 5 or later."
        return Check(what="Android", health=Health.MEND, seen=seen, remedy=remedy)
    return Check(what="Android", health=Health.WELL, seen=seen)


def _conditions(facts: Facts, policy: Policy) -> Iterator[Check]:
    """Yield the policy's objections, and the facts that it needs but the phone does not report."""
    objections = preflight(policy, facts).reasons
    what = f"policy {policy.name}"
    for objection in objections:
        yield Check(what=what, health=Health.MEND, seen=objection, remedy=remedy_of(objection))
    for name, asked in _asked(policy):
        if asked and name not in facts:
            yield Check(what=what, health=Health.UNKNOWN, seen=f"the phone does not report {name}")
    if not objections:
        yield Check(what=what, health=Health.WELL, seen=_summary(facts))


def _asked(policy: Policy) -> Iterator[tuple[str, bool]]:
    """Yield each fact that a policy can limit, and whether this policy does."""
    yield "battery_percent", policy.least_battery_percent is not None
    yield "battery_celsius", policy.most_battery_celsius is not None
    yield "charging", not policy.may_charge
    yield "thermal_status", policy.most_thermal_status is not None
    yield "load", policy.most_load_per_core is not None
    yield "airplane_mode", policy.airplane_mode
    yield "screen_brightness", policy.most_brightness is not None


def remedy_of(objection: str) -> str:
    """Return the remedy for a policy's objection, as one sentence."""
    return next(remedy for words, remedy in REMEDIES if words in objection)


def _summary(facts: Facts) -> str:
    told = ("battery_percent", "battery_celsius", "thermal_status")
    return (
        ", ".join(f"{name} {facts[name]}" for name in told if name in facts)
        or "the phone reports nothing"
    )


def _settings(settings: Mapping[str, str], policy: Policy) -> Iterator[Check]:
    """Yield settings that leave a run VALID but change its figures or end it."""
    if not settings:
        seen = "the settings command is missing or prints nothing"
        yield Check(what="settings", health=Health.UNKNOWN, seen=seen)
        return
    if settings.get(SAVER) == "1":
        seen, remedy = "battery saver is on: it slows the phone", "Turn it off, or use --set."
        yield Check(what="settings", health=Health.MEND, seen=seen, remedy=remedy)
    if settings.get(BRIGHTNESS_MODE) == "1" and policy.most_brightness is not None:
        seen = "brightness is automatic: it may rise during a run"
        remedy = "Turn automatic brightness off, or use --set."
        yield Check(what="settings", health=Health.MEND, seen=seen, remedy=remedy)
    if settings.get(STAY_ON, "0") == "0":
        seen = "the screen turns itself off, and some phones slow down then"
        remedy = "Turn 'Stay awake' on in the developer options, or use --set."
        yield Check(what="settings", health=Health.HINT, seen=seen, remedy=remedy)


def developer_options(settings: Mapping[str, str]) -> Check:
    """Check whether developer options, and with them USB debugging, are on."""
    what = "developer options"
    match settings.get(DEVELOPER):
        case "0":
            seen = "off: USB debugging may end at the next restart"
            remedy = "Tap the build number seven times in Settings, About phone."
            return Check(what=what, health=Health.HINT, seen=seen, remedy=remedy)
        case None:
            seen = "USB debugging is on, since adb answers"
            return Check(what=what, health=Health.WELL, seen=seen)
        case _:
            return Check(what=what, health=Health.WELL, seen="on")
