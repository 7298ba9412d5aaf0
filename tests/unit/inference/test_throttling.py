"""When a phone was slowed down, told from what was sampled and from its latencies."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from agents.energy.readings import readings_of
from agents.inference.on_device_result import sampled
from agents.inference.runner.sampler import FILE, SCRIPT, sampling
from agents.inference.throttling import charging_began, findings, summary
from controller.contracts.policy import load_policy
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.units import Unit
from controller.stats.prediction import predicted
from tests.support import builders

LAB = load_policy("lab")
assert LAB.throttled
LIMITS = LAB.throttled
TEXT = """at 100.00
battery_status Discharging
battery_current_now -500000
battery_voltage_now 4000000
zone_skin 30000
frequency_cpu0 900000
limit_cpu0 2000000
thermal_status 0
at 110.00
battery_status Discharging
battery_current_now -700000
battery_voltage_now 4000000
zone_skin 41500
frequency_cpu0 1100000
limit_cpu0 1500000
thermal_status 2
at 112.5
battery_sta"""
STEADY = [0.01] * 100


def test_rounds_are_read_relative_to_the_first_query_and_a_cut_one_as_far_as_it_goes() -> None:
    readings = readings_of(TEXT, 101.0)
    assert [r.at_s for r in readings] == [-1.0, 9.0, 11.5]
    assert readings[1].number("zone_skin") == 41500
    assert readings[2].values == {}


def test_status_and_frequency_are_told_with_the_moment_they_began() -> None:
    told = [str(found) for found in findings(readings_of(TEXT, 101.0), STEADY, sum(STEADY), LIMITS)]
    assert told == [
        "throttled: thermal status MODERATE from 9.0 s on",
        "throttled: cpu0 limited to 75% of its frequency from 9.0 s on",
    ]


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


def test_the_predicted_interval_holds_the_normal_runs_percentile() -> None:
    """For latencies that depend on their neighbours, as a governor makes them."""
    source, hits, trials = np.random.default_rng(11), 0, 60
    for _ in range(trials):
        short, normal = (_wandering(source, count) for count in (128, 1024))
        found = predicted(short.tolist(), lambda drawn: np.quantile(drawn, 0.9, axis=-1))
        assert found is not None
        hits += found[1] <= np.quantile(normal, 0.9) <= found[2]
    assert hits / trials > 0.85  # 95 % less what 60 trials and so short a run leave open


def _wandering(source: np.random.Generator, count: int) -> np.ndarray:
    steps = source.normal(0, 1, count)
    for at in range(1, count):
        steps[at] += 0.3 * steps[at - 1]
    return np.asarray(0.01 * np.exp(0.1 * steps))
