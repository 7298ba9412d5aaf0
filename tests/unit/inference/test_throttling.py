"""When a phone was slowed down, told from what was sampled and from its latencies."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from agents.energy.readings import Reading, readings_of
from agents.inference.on_device_result import sampled
from agents.inference.runner.sampler import FILE, SCRIPT, sampling
from agents.inference.throttling import BEGAN_AT, charging_began, findings, summary
from agents.phones.conditions import MAX_SENSORS
from controller.contracts.policy import load_policy
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.units import Unit
from tests.support import builders

LAB = load_policy("lab")
assert LAB.throttled
LIMITS = LAB.throttled
TEXT = """at 100.00
battery_status Discharging
battery_current_now -500000
battery_voltage_now 4000000
zone_0:skin 30000
frequency_cpu0 900000
limit_cpu0 2000000
thermal_status 0
at 110.00
battery_status Discharging
battery_current_now -700000
battery_voltage_now 4000000
zone_0:skin 41500
frequency_cpu0 1100000
limit_cpu0 1500000
thermal_status 2
at 112.5
battery_sta"""
STEADY = [0.01] * 100


def test_rounds_are_read_relative_to_the_first_query_and_a_cut_one_as_far_as_it_goes() -> None:
    readings = readings_of(TEXT, 101.0)
    assert [r.at_s for r in readings] == [-1.0, 9.0, 11.5]
    assert readings[1].number("zone_0:skin") == 41500
    assert readings[2].values == {}


def test_status_and_frequency_are_told_with_the_moment_they_began() -> None:
    told = [str(found) for found in findings(readings_of(TEXT, 101.0), STEADY, sum(STEADY), LIMITS)]
    assert told == [
        "throttled: thermal status MODERATE from 9.0 s on",
        "throttled: cpu0 limited to 75% of its frequency from 9.0 s on",
    ]


def limited(*rounds: tuple[float, dict[str, int]]) -> list[Reading]:
    return [
        Reading(at_s, {f"limit_{core}": str(khz) for core, khz in limits.items()})
        for at_s, limits in rounds
    ]


def test_throttling_that_began_in_the_warm_up_is_told() -> None:
    """The phone runs at its full clock in the rest only."""
    rested = limited((-20.0, {"cpu0": 2_800_000}), (-12.0, {"cpu0": 2_800_000}))
    readings = limited((0.5, {"cpu0": 1_200_000}), (2.5, {"cpu0": 1_200_000}))
    (found,) = findings(readings, STEADY, 4.0, LIMITS, rested=rested)
    assert str(found) == "throttled: cpu0 limited to 43% of its frequency from 0.5 s on"


def test_a_core_that_was_limited_from_the_first_reading_on_is_told_when_it_is_let_free() -> None:
    readings = limited((0.5, {"cpu0": 1_200_000}), (9.0, {"cpu0": 2_400_000}))
    (found,) = findings(readings, STEADY, 10.0, LIMITS)
    assert (found.at_s, found.what) == (0.5, "throttled: cpu0 limited to 50% of its frequency")


def test_a_limit_that_was_lifted_before_the_first_query_slowed_nothing_that_was_timed() -> None:
    rounds = ((-5.0, 1_200_000), (-3.0, 1_200_000), (-1.0, 2_400_000), (1.0, 2_400_000))
    readings = limited(*((at_s, {"cpu0": khz}) for at_s, khz in rounds))
    assert findings(readings, STEADY, 2.0, LIMITS) == []


def test_the_earliest_fall_of_any_core_is_told_whenever_the_core_appeared() -> None:
    readings = limited(
        (1.0, {"cpu0": 2_000_000}),
        (2.0, {"cpu0": 2_000_000, "cpu7": 3_000_000}),
        (3.0, {"cpu0": 2_000_000, "cpu7": 1_500_000}),
        (4.0, {"cpu0": 1_000_000, "cpu7": 1_500_000}),
    )
    (found,) = findings(readings, STEADY, 5.0, LIMITS)
    assert str(found) == "throttled: cpu7 limited to 50% of its frequency from 3.0 s on"


def test_a_phone_at_rest_is_not_throttled() -> None:
    calm = TEXT.replace("thermal_status 2", "thermal_status 1").replace("1500000", "1990000")
    assert findings(readings_of(calm, 101.0), STEADY, sum(STEADY), LIMITS) == []


def test_latencies_that_rise_and_stay_are_a_drift_from_where_they_rose() -> None:
    latencies = [0.01] * 70 + [0.015] * 30
    (found,) = findings([], latencies, sum(latencies), LIMITS)
    assert str(found) == "throttled: latency 1.50 times that of the start from 0.7 s on"


def test_latencies_that_come_back_are_no_drift() -> None:
    assert findings([], [0.01] * 40 + [0.02] * 30 + [0.01] * 30, 1.3, LIMITS) == []


def test_noise_is_no_drift() -> None:
    source = np.random.default_rng(3)
    for _ in range(50):
        assert findings([], source.normal(0.01, 0.002, 200).clip(0.001).tolist(), 2.0, LIMITS) == []


def test_charging_in_mid_run_is_told_only_where_it_is_forbidden() -> None:
    charged = readings_of(TEXT.replace("Discharging", "Charging"), 101.0)
    assert charging_began(charged, LAB) == []
    (found,) = charging_began(charged, load_policy("mlperf"))
    assert str(found) == "the phone was charging from 0.0 s on"


def test_extremes_become_facts() -> None:
    facts = summary(readings_of(TEXT, 101.0), 10.0)
    assert facts["celsius_skin_during_max"] == 41.5
    assert facts["thermal_status_during_max"] == "MODERATE"
    assert facts["frequency_cpu0_khz_during_mean"] == 1_000_000
    assert facts["conditions_samples"] == 3
    assert facts["conditions_longest_gap_s"] == 9.0, "from the first query to the only sample"
    assert facts["battery_status_during"] == "Discharging"


def test_a_sampler_that_ended_at_once_leaves_a_gap_to_the_run_s_end() -> None:
    facts = summary(readings_of("at 100.00\nbattery_capacity 80\nat 101.5\n", 101.0), 60.0)
    assert facts == {"conditions_samples": 2, "conditions_longest_gap_s": 59.5}
    assert summary([], 60.0) == {"conditions_samples": 0, "conditions_longest_gap_s": 60.0}


def test_the_battery_s_temperature_as_loadgen_began_is_the_first_of_the_run(
    tmp_path: Path,
) -> None:
    """What the rest before it showed is not of the run."""
    (tmp_path / FILE).write_text(
        "at 90.0\nbattery_temp 300\nat 99.0\nbattery_status Full\nat 100.0\nbattery_temp 412\n"
        "at 103.0\nbattery_temp 420\n"
    )
    facts = {"started_at_uptime_s": 101.0, "rested_from_uptime_s": 89.0}
    measured = builders.result().model_copy(
        update={
            "environment": {**facts, "rested_until_uptime_s": 95.0},
            "metrics": {"duration": Measurement(value=10.0, unit=Unit.SECONDS)},
        }
    )
    found = sampled(measured, LAB, STEADY, tmp_path, queries=64).environment
    assert (found[BEGAN_AT], found["battery_celsius_during_max"]) == (41.2, 42.0)


@pytest.mark.parametrize(("at_s", "celsius"), [(4.0, 41.2), (6.0, None), (40.0, None)])
def test_a_battery_s_temperature_that_comes_late_is_not_that_of_the_begin(
    at_s: float, celsius: float | None
) -> None:
    """It has the run's own heat."""
    readings = [Reading(0.0, {"thermal_status": "0"}), Reading(at_s, {"battery_temp": "412"})]
    facts = summary(readings, 60.0)
    assert (facts.get(BEGAN_AT), facts["battery_celsius_during_max"]) == (celsius, 41.2)


