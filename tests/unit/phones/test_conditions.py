"""What is read of a phone's conditions, also of phones that say what none should."""

from __future__ import annotations

import pytest

from agents.phones.conditions import MAX_SENSORS, hottest, thermal_facts

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
