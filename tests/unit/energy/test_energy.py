"""Energy as trees of powercap and of a battery tell it, against the exact integral of the power."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from agents.energy.account import Used, account
from agents.energy.battery import of_charge, of_current
from agents.energy.rapl import of_rapl
from agents.energy.readings import Reading, readings_of
from agents.energy.sampled import Source, energy_of
from agents.energy.trace import EnergyUnknownError, Joules, Span
from controller.contracts.units import Unit

RUN = Span(0.0, 60.0)
VOLTS = 3.9
PERIOD_S = 2.0
RANGE_UJ = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Power:
    """Watts over time, and joules since time began: exact."""

    watts: Callable[[float], float]
    joules: Callable[[float], float]

    def over(self, span: Span) -> float:
        return self.joules(span.ended_s) - self.joules(span.began_s)


STEADY = Power(lambda _: 4.0, lambda t: 4.0 * t)
RISING = Power(lambda t: 3.0 + t / 30, lambda t: 3.0 * t + t * t / 60)
WAVING = Power(lambda t: 4 + math.sin(t / 5), lambda t: 4 * t - 5 * math.cos(t / 5))
POWERS = [STEADY, RISING, WAVING]


def moments(period_s: float = PERIOD_S) -> Iterator[float]:
    """Give when a sampler reads that starts before the run and ends after, not in step with it."""
    return (float(at) for at in np.arange(-4.3, 65.0, period_s))


def tree(told: Callable[[float], Mapping[str, float]], period_s: float = PERIOD_S) -> list[Reading]:
    """Return readings as the sampler writes them: whole numbers, and times to a hundredth; of a
    device on its battery."""
    lines = []
    for at in moments(period_s):
        lines += [f"at {100 + at:.2f}", "battery_status Discharging"]
        lines += [f"{name} {round(value)}" for name, value in told(at).items()]
    return readings_of("\n".join(lines), 100.0)


def current(power: Power, noise: np.random.Generator | None = None) -> list[Reading]:
    """A battery that tells current and voltage; negative while it is used."""
    # Without noise, still the jitter by which a gauge shows that it is alive.
    spread, rng = (0.03, noise) if noise else (1e-4, np.random.default_rng(5))

    def told(at: float) -> Mapping[str, float]:
        watts = power.watts(at) * (1 + rng.normal(0, spread))
        return {"battery_current_now": -watts / VOLTS * 1e6, "battery_voltage_now": VOLTS * 1e6}

    return tree(told)


def charge(power: Power, step_uah: float = 1.0) -> list[Reading]:
    """A battery that tells only its charge, in steps of so much."""

    def told(at: float) -> Mapping[str, float]:
        left = 2e6 - power.joules(at) / VOLTS / 3600e-6
        return {
            "battery_charge_counter": round(left / step_uah) * step_uah,
            "battery_voltage_now": VOLTS * 1e6,
            "battery_capacity": 50,
        }

    return tree(told)


def rapl(power: Power, times: float = 20.0) -> list[Reading]:
    """Two packages of so many times the power, and cores that are part of one; they go round."""

    def told(at: float) -> Mapping[str, float]:
        used_uj = times * (power.joules(at) - power.joules(-10.0)) * 1e6
        counts = {
            "rapl:0:package-0": used_uj,
            "rapl:1:package-1": used_uj,
            "rapl:0:0:core": used_uj,
        }
        wrapped = {n: int(RANGE_UJ - 10**8 + uj) % (RANGE_UJ + 1) for n, uj in counts.items()}
        return {**wrapped, **{f"range_{n}": RANGE_UJ for n in counts}}

    return tree(told)


TREES: Mapping[str, tuple[Callable[[Power], list[Reading]], Source, float]] = {
    "battery current": (current, of_current, 1.0),
    "battery current, with noise": (
        lambda power: current(power, np.random.default_rng(3)),
        of_current,
        1.0,
    ),
    "battery charge": (charge, of_charge, 1.0),
    "RAPL that goes round": (rapl, of_rapl, 40.0),
    "RAPL that goes round twice": (lambda power: rapl(power, 50.0), of_rapl, 100.0),
}


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", TREES)
def test_energy_is_the_exact_integral_within_one_percent(name: str, power: Power) -> None:
    made, source, times = TREES[name]
    used = source(made(power), RUN)
    exact = times * power.over(RUN)
    assert used.joules.value == pytest.approx(exact, rel=0.01)
    assert abs(used.joules.value - exact) <= used.joules.uncertainty


def test_what_it_says_of_its_uncertainty_holds_19_times_in_20() -> None:
    held = 0
    for seed in range(200):
        joules = of_current(current(WAVING, np.random.default_rng(seed)), RUN).joules
        held += abs(joules.value - WAVING.over(RUN)) <= joules.uncertainty
    assert held >= 190


def without_status(reading: Reading) -> Reading:
    values = {name: value for name, value in reading.values.items() if name != "battery_status"}
    return replace(reading, values=values)


def without(readings: list[Reading], began_s: float, ended_s: float) -> list[Reading]:
    return [r for r in readings if not began_s < r.at_s < ended_s]


def changed(readings: list[Reading], at_s: float, **values: str) -> list[Reading]:
    """Let a device say something else from a moment on."""
    return [replace(r, values={**r.values, **values}) if r.at_s > at_s else r for r in readings]


def scaled(power: Power, times: float, capacity: str | None = "50") -> list[Reading]:
    """A battery whose charge is in another unit than µAh, and maybe tells no percentage."""

    def other(reading: Reading) -> Reading:
        uah = float(reading.values["battery_charge_counter"])
        values = {**reading.values, "battery_charge_counter": f"{uah * times:.0f}"}
        del values["battery_capacity"]
        return replace(
            reading, values=values if capacity is None else {**values, "battery_capacity": capacity}
        )

    return [*map(other, charge(power))]


def gauge(*changes_s: float) -> list[Reading]:
    """A battery whose current changes at these moments alone."""
    return tree(
        lambda at: {
            "battery_current_now": -1e6 - 1e4 * sum(at > change for change in changes_s),
            "battery_voltage_now": VOLTS * 1e6 + round(at),
        }
    )


UNKNOWN: Mapping[str, tuple[list[Reading], str]] = {
    "nothing to read": (
        [*map(without_status, tree(lambda _: {"zone_cpu": 41_000}))],
        "neither a battery nor a counter",
    ),
    "no reading at all": ([], "neither a battery nor a counter"),
    "a battery without current and charge": (
        tree(lambda _: {"battery_voltage_now": VOLTS * 1e6}),
        "current is not told; the battery's charge is not told",
    ),
    "a charger, plugged in meanwhile": (
        changed(current(STEADY), 30.0, battery_status="Charging"),
        "the phone was being charged",
    ),
    "full, on a charger": (
        changed(current(STEADY), -9.0, battery_status="Full"),
        "the phone was being charged",
    ),
    "connected, not charging": (
        changed(current(STEADY), 30.0, battery_status="Not charging"),
        "the battery's status was Not charging, which does not exclude a charger",
    ),
    "a status that is not known": (
        changed(charge(STEADY), 30.0, battery_status="Unknown"),
        "the battery's status was Unknown",
    ),
    "a status that is never told": (
        [*map(without_status, current(STEADY))],
        "the battery's status is not told",
    ),
    "a status that stops being told": (
        [without_status(r) if r.at_s > 30 else r for r in current(STEADY)],
        "the battery's status is not told",
    ),
    "a charger that the status keeps quiet about": (
        changed(current(STEADY), 30.0, battery_current_now="200000"),
        "changed its direction",
    ),
    "a charge that rises": (
        changed(charge(STEADY), 30.0, battery_charge_counter="2100000"),
        "charge rose, as with a charger",
    ),
    "current in mA": (
        tree(lambda _: {"battery_current_now": -900, "battery_voltage_now": 4e6}),
        "not in µA",
    ),
    "charge in mAh": (scaled(STEADY, 1e-3), "a charge of 1992 at 50 % is not in µAh"),
    "charge in nAh": (scaled(STEADY, 1e3), "at 50 % is not in µAh"),
    "charge in mAh, of no percentage": (
        scaled(STEADY, 1e-3, None),
        "a charge of 1992 is not in µAh",
    ),
    "charge in mAh, of an empty battery": (scaled(STEADY, 1e-3, "0"), "1992 at 0 % is not in µAh"),
    "a current that never changes": (gauge(), "current stood at 1 A all the time"),
    "a current that changes once": (gauge(20.0), "current changed only once"),
    "voltage in mV": (
        tree(lambda _: {"battery_current_now": -9e5, "battery_voltage_now": 4e3}),
        "not in µV",
    ),
    "nobody looked for most of it": (without(current(STEADY), 9.0, 40.0), r"to ±\d+% only"),
    "nobody looked at its end": (without(current(STEADY), 40.0, 99.0), r"to ±\d+% only"),
    "one look": (without(current(STEADY), 3.0, 99.0), "1 readings, where 3 are needed"),
    "a charge in steps too coarse": (charge(STEADY, 5_000.0), r"to ±\d+% only|stood still"),
    "a counter that stands": (
        changed(rapl(STEADY), -9.0, **{"rapl:1:package-1": "7"}),
        "stood still",
    ),
    "a counter without its range": (
        [
            replace(r, values={n: v for n, v in r.values.items() if "range" not in n})
            for r in rapl(STEADY)
        ],
        "gone round unseen",
    ),
    "a counter nobody looked at": (
        [
            replace(r, values={n: "4000000" if "range" in n else v for n, v in r.values.items()})
            for r in rapl(STEADY)
        ],
        "gone round unseen in 2 s",
    ),
    "words instead of numbers": (
        changed(current(STEADY), -9.0, battery_current_now="nan", battery_voltage_now="inf"),
        "current is not told",
    ),
    "times that don't rise": ([*current(STEADY), *current(STEADY)], "not numbers at rising times"),
}


def relative(times: float = 1.0) -> list[Reading]:
    """A battery whose charge counts from anywhere, as Linux allows, in so many times µAh."""
    return [
        replace(r, values={**r.values, "battery_charge_counter": f"{(uah - 2.1e6) * times:.3f}"})
        for r in charge(STEADY)
        for uah in [float(r.values["battery_charge_counter"])]
    ]


def test_a_charge_that_counts_from_anywhere_is_known_if_it_is_of_a_phone() -> None:
    absolute, told = (energy_of(one, RUN, None, 60) for one in (charge(STEADY), relative()))
    known = told.metrics["energy_gross"].value
    assert known == pytest.approx(absolute.metrics["energy_gross"].value, rel=1e-3)
    assert "is not in µAh" in str(energy_of(relative(1e-3), RUN, None, 60).facts["energy_unknown"])


def test_a_status_in_every_second_round_is_enough_though_the_last_was_cut_off() -> None:
    readings = current(STEADY)
    last = len(readings) - 1
    told = [
        without_status(r) if number % 2 or number == last else r
        for number, r in enumerate(readings)
    ]
    assert "energy_gross" in energy_of(told, RUN, None, 60).metrics


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_known_is_unknown_and_says_why(name: str) -> None:
    readings, why = UNKNOWN[name]
    told = energy_of(readings, RUN, None, 60)
    assert told.metrics == {}
    assert re.search(why, str(told.facts["energy_unknown"])), told.facts


def test_a_missed_look_or_two_leave_it_known_and_less_sure() -> None:
    whole = of_current(current(WAVING), RUN).joules
    holed = of_current(without(current(WAVING), 20, 25), RUN).joules
    assert holed.value == pytest.approx(whole.value, rel=0.01)
    assert holed.uncertainty > whole.uncertainty


def test_a_current_that_tells_nothing_leaves_it_to_the_charge() -> None:
    silent = changed(charge(RISING), -9.0, battery_current_now="0")
    told = energy_of(silent, RUN, None, 60)
    assert told.facts["energy_source"] == "battery charge"
    assert told.metrics["energy_gross"].value == pytest.approx(RISING.over(RUN) / 60, rel=0.01)


def test_run_and_rest_are_told_by_one_source() -> None:
    """The current is silent during the rest; the charge tells of both."""
    told_of = zip(charge(RISING), current(STEADY), strict=True)
    readings = [
        replace(r, values={**(c.values if r.at_s > 10 else {}), **r.values}) for r, c in told_of
    ]
    rest, run = Span(-4.0, 9.0), Span(12.0, 60.0)
    assert energy_of(readings, run, None, 48).facts["energy_source"] == "battery current"
    told = energy_of(readings, run, rest, 48)
    assert told.facts["energy_source"] == "battery charge"
    idle_watts = RISING.over(rest) / rest.seconds
    exact = (RISING.over(run) - idle_watts * run.seconds) / 48
    uncertainty = told.facts["energy_uncertainty"]
    assert isinstance(uncertainty, float)
    assert told.metrics["energy"].value == pytest.approx(exact, rel=uncertainty)


def known(joules: float, unsure: float = 0.1, seconds: float = 10.0) -> Used:
    return Used(Joules(joules, unsure), seconds, "s")


def unknown(why: str) -> Callable[[], Used]:
    def raises() -> Used:
        raise EnergyUnknownError(why)

    return raises


def test_a_result_has_energy_with_and_without_what_idling_takes() -> None:
    told = account(lambda: known(50.0), lambda: known(4.0, 0.04, 4.0), 20, Unit.JOULES_PER_QUERY)
    assert told.metrics["energy_gross"].value == pytest.approx(50 / 20)
    assert told.metrics["energy"].value == pytest.approx((50 - 10) / 20)
    assert {m.unit for m in told.metrics.values()} == {Unit.JOULES_PER_QUERY}
    assert told.facts == {
        "energy_source": "s",
        "energy_gross_uncertainty": pytest.approx(0.1 / 50),
        "energy_uncertainty": pytest.approx(math.hypot(0.1, 0.1) / 40),
        "idle_watts": 1.0,
        "rested_s": 4.0,
    }


@pytest.mark.parametrize(
    ("during", "rest", "count", "names", "why"),
    [
        (unknown("no counter"), lambda: known(1), 9, set(), "no counter"),
        (
            lambda: known(50),
            unknown("not measured"),
            9,
            {"energy_gross"},
            "idle power: not",
        ),
        (lambda: known(5), lambda: known(5.1), 9, {"energy_gross"}, "idle power: -0.1 J"),
        (lambda: known(5), lambda: known(4), 9, {"energy_gross"}, "idle power: its"),
        (lambda: known(50), lambda: known(1), 0, set(), "nothing was counted"),
    ],
)
def test_what_is_not_known_of_a_result_is_left_out_and_never_zero(
    during: Callable[[], Used], rest: Callable[[], Used], count: int, names: set[str], why: str
) -> None:
    told = account(during, rest, count, Unit.JOULES_PER_STEP)
    assert told.metrics.keys() == names
    assert str(told.facts["energy_unknown"]).startswith(why)