SAMPLED = {"battery_status": "Discharging", "battery_temp": "281", "thermal_status": "0"}


def rounds(*without: str, every_s: float = 2.0, first: int = 1) -> list[Reading]:
    """Return the rounds of a minute; of what is left out, only the first few have it."""
    rest = {name: value for name, value in SAMPLED.items() if name not in without}
    return [Reading(n * every_s, SAMPLED if n < first else rest) for n in range(int(60 / every_s))]


@pytest.mark.parametrize("name", SAMPLED)
def test_a_condition_that_can_be_read_no_more_leaves_a_gap_to_the_run_s_end(name: str) -> None:
    assert summary(rounds(), 60.0)["conditions_longest_gap_s"] == 2.0
    facts = summary(rounds(name, first=5), 60.0)
    assert facts["conditions_longest_gap_s"] == 52.0
    assert facts["conditions_samples"] == 30


def test_a_condition_that_no_round_has_is_told_otherwise() -> None:
    """A host has no battery."""
    assert summary(rounds(*SAMPLED, first=0), 60.0)["conditions_longest_gap_s"] == 2.0


@pytest.mark.parametrize("number", ["-1", "-8", "7", "1e30", "0.5"])
def test_a_sampled_status_android_does_not_have_is_not_known(number: str) -> None:
    readings = [Reading(1.0, {"thermal_status": number})]
    assert "thermal_status_during_max" not in summary(readings, 2.0)
    assert findings(readings, STEADY, 2.0, LIMITS) == []
    assert summary([*readings, Reading(1.5, {"thermal_status": "2"})], 2.0)[
        "thermal_status_during_max"
    ] == ("MODERATE")


