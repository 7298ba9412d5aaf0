"""Energy as the real sampler reads it from fake trees of /sys, against the exact integral."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from agents.energy.account import Account
from agents.energy.readings import Reading
from agents.energy.sampled import energy_of
from tests.support.fake_sysfs import Files, sampled
from tests.support.power_loads import BEGIN_S, CONSTANT, IDLE_W, LOADS, REST, RUN, Load

VOLTS = 3.9
QUERIES = 480
RANGE_UJ = 262_143_328_850
BATTERY = "class/power_supply/battery"
HWMON = "class/hwmon/hwmon2"
IIO = "bus/iio/devices/iio:device0"
MOMENTS = tuple(float(at) for at in np.arange(BEGIN_S + 0.7, RUN.ended_s + 5, 2.0))
Tree = Callable[[Load, float], Files]


def battery(load: Load, at_s: float) -> Files:
    return {
        f"{BATTERY}/status": "Discharging",
        f"{BATTERY}/current_now": str(round(-load.watts(at_s) / VOLTS * 1e6)),
        f"{BATTERY}/voltage_now": str(round(VOLTS * 1e6)),
    }


def noisy(load: Load, at_s: float) -> Files:
    noise = np.random.default_rng(round(at_s * 10) + 1000).normal(0, 0.03)
    current = str(round(-load.watts(at_s) * (1 + noise) / VOLTS * 1e6))
    return {**battery(load, at_s), f"{BATTERY}/current_now": current}


def charge(load: Load, at_s: float) -> Files:
    left_uah = 2e6 - load.joules(at_s) / VOLTS / 3600e-6
    told = {**battery(load, at_s), f"{BATTERY}/charge_counter": str(round(left_uah))}
    return {name: text for name, text in told.items() if "current" not in name}


def powercap(load: Load, at_s: float) -> Files:
    """A package of twenty times the load, which goes round; its cores; and the platform."""
    used_uj = round(RANGE_UJ - 10**9 + 20 * load.joules(at_s) * 1e6) % (RANGE_UJ + 1)
    files: dict[str, str] = {}
    for place, name in (("0", "package-0"), ("0:0", "core"), ("1", "psys")):
        folder = f"class/powercap/intel-rapl:{place}"
        files |= {
            f"{folder}/name": name,
            f"{folder}/energy_uj": str(used_uj),
            f"{folder}/max_energy_range_uj": str(RANGE_UJ),
        }
    return files


def hwmon_power(load: Load, at_s: float) -> Files:
    """A board's input, and a part of it."""
    return {
        f"{HWMON}/power1_input": str(round(load.watts(at_s) / 3 * 1e6)),
        f"{HWMON}/power1_label": "VDD_CPU",
        f"{HWMON}/power2_input": str(round(load.watts(at_s) * 1e6)),
        f"{HWMON}/power2_label": "VDD_IN",
    }


def hwmon_energy(load: Load, at_s: float) -> Files:
    return {
        **hwmon_power(load, at_s),
        f"{HWMON}/energy1_input": str(round(load.joules(at_s) * 1e6)),
        f"{HWMON}/energy1_label": "Total System Power",
    }


def iio(load: Load, at_s: float, whole: str = "VSYS_PWR_VBATT") -> Files:
    """A phone's ODPM: two parts and the battery's rail; the phone is on its battery."""
    t, uj = round((at_s + 1000) * 1e3), round(load.joules(at_s) * 1e6)
    lines = (f"t={t}", f"CH0(T={t})[S2M_VDD_CPUCL2], {uj // 2}", f"CH3(T={t})[{whole}], {uj}")
    channels = "\n".join((*lines, f"CH7(T={t})[S1M_VDD_MIF], {uj // 3}"))
    return {f"{IIO}/energy_value": channels, f"{BATTERY}/status": "Discharging"}


def both(load: Load, at_s: float) -> Files:
    return {**battery(load, at_s), **iio(load, at_s)}


TREES: Mapping[str, tuple[Tree, str, float, bool]] = {
    "battery current": (battery, "battery current", 1.0, False),
    "battery current, 3 % noise": (noisy, "battery current", 1.0, False),
    "battery charge": (charge, "battery charge", 1.0, True),
    "RAPL that goes round": (powercap, "rapl: package-0", 20.0, True),
    "hwmon power": (hwmon_power, "power rail: VDD_IN", 1.0, False),
    "hwmon energy": (hwmon_energy, "power rail: Total System Power", 1.0, True),
    "IIO energy": (iio, "power rail: VSYS_PWR_VBATT", 1.0, True),
    "a rail goes before the battery": (both, "power rail: VSYS_PWR_VBATT", 1.0, True),
}
"""Name → tree, its source, how many times the load, and whether it counts energy."""


def told_of(folder: Path, tree: Tree, load: Load = CONSTANT) -> Account:
    return energy_of(sampled(folder, lambda at: tree(load, at), MOMENTS), RUN, REST, QUERIES)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", TREES)
