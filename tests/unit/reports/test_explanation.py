"""What made a result differ is found among the noise of all other facts, and nothing without."""

from __future__ import annotations

import random

import pytest

from controller.contracts.device import DeviceKind
from controller.contracts.errors import UserError
from controller.contracts.explanation import Cause, Effect, Explanation, Speed
from controller.contracts.facts import declared_facts
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.explanation.causes import MEASURED, TOLD_BY
from controller.reports.explanation.explaining import earlier_of, explain
from controller.reports.explanation.lines import NOTHING, OTHER_WAY, explanation_lines
from controller.reports.explanation.measured import by_other_cores, by_share_taken
from tests.support.boards import answered
from tests.support.planted_causes import (
    METRIC,
    PLANTS,
    SLOWING,
    Plant,
    beside_decoys,
    drawn_results,
    nothing,
    unrecorded,
)

DRAWS = 100
NEEDED = 95
CASES = [(kind, name) for kind, plants in PLANTS.items() for name in plants]
KINDS = list(DeviceKind)


def _explained(seed: str, kind: DeviceKind, plant: Plant) -> Explanation:
    results = drawn_results(random.Random(seed), kind, plant)
    return explain(results[-1], earlier_of(results[-1], results), METRIC, {})


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_planted_cause_is_first(kind: DeviceKind, name: str) -> None:
    cause, plant = PLANTS[kind][name]
    found = [_explained(f"{name} {draw}", kind, plant) for draw in range(DRAWS)]
    first = [each.causes[0].cause if each.causes else None for each in found]
    assert first.count(cause) >= NEEDED, {other: first.count(other) for other in set(first)}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_claimed_where_nothing_was_planted(kind: DeviceKind) -> None:
    found = [_explained(f"nothing {draw}", kind, nothing) for draw in range(4 * DRAWS)]
    claimed = [each for each in found if each.causes]
    assert len(claimed) <= 4 * (DRAWS - NEEDED), [each.causes for each in claimed]
    shown = [each for each in found if each.speed is not Speed.NOT_SHOWN]
    assert len(shown) <= 0.08 * len(found), "a 95 % interval fails to hold one run in twenty"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_recorded_is_not_ascribed_to_what_is(kind: DeviceKind) -> None:
    found = [_explained(f"unrecorded {draw}", kind, unrecorded) for draw in range(2 * DRAWS)]
    assert sum(each.speed is Speed.SLOWER for each in found) >= 2 * NEEDED
    claimed = [e for e in found if any(cause.effect is not Effect.PART for cause in e.causes)]
    assert len(claimed) <= 2 * (DRAWS - NEEDED), [each.causes for each in claimed]


IRRELEVANT = {
    "hostname",
    "shell_v2",
    "max_duration_ms",
    "dataset_origin",
    "samples_wanted",
    "memory_before_samples_bytes",
    "ended_at_longest",
    "quality_target",
    "quality_target_unknown",
    "own_quality_target",
    "audit",  # its knob makes it another cell
    "audit_salt",
    "audit_scored",
    "audit_validity",
    "hosts",  # their number makes it another cell, and they are alike
    "host_devices",
}
"""Facts of identity and settings that make no run faster or slower."""


def test_every_fact_of_identity_and_setting_tells_a_cause_or_is_known_not_to() -> None:
    told = {name for names in (*TOLD_BY.values(), *MEASURED.values()) for name in names}
    declared = {fact.name: fact for fact in declared_facts()}
    assert told <= declared.keys()
    lasting = {name for name, fact in declared.items() if fact.kind != "condition"}
    assert lasting - told == IRRELEVANT - told


