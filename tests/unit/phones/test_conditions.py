"""What is read of a phone's conditions, also of phones that say what none should."""

from __future__ import annotations

import pytest

from agents.phones.conditions import (
    MAX_CLOCKS,
    MAX_GOVERNORS,
    MAX_SENSORS,
    battery_facts,
    hottest,
    other_facts,
    thermal_facts,
)

HEAD = "Thermal Status: 0\nCurrent temperatures from HAL:\n"


def temperature(celsius: object, kind: int, name: str) -> str:
    """Return a line of AOSP's Temperature.toString()."""
    return f"\tTemperature{{mValue={celsius}, mType={kind}, mName={name}, mStatus=0}}\n"


def cooling(value: int, kind: int, name: str) -> str:
    """Return a line of AOSP's CoolingDevice.toString()."""
    return f"\tCoolingDevice{{mValue={value}, mType={kind}, mName={name}}}\n"


def celsius_of(dumpsys: str) -> dict[str, object]:
    return {n: v for n, v in thermal_facts(dumpsys).items() if n.startswith("celsius_")}


def test_cooling_devices_are_no_sensors() -> None:
    said = HEAD + temperature(36.5, 3, "skin") + "Current cooling devices from HAL:\n"
    said += cooling(4, 2, "fan") + cooling(9, 3, "cpu-cluster") + temperature(70.0, 0, "late")
    assert celsius_of(said) == {"celsius_skin": 36.5}
    assert celsius_of(HEAD + cooling(4, 2, "fan") + cooling(9, 3, "cpu")) == {}


@pytest.mark.parametrize("kind", [6, 7, 8])
def test_volts_amperes_and_percent_are_no_degrees(kind: int) -> None:
    said = HEAD + temperature(43.0, kind, "vbat") + temperature(36.5, -1, "unknown")
    assert celsius_of(said) == {"celsius_unknown": 36.5}


@pytest.mark.parametrize("celsius", [4100.0, -274.0, "NaN", 150.1, -50.1])
def test_what_no_sensor_can_say_is_left_out(celsius: object) -> None:
    assert celsius_of(HEAD + temperature(celsius, 3, "skin")) == {}


def test_of_sensors_with_one_name_the_hottest_counts() -> None:
    said = HEAD + "".join(temperature(celsius, 0, "cpu") for celsius in (40.0, 71.5, 39.0))
    assert celsius_of(said) == {"celsius_cpu": 71.5}


def test_a_phone_has_no_end_of_sensors() -> None:
    many = "".join(temperature(20 + n / 200, 0, f"s{n}") for n in range(20_000))
    found = celsius_of(HEAD + many)
    assert len(found) == MAX_SENSORS
    assert "celsius_s19999" in found, "the hottest are kept"


def test_sensors_stay_in_their_order() -> None:
    assert list(hottest([("b", 30.0), ("a", 50.0), ("b", 31.0)]).items()) == [
        ("b", 31.0),
        ("a", 50.0),
    ]


@pytest.mark.parametrize("number", [-1, -8, 7, 123_456_789])
def test_a_status_android_does_not_have_is_not_known(number: int) -> None:
    assert thermal_facts(f"Thermal Status: {number}\n") == {}


@pytest.mark.parametrize("tenths", [-501, 1500, 41_000, -(10**14)])
def test_a_battery_is_as_warm_as_a_battery_can_be(tenths: int) -> None:
    assert "battery_celsius" not in battery_facts(f"  level: 80\n  temperature: {tenths}\n")


def test_readings_that_somebody_has_set_are_marked() -> None:
    """As AOSP's BatteryService and ThermalManagerService print them."""
    battery = "Current Battery Service state:\n{}  USB powered: false\n  level: 80\n"
    stopped = battery_facts(battery.format("  (UPDATES STOPPED -- use 'reset' to restart)\n"))
    assert stopped["battery_overridden"] is True
    assert battery_facts(battery.format(""))["battery_overridden"] is False
    thermal = "IsStatusOverride: {}\nThermalEventListeners:\n\tcallbacks: 1\nThermal Status: 0\n"
    assert thermal_facts(thermal.format("true"))["thermal_overridden"] is True
    assert thermal_facts(thermal.format("false"))["thermal_overridden"] is False
    assert "thermal_overridden" not in thermal_facts("Thermal Status: 0\n")


def test_endless_empty_lines_are_read_in_linear_time() -> None:
    """In quadratic time, it would take minutes: as much as is read of an answer."""
    empty = "\n" * (1 << 20)
    assert thermal_facts(empty) == {}
    assert battery_facts(f"{empty}level: 80") == {
        "battery_percent": 80,
        "battery_overridden": False,
    }


@pytest.mark.parametrize(
    "line",
    [
        "khz_cpu0x: 7",
        "khz_cpu: 7",
        "khz_cpu\u0661: 7",
        "khz_cpu12345: 7",
        f"khz_cpu{'0' * 10_000}: 7",
        f"screen: {'A' * 33}",
        "screen: Awake\x1b]0;title\x07",
        f"selinux: {'Enforcing' * 10_000}",
        "selinux: not found",
        f"governor_cpu0: {'s' * 33}",
        "governor_cpu0: a governor",
        "governor_mine: schedutil",
    ],
)
def test_a_name_or_word_that_no_phone_says_is_left_out(line: str) -> None:
    assert other_facts(f"{line}\n", None) == {}


def test_words_that_phones_say_are_kept() -> None:
    said = "screen: Dozing\nselinux: Enforcing\ngovernor_cpu0: sched_pixel\nkhz_cpu11: 300000\n"
    assert other_facts(f"{said}governor_cpu4: sugov-ext\n", None) == {
        "screen": "Dozing",
        "selinux": "Enforcing",
        "governor": "sched_pixel sugov-ext",
        "khz_cpu11": 300000,
    }


def test_a_phone_has_no_end_of_cores_or_governors() -> None:
    cores = "".join(f"khz_cpu{n}: {n + 1}\n" for n in range(10_000))
    assert len(other_facts(cores, None)) == MAX_CLOCKS
    some = "".join(f"governor_cpu{n}: g{n}\n" for n in range(MAX_GOVERNORS))
    assert len(str(other_facts(some, None)["governor"]).split()) == MAX_GOVERNORS
    assert other_facts(f"{some}governor_cpu99: g99\n", None) == {}
