from __future__ import annotations

import pytest

from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Outcome, Validity
from controller.contracts.run import Run, RunChange
from controller.contracts.units import Unit
from controller.metrics.newest import NewestResults, ResultKey, newest_of
from tests.support import store_examples

KEY = ResultKey("host-1", "retinanet", "eager", "training", "fp32")


def newest(
    value: float, validity: Validity = Validity.VALID, precision: str | None = "fp32"
) -> NewestResult:
    return NewestResult(
        device=KEY.device,
        workload=KEY.workload,
        stack=KEY.stack,
        scenario=KEY.scenario,
        precision=precision,
        validity=validity,
        recorded_at=2000.0,
        metrics={"step_time": Measurement(value=value, unit=Unit.SECONDS)},
    )


@pytest.mark.parametrize("validity", [Validity.INVALID, Validity.DISTURBED])
def test_the_newest_valid_result_stays_when_another_comes(validity: Validity) -> None:
    results = NewestResults([newest(1.0), newest(2.0)])
    results.add(newest(3.0, validity))
    found = results.snapshot()[KEY]
    assert found.valid == newest(2.0)
    assert found.latest == newest(3.0, validity)


@pytest.mark.parametrize("validity", [Validity.INVALID, Validity.DISTURBED])
def test_what_was_never_valid_has_no_valid_result(validity: Validity) -> None:
    results = NewestResults([newest(1.0, validity)])
    assert results.snapshot()[KEY].valid is None


def test_results_are_told_apart_by_precision() -> None:
    results = NewestResults([newest(1.0), newest(2.0, precision="bf16"), newest(3, precision=None)])
    assert [key.precision for key in results.snapshot()] == ["fp32", "bf16", "default"]


def test_a_snapshot_does_not_change() -> None:
    results = NewestResults([newest(1.0)])
    before = results.snapshot()
    results.add(newest(2.0))
    assert before[KEY].latest == newest(1.0)


def test_a_result_of_a_run_loses_its_samples() -> None:
    change = _reported(store_examples.result(0.25))
    assert change.record
    found = newest_of(change.run, change.record)
    assert found
    assert (found.device, found.workload, found.stack, found.scenario) == KEY[:4]
    assert found.precision is None, "its cell has no such knob"
    assert found.recorded_at == change.record.recorded_at
    assert {name: (m.value, m.samples) for name, m in found.metrics.items()} == {
        "step_time": (0.25, ()),
        "throughput": (8.0, ()),
    }


def test_a_failure_and_a_late_result_add_nothing() -> None:
    failed = _reported(store_examples.failure())
    assert failed.record
    assert newest_of(failed.run, failed.record) is None

    late = store_examples.report(store_examples.lose(_leased()).run, store_examples.result())
    assert late.record
    assert not late.record.counted
    assert newest_of(late.run, late.record) is None


def _leased() -> Run:
    return store_examples.grant(store_examples.runs_for(store_examples.sweep_record())[0]).run


def _reported(outcome: Outcome) -> RunChange:
    return store_examples.report(_leased(), outcome)