def _pair(
    now: Environment, seconds: float = 1.5, before: int = 4, was: Environment | None = None
) -> Explanation:
    base: Environment = {"packages": ("a==1", "b==1"), "threads": 4, "kernel": "6.1"}
    base |= was or {}
    runs = drawn_results(random.Random(5), DeviceKind.CPU_HOST, nothing, (before, before))
    made = [
        run.model_copy(
            update={
                "environment": base | (now if last else {}),
                "metrics": {METRIC: Measurement(value=value, unit=Unit.SECONDS)},
            }
        )
        for run, value, last in zip(
            runs,
            (*(1 + 0.01 * (n % 2) for n in range(before)), seconds),
            (*[False] * before, True),
            strict=True,
        )
    ]
    return explain(made[-1], earlier_of(made[-1], made), METRIC, {})


def _lines(found: Explanation) -> list[str]:
    return list(explanation_lines(found))


def test_the_first_line_says_how_much_in_words() -> None:
    slower, faster = _pair({"kernel": "6.2"}), _pair({"kernel": "6.2"}, 0.5)
    same, alone = _pair({"kernel": "6.2"}, 1.005), _pair({"kernel": "6.2"}, before=1)
    assert _lines(slower)[0] == "1.50× slower than the 3 runs before, 95 % [1.45, 1.54]"
    assert _lines(faster)[0] == "2.01× faster than the 3 runs before, 95 % [1.95, 2.06]"
    assert _lines(same)[0].startswith("no difference is shown: 1.00× slower than the 3 runs before")
    wanted = "1.50× slower than the run before; one run has no interval: measure it again"
    assert _lines(alone)[0] == wanted
    assert [c.cause for c in alone.causes] == [Cause.KERNEL]


def test_evidence_is_shown_before_and_now() -> None:
    text = "\n".join(_lines(_pair({"kernel": "6.2", "packages": ("a==2", "b==1")})))
    assert "    kernel: 6.1 → 6.2" in text
    assert "    packages: a==1 → a==2" in text
    assert "changed together, so nothing recorded tells them apart: other versions, other" in text
    assert NOTHING not in text


def test_without_a_difference_changes_are_shown_and_nothing_is_claimed() -> None:
    found = _pair({"kernel": "6.2"}, 1.005)
    assert (found.speed, found.causes) == (Speed.NOT_SHOWN, ())
    assert [change.fact for change in found.changed] == ["kernel"]
    assert "changed, with no effect that is shown:" in _lines(found)


def test_nothing_recorded_is_said() -> None:
    found = _pair({})
    assert found.speed is Speed.SLOWER
    assert NOTHING in _lines(found)
    assert set(found.not_recorded) == {"model_sha256", "bundle", "benchfarm", "delegate"}


def test_physics_bounds_what_a_cause_may_do() -> None:
    found = _pair({"threads": 2})
    (threads,) = found.causes
    assert (threads.cause, threads.at_most) == (Cause.THREADS, 2.0)
    assert by_other_cores(0.0, 0.3) == pytest.approx(1 / 0.7)
    assert [by_other_cores(0.0, cores) for cores in (0.5, 1.0, 3.0)] == [2.0, 2.0, 4.0]
    assert by_share_taken(0.0, 0.5) == 2.0


def test_what_can_only_be_a_part_of_it_comes_last_and_says_so() -> None:
    clock = "frequency_policy7_khz_during_mean"
    found = _explained_clock(clock)
    assert [c.effect for c in found.causes] == [Effect.UNKNOWN, Effect.PART]
    assert [c.cause for c in found.causes] == [Cause.KERNEL, Cause.CLOCK]
    assert found.causes[1].at_most == pytest.approx(1 / 0.9)
    text = "\n".join(_lines(found))
    assert "may make it up to 1.11× slower, a part of it" in text


def _explained_clock(clock: str) -> Explanation:
    runs = drawn_results(random.Random(5), DeviceKind.CPU_HOST, nothing, (4, 4))
    made = []
    for run, seconds in zip(runs, (1.0, 1.01, 1.0, 1.01, 1.5), strict=True):
        last = seconds == 1.5
        khz, kernel = (1_800_000, "6.2") if last else (2_000_000, "6.1")
        metrics = {METRIC: Measurement(value=seconds, unit=Unit.SECONDS)}
        facts = {clock: khz, "kernel": kernel}
        made.append(run.model_copy(update={"environment": facts, "metrics": metrics}))
    return explain(made[-1], earlier_of(made[-1], made), METRIC, {})