def test_of_two_sockets_the_hotter_one_is_told() -> None:
    zones = {"zone_0:x86_pkg_temp": "91000", "zone_1:x86_pkg_temp": "45000"}
    facts = summary([Reading(1.0, zones)], 2.0)
    assert facts["celsius_x86_pkg_temp_during_max"] == 91.0


def test_zones_that_are_no_temperatures_are_left_out() -> None:
    zones = {"zone_0:skin": "41000", "zone_1:vbat": "4100000", "zone_2:off": "-274000"}
    wrong = {"battery_temp": "9000", "zone_3:far": "1e308", "frequency_cpu0": "1e308"}
    facts = summary([Reading(1.0, {**zones, **wrong})] * 2, 2.0)
    assert [name for name in facts if "celsius" in name] == ["celsius_skin_during_max"]


def test_the_number_of_zones_is_bounded() -> None:
    zones = {f"zone_{n}:s{n}": str(20_000 + n) for n in range(20_000)}
    facts = summary([Reading(1.0, zones)], 2.0)
    assert len([name for name in facts if name.startswith("celsius_")]) == MAX_SENSORS


def test_the_sampler_tells_zones_of_one_name_apart(tmp_path: Path) -> None:
    (tmp_path / "uptime").write_text("100.00 1.0\n")
    for number, celsius in enumerate((91, 45)):
        zone = tmp_path / f"sys/class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text("x86_pkg_temp\n")
        (zone / "temp").write_text(f"{celsius}000\n")
    once = SCRIPT.replace('sleep "$1"', "exit 0")
    done = subprocess.run(
        ("sh", "-c", once, "sampler", "1", str(tmp_path / "sys"), str(tmp_path)),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    facts = summary(readings_of(done.stdout, 99.0), 2.0)
    assert facts["celsius_x86_pkg_temp_during_max"] == 91.0


def test_each_status_of_the_battery_is_told() -> None:
    text = "at 1\nbattery_status Full\nat 2\nbattery_status Charging\nat 3\nbattery_status Full\n"
    facts = summary(readings_of(text, 0.5), 4.0)
    assert facts["battery_status_during"] == "Charging, Full"


@pytest.mark.parametrize(
    ("number", "status"),
    [(1, None), (2, "Charging"), (3, "Discharging"), (4, "Not charging"), (5, "Full")],
)
def test_where_the_kernel_s_files_are_closed_the_battery_service_says_the_status(
    number: int, status: str | None, tmp_path: Path
) -> None:
    """Its numbers are those of android.os.BatteryManager."""
    (tmp_path / "uptime").write_text("100.00 1.0\n")
    service = tmp_path / "dumpsys"
    said = f"echo '  status: {number}'; echo '  temperature: 281'"
    service.write_text(f'#!/bin/sh\nif [ "$1" = battery ]; then {said}; fi\n')
    service.chmod(0o755)
    once = SCRIPT.replace('sleep "$1"', "exit 0")
    done = subprocess.run(
        ("sh", "-c", once, "sampler", "1", str(tmp_path / "sys"), str(tmp_path)),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    (reading,) = readings_of(done.stdout, 100.0)
    assert reading.values["battery_temp"] == "281"
    assert reading.values.get("battery_status") == status


@pytest.mark.parametrize(("policy", "validity"), [("ci", "VALID"), ("lab", "INVALID")])
def test_only_a_policy_that_enforces_makes_a_throttled_run_invalid(
    policy: str, validity: str, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_text(TEXT)
    measured = builders.result()
    assert isinstance(measured, Result)
    duration = Measurement(value=10.0, unit=Unit.SECONDS)
    measured = measured.model_copy(
        update={"environment": {"started_at_uptime_s": 101.0}, "metrics": {"duration": duration}}
    )
    found = sampled(measured, load_policy(policy), STEADY, tmp_path, queries=64)
    assert found.validity is Validity(validity)
    if validity == "INVALID":
        assert found.reasons[0] == "policy lab: throttled: thermal status MODERATE from 9.0 s on"


def test_the_sampler_tells_of_this_host_and_costs_little(tmp_path: Path) -> None:
    with sampling(tmp_path, 0.5) as use:
        subprocess.run(["sleep", "3"], check=True)
    up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    readings = readings_of((tmp_path / FILE).read_text(), up_s)
    assert len(readings) >= 3
    assert all(-60 < reading.at_s < 0 for reading in readings)
    # At the fourfold rate; `sleep 3` is in it, too.
    assert 0 < use.cpu_share < 4 * 0.01
