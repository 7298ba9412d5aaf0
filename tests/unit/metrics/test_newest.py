from __future__ import annotations

from unittest.mock import Mock

import pytest

from controller.contracts.base import Scalar
from controller.contracts.capability import Capability, Verdict
from controller.contracts.profile import ProfileSummary
from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Outcome, Validity
from controller.contracts.run import Run, RunChange
from controller.contracts.sweep import PairedCandidate
from controller.contracts.units import Unit
from controller.contracts.work import work_of
from controller.metrics.newest import (
    Newest,
    NewestCapabilities,
    NewestResults,
    ResultKey,
    newest_of,
)
from controller.stats.medians import median_of_runs
from tests.support import builders, store_examples

CATALOG = builders.catalog()
KNOBS: dict[str, Scalar] = {"num_classes": 264}
WORK = work_of(CATALOG, "retinanet", "training", "eager", KNOBS)
KEY = ResultKey("host-1", "retinanet", "eager", "training", "fp32", WORK.key)


def newest(value: float, validity: Validity = Validity.VALID, **changes: object) -> NewestResult:
    said: dict[str, object] = {
        "device": KEY.device,
        "sweep_id": "demo-1",
        "cell_key": "c",
        "workload": KEY.workload,
        "stack": KEY.stack,
        "scenario": KEY.scenario,
        "knobs": {"precision": "fp32", **KNOBS},
        "validity": validity,
        "recorded_at": 2000.0,
        "metrics": {"step_time": Measurement(value=value, unit=Unit.SECONDS)},
        "ranked": (value,),
    }
    return NewestResult.model_validate(said | changes)


def values(found: Newest) -> tuple[float, ...]:
    return tuple(repeat.values["step_time"] for repeat in found.repeats)


def fold(*results: NewestResult) -> NewestResults:
    return NewestResults(CATALOG, results)


@pytest.mark.parametrize("validity", [Validity.INVALID, Validity.DISTURBED])
def test_the_newest_valid_result_stays_when_another_comes(validity: Validity) -> None:
    results = fold(newest(1.0), newest(2.0))
    results.add(newest(3.0, validity))
    found = results.snapshot()[KEY]
    assert found.valid == newest(2.0)
    assert found.latest == newest(3.0, validity)


@pytest.mark.parametrize("validity", [it for it in Validity if it is not Validity.VALID])
def test_what_was_never_valid_has_no_valid_result(validity: Validity) -> None:
    assert fold(newest(1.0, validity)).snapshot()[KEY].valid is None


def test_results_are_told_apart_by_precision() -> None:
    knobs: tuple[dict[str, Scalar], ...] = ({"precision": "fp32"}, {"precision": "bf16"}, {})
    results = fold(*(newest(1.0, knobs=given) for given in knobs))
    assert [key.precision for key in results.snapshot()] == ["fp32", "bf16", "default"]
    assert len({key.work for key in results.snapshot()}) == 1, "it is the same work"


def test_unlike_work_replaces_nothing() -> None:
    small = newest(0.1, knobs={"precision": "fp32", "num_classes": 8})
    found = fold(newest(2.0), small).snapshot()
    assert [it.valid for it in found.values()] == [newest(2.0), small]


def test_a_profiled_run_replaces_no_result_and_is_none() -> None:
    profile = ProfileSummary(steps=5)
    watched = newest(9.0, profiled=True, profile=profile)
    found = fold(newest(2.0), watched).snapshot()[KEY]
    assert (found.valid, found.latest, values(found)) == (newest(2.0), newest(2.0), (2.0,))
    assert found.profiled == watched
    alone = fold(watched, newest(8.0, Validity.INVALID, profiled=True)).snapshot()[KEY]
    assert (alone.valid, alone.latest, alone.profiled) == (None, None, watched)


def test_repeats_are_the_valid_ones_of_one_cell_in_one_sweep() -> None:
    """Two cells of one key take turns, as the runs of a sweep do."""
    results = fold(
        newest(9.0, sweep_id="demo-0"),
        newest(1.0),
        newest(5.0, cell_key="other"),
        newest(7.0, Validity.INVALID),
        newest(7.5, profiled=True),
        newest(1.1),
        newest(5.1, cell_key="other"),
        newest(1.2),
    )
    assert values(results.snapshot()[KEY]) == (1.0, 1.1, 1.2)