def _named(result: StoredResult, **changes: object) -> StoredResult:
    return result.model_copy(update=changes)


def test_what_is_compared_with() -> None:
    runs = drawn_results(random.Random(5), DeviceKind.CPU_HOST, nothing, (9, 9))
    assert [r.sweep_id for r in runs] == [f"nightly-{n}" for n in (0, 0, 0, 1, 1, 1, 2, 2, 2, 3)]
    assert earlier_of(runs[-1], runs) == runs[:-1]
    assert earlier_of(runs[8], runs) == runs[:6], "earlier sweeps go before its own repeats"
    assert earlier_of(runs[2], runs) == runs[:2], "unless there is none"
    assert earlier_of(runs[0], runs, "nightly-1") == runs[3:6]
    disturbed = [_named(r, validity=Validity.DISTURBED, reasons=("loud",)) for r in runs[:3]]
    assert earlier_of(runs[-1], [*disturbed, *runs[3:]]) == runs[3:-1]
    late = [_named(runs[0], counted=False), _named(runs[1], device="cpu-2")]
    other = [*late, _named(runs[2], cell_key="another"), runs[-1]]
    with pytest.raises(UserError, match="no other result before is VALID or DISTURBED"):
        earlier_of(runs[-1], other)


def test_a_value_that_was_harmless_before_is_no_cause() -> None:
    runs = drawn_results(random.Random(5), DeviceKind.CPU_HOST, nothing, (6, 6))

    def claimed(odd_s: float) -> list[Cause]:
        made = []
        for run, seconds in zip(runs, (1.0, 1.01, odd_s, 1.0, 1.01, 1.0, 2.5), strict=True):
            facts = {"kernel": "6.2" if seconds in (odd_s, 2.5) else "6.1"}
            metrics = {METRIC: Measurement(value=seconds, unit=Unit.SECONDS)}
            made.append(run.model_copy(update={"environment": facts, "metrics": metrics}))
        found = explain(made[-1], earlier_of(made[-1], made), METRIC, {})
        assert found.speed is Speed.SLOWER
        return [cause.cause for cause in found.causes]

    assert claimed(1.02) == []
    assert claimed(1.3) == []
    assert claimed(1.75) == [Cause.KERNEL]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (
            {"battery_celsius_during_max": 31.0},
            {"battery_celsius_during_max": 31.0, "celsius_cpu7_during_max": 62.0},
        ),
        (
            {
                "frequency_policy0_khz_during_mean": 1_800_000.0,
                "frequency_policy7_khz_during_mean": 2_850_000.0,
            },
            {"frequency_policy0_khz_during_mean": 1_800_000.0},
        ),
        ({"steal_share": 0.0}, {"steal_share": 0.0, "timed_steal_share": 0.3}),
    ],
)
def test_two_sensors_are_not_compared(before: Environment, now: Environment) -> None:
    speeds = (0.010, 0.0101, 0.0099, 0.01005)
    earlier = [
        answered("a", speed, speed, environment=before, run_id=f"b{n}", started_at=float(n + 1))
        for n, speed in enumerate(speeds)
    ]
    mine = answered("a", 0.016, 0.016, environment=now, run_id="now", started_at=99.0)
    assert NOTHING in explanation_lines(explain(mine, earlier, "latency", {}))


ONE_WAY: list[tuple[Cause, Environment, Environment]] = [
    (Cause.GOVERNOR, {"governor": "performance"}, {"governor": "powersave"}),
    (Cause.GOVERNOR, {"governor": "performance"}, {"governor": "schedutil"}),
    (
        Cause.GOVERNOR,
        {"governor_before": "performance"},
        {"governor_before": "performance sched_pixel"},
    ),
    (Cause.THREADS, {"threads": 8}, {"threads": 2}),
    (Cause.THREADS, {"threads": 8, "cores": 8}, {"threads": 6}),
    (Cause.THREADS, {"affinity": (0, 1, 2, 3)}, {"affinity": (0, 1)}),
    (Cause.POWER, {"screen_before": "Asleep"}, {"screen_before": "Awake"}),
    (Cause.POWER, {"airplane_mode_before": True}, {"airplane_mode_before": False}),
    (Cause.HARDWARE, {"emulated": False}, {"emulated": True}),
]
"""Facts that can only have made a run slower."""


