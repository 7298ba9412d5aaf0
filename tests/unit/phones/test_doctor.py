"""What the doctor of phones says, of every thing it looks at."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agents.phones.doctor import checks, developer_options, remedy_of, settings_of
from agents.phones.modes import mode_checks
from agents.phones.policy import preflight
from controller.contracts.base import Scalar
from controller.contracts.checks import Check, Health, worst_first
from controller.contracts.policy import load_policy

WELL: Mapping[str, Scalar] = {
    "battery_percent": 80,
    "battery_celsius": 28.0,
    "charging": False,
    "thermal_status": "NONE",
    "load": 0.2,
    "cores": 8,
    "airplane_mode": True,
    "screen_brightness": 1,
}
SETTINGS = {
    "global/development_settings_enabled": "1",
    "global/stay_on_while_plugged_in": "7",
    "global/low_power": "0",
    "system/screen_brightness_mode": "0",
}
USED = Check(what="storage and programs", health=Health.WELL, seen="4 MiB written and read")


def looked_at(
    conditions: Mapping[str, Scalar] = WELL,
    settings: Mapping[str, str] = SETTINGS,
    used: Check = USED,
    sdk: int | None = 34,
    policy: str = "mlperf",
) -> list[Check]:
    judged = checks(conditions, "14", sdk, settings, load_policy(policy))
    return worst_first([used, developer_options(settings), *judged])


def test_a_phone_that_is_well_has_nothing_to_mend() -> None:
    found = looked_at()
    assert {check.health for check in found} == {Health.WELL}
    assert [check.what for check in found] == [
        "storage and programs",
        "developer options",
        "Android",
        "policy mlperf",
    ]


@pytest.mark.parametrize(
    ("changes", "seen", "remedy"),
    [
        ({"charging": True}, "the phone is charging", "phone connect"),
        ({"battery_percent": 5}, "battery at 5 % is below 20 %", "Charge it"),
        ({"battery_celsius": 41.0}, "battery at 41 °C is above 35 °C", "cool"),
        ({"thermal_status": "SEVERE"}, "thermal status SEVERE is above NONE", "cool"),
        ({"airplane_mode": False}, "airplane mode is off", "Turn airplane mode on"),
        ({"screen_brightness": 200}, "brightness 200 is above 10", "Turn the brightness down"),
        ({"load": 7.0}, "load 0.875 a core is above 0.5 a core", "top"),
        ({"battery_overridden": True}, "battery are overridden", "dumpsys battery reset"),
        ({"thermal_overridden": True}, "status is overridden", "cmd thermalservice reset"),
    ],
)
def test_what_would_make_a_run_invalid_is_first_and_has_a_remedy(
    changes: Mapping[str, Scalar], seen: str, remedy: str
) -> None:
    first = looked_at({**WELL, **changes})[0]
    assert (first.what, first.health) == ("policy mlperf", Health.MEND)
    assert seen in first.seen
    assert remedy in first.remedy


def test_every_objection_of_every_policy_has_a_remedy() -> None:
    worst: Mapping[str, Scalar] = {
        "battery_percent": 1,
        "battery_celsius": 60.0,
        "thermal_status": "SHUTDOWN",
        "load": 99.0,
        "cores": 1,
        "airplane_mode": False,
        "screen_brightness": 255,
        "battery_overridden": True,
        "thermal_overridden": True,
    }
    for name in ("ci", "lab", "mlperf"):
        for charging in (False, True):
            for reason in preflight(load_policy(name), {**worst, "charging": charging}).reasons:
                assert remedy_of(reason)


def test_a_policy_that_asks_for_nothing_finds_nothing_wrong() -> None:
    found = looked_at({**WELL, "battery_percent": 3, "airplane_mode": False}, policy="ci")
    assert all(check.health is Health.WELL for check in found)


@pytest.mark.parametrize("name", sorted(WELL.keys() - {"cores"}))
def test_what_a_phone_does_not_tell_is_named(name: str) -> None:
    told = {key: value for key, value in WELL.items() if key != name}
    unknown = [check.seen for check in looked_at(told) if check.health is Health.UNKNOWN]
    assert unknown == [f"the phone does not report {name}"]


@pytest.mark.parametrize(
    ("changes", "what", "health", "seen"),
    [
        ({"global/low_power": "1"}, "settings", Health.MEND, "battery saver is on"),
        (
            {"system/screen_brightness_mode": "1"},
            "settings",
            Health.MEND,
            "brightness is automatic",
        ),
        (
            {"global/stay_on_while_plugged_in": "0"},
            "settings",
            Health.HINT,
            "the screen turns itself off",
        ),
        (
            {"global/development_settings_enabled": "0"},
            "developer options",
            Health.HINT,
            "off: USB debugging may end",
        ),
    ],
)
def test_settings_that_change_figures_are_named(
    changes: Mapping[str, str], what: str, health: Health, seen: str
) -> None:
    first = looked_at(settings={**SETTINGS, **changes})[0]
    assert (first.what, first.health) == (what, health)
    assert seen in first.seen
    assert first.remedy


def test_settings_are_read_as_the_phone_prints_them() -> None:
    said = "global/low_power: 0\nglobal/adb_enabled: null\nsystem/screen_brightness_mode: \nx: y z"
    assert settings_of(said) == {"global/low_power": "0"}
    assert [c.health for c in looked_at(settings={}) if c.what == "settings"] == [Health.UNKNOWN]


def test_what_runs_can_not_do_and_an_old_android_are_to_be_mended() -> None:
    used = Check(what="storage and programs", health=Health.MEND, seen="noexec", remedy="…")
    found = looked_at(used=used, sdk=19)
    assert [(c.what, c.health) for c in found[:2]] == [
        ("storage and programs", Health.MEND),
        ("Android", Health.MEND),
    ]


@pytest.mark.parametrize(
    ("state", "what", "seen", "remedy"),
    [
        ("unauthorized", "key", "is not confirmed", "confirm this host's key"),
        ("no permissions (user in plugdev group; see …)", "key", "may not open", "plugdev"),
        ("offline", "mode", "does not answer", "phone connect"),
        ("recovery", "mode", "in recovery", "Restart it into Android"),
        ("rescue", "mode", "rescue mode", "Restart it into Android"),
        ("sideload", "mode", "sideload", "Restart it into Android"),
        ("bootloader", "mode", "in its bootloader", "Restart it into Android"),
        ("authorizing", "mode", "trying its keys", "Wait"),
        ("something new", "mode", "adb lists it as something new", "restart it"),
    ],
)
def test_a_phone_that_can_not_be_asked_is_walked_all_the_same(
    state: str, what: str, seen: str, remedy: str
) -> None:
    first, *others = mode_checks(state)
    assert (first.what, first.health) == (what, Health.MEND)
    assert seen in first.seen
    assert remedy in first.remedy
    walked = {check.what for check in (first, *others)}
    assert walked == {"key", "mode", "developer options", "battery, storage, heat, settings"}
    assert all(check.health is not Health.MEND for check in others)