def test_an_accuracy_run_takes_no_speed_away() -> None:
    """The figure that ranks, and all ratios to it, went until the next run with a speed."""
    accuracy = {
        name: Measurement(value=value, unit=unit)
        for name, value, unit in (("top1", 0.7, Unit.FRACTION), ("peak_memory", 9.0, Unit.BYTES))
    }
    memory = Measurement(value=5.0, unit=Unit.BYTES)
    fast = newest(1.0, metrics={**newest(1.0).metrics, "peak_memory": memory})
    scored = newest(0.0, cell_key="scored", metrics=accuracy, ranked=())
    told = {"step_time": 1.0, "peak_memory": 5.0, "top1": 0.7}
    for order in ((fast, scored), (scored, fast)):
        found = fold(*order).snapshot()[KEY]
        assert (found.valid, found.latest) == (fast, order[1])
        assert dict(found.medians) == told
        assert found.ranked
        assert found.ranked.median == 1.0
    alone = fold(scored).snapshot()[KEY]
    assert (alone.valid, alone.ranked) == (scored, None)
    assert dict(alone.medians) == {"peak_memory": 9.0, "top1": 0.7}


def test_an_interval_is_computed_once_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(wraps=median_of_runs)
    monkeypatch.setattr("controller.metrics.newest.median_of_runs", counted)
    results = fold(newest(1.0), newest(1.1))
    for values_of, calls in (((1.0, 1.1), 1), ((1.0, 1.1, 1.2), 2)):
        for _ in range(3):  # the figure, its interval, another scrape
            told = results.snapshot()[KEY].ranked
            assert told == median_of_runs([(value,) for value in values_of])
        assert counted.call_count == calls
        results.add(newest(1.2))


def test_a_snapshot_does_not_change() -> None:
    results = fold(newest(1.0))
    before = results.snapshot()
    results.add(newest(2.0))
    assert before[KEY].latest == newest(1.0)


def test_a_result_of_a_run_keeps_the_samples_of_the_metric_that_ranks_it_only() -> None:
    change = _reported(store_examples.result(0.25))
    assert change.record
    found = newest_of(change.run, change.record, CATALOG)
    assert found
    assert (found.device, found.workload, found.stack, found.scenario) == KEY[:4]
    assert found.precision is None, "its cell has no such knob"
    assert found.recorded_at == change.record.recorded_at
    assert {name: (m.value, m.samples) for name, m in found.metrics.items()} == {
        "step_time": (0.25, ()),
        "throughput": (8.0, ()),
    }
    assert found.ranked == (0.25, 0.35, 0.1)


def test_a_failure_and_a_late_result_add_nothing() -> None:
    failed = _reported(store_examples.failure())
    assert failed.record
    assert newest_of(failed.run, failed.record, CATALOG) is None

    late = store_examples.report(store_examples.lose(_leased()).run, store_examples.result())
    assert late.record
    assert not late.record.counted
    assert newest_of(late.run, late.record, CATALOG) is None


def test_a_run_that_was_profiled_says_so() -> None:
    change = _reported(store_examples.result(0.25))
    assert change.record
    plain = newest_of(change.run, change.record, CATALOG)
    cell = change.run.cell.model_copy(update={"profiled": True})
    watched = newest_of(change.run.model_copy(update={"cell": cell}), change.record, CATALOG)
    assert plain
    assert watched
    assert (plain.profiled, watched.profiled) == (False, True)


def test_a_paired_comparison_adds_nothing() -> None:
    change = _reported(store_examples.result(0.25))
    assert change.record
    versus = PairedCandidate(stack="ipex")
    cell = change.run.cell.model_copy(update={"versus": versus})
    assert newest_of(change.run.model_copy(update={"cell": cell}), change.record, CATALOG) is None


@pytest.mark.parametrize("times", [(1000.0, 2000.0), (1000.0, 1000.0), (9e9, 2000.0)])
def test_the_newest_capability_is_the_last_whatever_the_clock_said(
    times: tuple[float, float],
) -> None:
    """A head whose clock was ahead had its first outcome shown for ever."""
    works, fails = (
        Capability(
            device="phone-1",
            build="x/1",
            workload="edsr",
            stack="litert",
            delegate="gpu",
            numerics="fp32",
            verdict=verdict,
            why="",
            at=at,
            run_id="r",
        )
        for at, verdict in zip(times, (Verdict.WORKS, Verdict.FAILS), strict=True)
    )
    found = NewestCapabilities([works])
    before = found.snapshot()
    found.add(fails)
    assert list(found.snapshot().values()) == [fails]
    assert list(before.values()) == [works], "a snapshot does not change"


def _leased() -> Run:
    return store_examples.grant(store_examples.runs_for(store_examples.sweep_record())[0]).run


def _reported(outcome: Outcome) -> RunChange:
    return store_examples.report(_leased(), outcome)
