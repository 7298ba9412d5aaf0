"""Memory pressure, heat and clock of the cores, from fake trees of /proc and /sys."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agents.host.strain import NO_STRAIN, Reading, Strain, between, memory_stall_us, read_strain
from tests.support.fake_sysfs import Files, write_files

CORE = f"devices/system/cpu/cpu{min(os.sched_getaffinity(0))}"
CLOCK, COUNTER = f"{CORE}/cpufreq/scaling_cur_freq", f"{CORE}/thermal_throttle/core_throttle_count"
PRESSURE = "some avg10=1.00 avg60=0.50 avg300=0.10 total={}\nfull avg10=0 avg60=0 avg300=0 total=7"
MACHINE = {
    "self/cgroup": "0::/pod/own",
    "fs/cgroup/pod/own/cpu.stat": "usage_usec 9\nnr_throttled 7\nthrottled_usec 600000",
    "fs/cgroup/pod/cpu.stat": "usage_usec 99\nnr_throttled 1\nthrottled_usec 50000",
    "pressure/memory": PRESSURE.format(5_000_000),
    COUNTER: "3",
    f"{CORE}/thermal_throttle/package_throttle_count": "40",
    CLOCK: "3000000",
    "devices/system/cpu/cpu999999/cpufreq/scaling_cur_freq": "9000000",
    "class/thermal/thermal_zone0/temp": "61000",
    "class/hwmon/hwmon1/temp2_input": "72500",
    "class/hwmon/hwmon1/temp3_input": "-274000",
}


def seen(folder: Path, files: Files) -> Reading:
    """Return the reading of a tree, at no time."""
    write_files(folder, files)
    return replace(read_strain(folder, folder), at_s=0.0)


def test_what_a_machine_says(tmp_path: Path) -> None:
    found = seen(tmp_path, MACHINE)
    assert (found.memory_us, found.khz, found.celsius) == (5_000_000, 3_000_000, 72.5)
    assert sorted(found.throttles.values()) == [3, 40]
    assert found.quota_us == 650_000


def test_what_a_machine_does_not_say_is_not_known(tmp_path: Path) -> None:
    nothing = read_strain(tmp_path / "proc", tmp_path / "sys")
    assert replace(nothing, at_s=0.0) == Reading()
    assert between(nothing, nothing) == NO_STRAIN
    assert (NO_STRAIN.memory_pressure, NO_STRAIN.frequency_drop) == (None, None)


@pytest.mark.parametrize("damaged", ["", "-", "\0", "9" * 9000, "1 2", "3.5", "none"])
def test_damaged_files_are_not_known(damaged: str, tmp_path: Path) -> None:
    assert seen(tmp_path, dict.fromkeys(MACHINE, damaged)) == Reading()


def test_a_folder_in_a_files_place_and_other_encodings_are_not_known(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{name}/deeper": "1" for name in MACHINE})
    assert replace(read_strain(tmp_path, tmp_path), at_s=0.0) == Reading()
    for name in ("a", "b"):
        (tmp_path / name / "pressure").mkdir(parents=True)
        (tmp_path / name / "pressure/memory").write_bytes(b"\xff\xfe total=\x80")
        assert read_strain(tmp_path / name, tmp_path).memory_us is None


@pytest.mark.parametrize(
    ("pressure", "us"),
    [
        (PRESSURE.format(12), 12),
        ("full avg10=0 total=7", None),
        ("some avg10=0.00 avg60=0.00 avg300=0.00", None),
        ("some total=", None),
        ("some total=1 total=2", None),
        ("\n\nsome total=x\n", None),
    ],
)
def test_the_total_of_some_counts(pressure: str, us: int | None) -> None:
    assert memory_stall_us(pressure) == us


START = Reading(100.0, 5_000_000, {"a": 3, "b": 40}, 3_000_000, 60.0, 600_000)


@pytest.mark.parametrize(
    ("end", "strain"),
    [
        (
            Reading(110.0, 6_000_000, {"a": 5, "b": 41}, 2_000_000, 59.0),
            Strain(1.0, 10.0, 3, 3_000_000, 2_000_000, 60.0),
        ),
        (
            Reading(110.0, quota_us=2_600_000),
            Strain(first_khz=3_000_000, celsius=60.0, quota_s=2.0, quota_of_s=10.0),
        ),
        (
            Reading(110.0, quota_us=599_999),
            Strain(first_khz=3_000_000, celsius=60.0),
        ),
        (  # counters that go backwards are left out
            Reading(110.0, 4_000_000, {"a": 1, "b": 41}, 3_300_000, 70.0),
            Strain(0.0, 0.0, 1, 3_000_000, 3_300_000, 70.0),
        ),
        (Reading(110.0, throttles={"a": 2}), Strain(first_khz=3_000_000, celsius=60.0)),
        (Reading(110.0, throttles={"c": 9}), Strain(first_khz=3_000_000, celsius=60.0)),
    ],
)
def test_the_strain_of_a_section(end: Reading, strain: Strain) -> None:
    assert between(START, end) == strain


def test_sections_add_up_and_the_worst_end_counts() -> None:
    unknown = Strain(celsius=None)
    first = Strain(1.0, 10.0, 3, 3_000_000, 2_900_000, 60.0, 0.5, 10.0)
    later = Strain(3.0, 10.0, 0, 2_900_000, 2_400_000, 55.0, 1.5, 10.0)
    both = NO_STRAIN.plus(first).plus(unknown).plus(later)
    assert both == Strain(4.0, 20.0, 3, 3_000_000, 2_400_000, 60.0, 2.0, 20.0)
    assert (both.quota_throttled_s, unknown.quota_throttled_s) == (2.0, None)
    assert (both.memory_pressure, both.frequency_drop) == (0.2, 0.2)
    assert replace(both, least_khz=3_300_000).frequency_drop == 0.0