def test_energy_is_the_exact_integral_within_one_percent(
    name: str, load: str, tmp_path: Path
) -> None:
    tree, source, times, counts = TREES[name]
    told = told_of(tmp_path, tree, LOADS[load])
    gross = times * LOADS[load].over(RUN) / QUERIES
    net = gross - times * IDLE_W * RUN.seconds / QUERIES
    if load == "bursts" and not counts:  # bursts between looks: it is unsure, or none
        for metric, exact in (("energy_gross", gross), ("energy", net)):
            if metric in told.metrics:
                unsure = told.facts[f"{metric}_uncertainty"]
                assert isinstance(unsure, float)
                assert told.metrics[metric].value == pytest.approx(exact, rel=unsure)
        return
    assert told.facts["energy_source"] == source
    assert told.metrics["energy_gross"].value == pytest.approx(gross, rel=0.01)
    assert told.metrics["energy"].value == pytest.approx(net, rel=0.01)
    assert told.facts["idle_watts"] == pytest.approx(times * IDLE_W, rel=0.01)


def after(at_s: float, tree: Tree, files: Files) -> Tree:
    """Let a tree's files say something else from a moment on."""
    return lambda load, now: {**tree(load, now), **(files if now > at_s else {})}


def set_back(tree: Callable[[Load, float], Files]) -> Tree:
    """Let counters begin anew in the middle of the run."""
    return lambda load, now: tree(load, now if now < 60 else now - 59)


PACKAGE = "class/powercap/intel-rapl:0/energy_uj"
UNKNOWN: Mapping[str, tuple[Tree, str]] = {
    "a charger, plugged in meanwhile": (
        after(60, battery, {f"{BATTERY}/status": "Charging"}),
        "being charged",
    ),
    "a charger that is kept quiet about": (
        after(60, battery, {f"{BATTERY}/current_now": "300000"}),
        "changed its direction",
    ),
    "a charge that rises": (
        after(60, charge, {f"{BATTERY}/charge_counter": "2100000"}),
        "charge rose",
    ),
    "a charge that stands": (
        after(-99, charge, {f"{BATTERY}/charge_counter": "2100000"}),
        "stood still",
    ),
    "RAPL that stands": (after(-99, powercap, {PACKAGE: "7"}), "stood still"),
    "RAPL that is set back": (set_back(powercap), "jumped"),
    "RAPL of words": (after(-99, powercap, {PACKAGE: "much"}), "readings, where"),
    "a rail that is set back": (set_back(iio), "ran backwards"),
    "a rail that stands": (
        lambda load, at: iio(load, -9.0) if at > -9 else iio(load, at),
        "stood still",
    ),
    "a battery's rail beside a charger": (
        after(60, both, {f"{BATTERY}/status": "Charging"}),
        "being charged",
    ),
    "a battery's rail beside a charger that doesn't charge": (
        after(60, both, {f"{BATTERY}/status": "Not charging"}),
        "status was Not charging",
    ),
    "a battery's rail, and nobody knows of a charger": (
        after(-99, iio, {f"{BATTERY}/status": ""}),
        "status is not told",
    ),
    "a rail's gauge that stands": (
        after(-99, hwmon_power, {f"{HWMON}/power2_input": "6000000"}),
        "its reading stood at 6 W all the time",
    ),
    "rails of parts only": (
        lambda load, at: iio(load, at, "VSYS_PWR_MODEM"),
        "feed parts of it, whose sum is not the device's",
    ),
    "a rail of no name": (
        lambda load, at: {f"{HWMON}/power1_input": "5000000"},
        "neither a battery nor a counter",
    ),
    "a rail named to do harm": (
        lambda load, at: iio(load, at, "VBATT\x1b[2J" + "V" * 5000),
        "feed parts of it",
    ),
    "a rail of no number": (
        after(-99, hwmon_power, {f"{HWMON}/power2_input": "nan"}),
        "0 readings, where 3 are needed",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_known_is_unknown_and_says_why(name: str, tmp_path: Path) -> None:
    tree, why = UNKNOWN[name]
    told = told_of(tmp_path, tree)
    assert told.metrics == {}
    assert re.search(why, str(told.facts["energy_unknown"])), told.facts


@pytest.mark.parametrize("tree", [battery, powercap, hwmon_power, iio])
def test_a_gap_leaves_a_gauge_unknown_and_a_counter_known(tree: Tree, tmp_path: Path) -> None:
    """A counter has counted on meanwhile; a gauge has not been looked at."""
    whole = sampled(tmp_path, lambda at: tree(CONSTANT, at), MOMENTS)
    told = energy_of(without(whole, 20, 75), RUN, REST, QUERIES)
    if tree in (battery, hwmon_power):
        assert re.search(r"to ±\d+% only", str(told.facts["energy_unknown"]))
    else:
        exact = (20.0 if tree is powercap else 1.0) * CONSTANT.over(RUN) / QUERIES
        assert told.metrics["energy_gross"].value == pytest.approx(exact, rel=0.01)


def without(readings: list[Reading], began_s: float, ended_s: float) -> list[Reading]:
    return [r for r in readings if not began_s < r.at_s < ended_s]


def test_rails_are_told_with_their_mean_power_and_what_is_no_name_is_not(tmp_path: Path) -> None:
    told = told_of(tmp_path / "a", iio)
    assert told.facts["power_rails"] == (
        "S2M_VDD_CPUCL2 3 W",
        "VSYS_PWR_VBATT 6 W",
        "S1M_VDD_MIF 2 W",
    )
    named = told_of(tmp_path / "b", lambda load, at: iio(load, at, "VBATT\x1b[2J"))
    assert named.facts["power_rails"] == ("S2M_VDD_CPUCL2 3 W", "S1M_VDD_MIF 2 W")