@pytest.mark.parametrize(("cause", "fast", "slow"), ONE_WAY)
def test_a_fact_that_acts_the_other_way_is_no_cause(
    cause: Cause, fast: Environment, slow: Environment
) -> None:
    for was, now, seconds in ((fast, slow, 1.5), (slow, fast, 0.5)):
        (found,) = _pair(now, seconds, was={**fast, **was}).causes
        assert found.cause is cause
    for was, now, seconds in ((fast, slow, 0.5), (slow, fast, 1.5)):
        odd = _pair(now, seconds, was={**fast, **was})
        assert odd.causes == ()
        assert {change.fact for change in odd.changed} == slow.keys()
        text = _lines(odd)
        assert NOTHING in text
        assert OTHER_WAY in text
        assert any(line.startswith(f"    {next(iter(slow))}: ") for line in text)


EITHER_WAY: list[tuple[Cause, Environment, Environment]] = [
    (Cause.GOVERNOR, {"governor": "ondemand"}, {"governor": "schedutil"}),
    (Cause.GOVERNOR, {"governor": "powersave"}, {"governor": "schedutil"}),
    (Cause.THREADS, {"threads": 4, "cores": 4}, {"threads": 16}),
    (Cause.THREADS, {"threads": 2, "affinity": (0, 1), "cores": 8}, {"threads": 4}),
    (Cause.THREADS, {"affinity": (0, 1)}, {"affinity": (0, 9)}),
    (Cause.DELEGATE, {"delegate": "xnnpack"}, {"delegate": "gpu"}),
]


@pytest.mark.parametrize(("cause", "was", "now"), EITHER_WAY)
@pytest.mark.parametrize("seconds", [0.5, 1.5])
def test_a_fact_that_can_act_either_way_is_a_cause(
    cause: Cause, was: Environment, now: Environment, seconds: float
) -> None:
    assert [c.cause for c in _pair(now, seconds, was=was).causes] == [cause]


def test_threads_bound_what_they_do_in_both_directions() -> None:
    for threads, seconds, most in ((2, 1.5, 2.0), (8, 0.6, 2.0), (6, 0.5, 1.5)):
        (found,) = _pair({"threads": threads}, seconds).causes
        assert found.at_most == most
    text = "\n".join(_lines(_pair({"threads": 8}, 0.6)))
    assert "other threads: may make it up to 2.00× faster" in text


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k in KINDS for n in SLOWING])
def test_what_acts_the_other_way_hides_no_planted_cause(kind: DeviceKind, name: str) -> None:
    """The histories are those of `test_a_planted_cause_is_first`."""
    cause, plant = PLANTS[kind][name]
    first = []
    for draw in range(DRAWS):
        alone, beside = (
            [c.cause for c in _explained(f"{name} {draw}", kind, each).causes]
            for each in (plant, beside_decoys(plant))
        )
        assert beside == alone
        first += beside[:1]
    assert first.count(cause) >= NEEDED, {other: first.count(other) for other in set(first)}


@pytest.mark.parametrize("kind", KINDS)
def test_what_acts_the_other_way_is_not_claimed(kind: DeviceKind) -> None:
    plant = beside_decoys(unrecorded)
    found = [_explained(f"decoys {draw}", kind, plant) for draw in range(2 * DRAWS)]
    claimed = [e for e in found if any(cause.effect is not Effect.PART for cause in e.causes)]
    assert len(claimed) <= 2 * (DRAWS - NEEDED), [each.causes for each in claimed]
