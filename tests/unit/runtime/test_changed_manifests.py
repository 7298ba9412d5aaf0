"""Runs of before a change of the manifests, of which no job can be made any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.catalog import Catalog
from controller.contracts.result import Blame
from controller.contracts.run import AttemptState, RunState
from tests.support import builders
from tests.support.farm import FarmBox

DEVICES = (builders.cpu(), builders.phone())


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration(None, *DEVICES))
    yield box
    box.close()


def without_backend() -> Catalog:
    """Return a catalogue in which no workload runs on stack `torch`."""
    known = builders.catalog()
    torch = known.stacks["torch"].model_copy(update={"backend": None})
    return known.model_copy(update={"stacks": {**known.stacks, "torch": torch}})


def with_weights() -> Catalog:
    """Return a catalogue whose `resnet` has weights, but no knob that chooses them."""
    known = builders.catalog()
    resnet = known.workloads["resnet"].model_copy(update={"weights": {}})
    return known.model_copy(update={"workloads": {**known.workloads, "resnet": resnet}})


def change(box: FarmBox, catalog: Catalog) -> None:
    """Start the controller again, with other manifests."""
    box.catalog = catalog
    box.restart()
    box.farm.register(builders.registration(None, *DEVICES))


def test_a_run_that_the_manifests_refuse_fails_and_its_agents_others_go_on(
    box: FarmBox, caplog: pytest.LogCaptureFixture
) -> None:
    box.submit(builders.sweep(name="server"))
    box.submit(builders.sweep(name="phone", stack="litert"))
    assert len(box.ask().run) == 2
    change(box, without_backend())
    (job,) = box.ask().run
    assert job.stack == "litert"
    (failure,) = box.store.failures()
    assert (failure.blame, failure.kind) == (Blame.USER, "job")
    assert "workload resnet does not run on stack torch" in failure.message
    assert box.run(failure.run_id).state is RunState.FAILED
    assert f"run {failure.run_id} fails" in caplog.text
    box.report(job.ref, builders.result())
    assert len(box.store.results()) == 1


def test_those_behind_it_follow_at_once(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=3))
    change(box, without_backend())
    for _ in range(3):
        assert box.ask().run == ()
        assert box.farm.next_tick_in() == 0.0
        box.farm.tick()
    assert [run.state for run in box.store.runs()] == [RunState.FAILED] * 3
    assert box.farm.next_tick_in() > 0.0


def test_one_that_nobody_has_foreseen_is_tried_as_often_as_any_failure(box: FarmBox) -> None:
    box.submit(builders.sweep())
    change(box, with_weights())
    for _ in range(3):
        assert box.ask().run == ()
        box.farm.tick()
    (run,) = box.store.runs()
    assert run.state is RunState.FAILED
    assert [attempt.state for attempt in run.attempts] == [AttemptState.FAILED] * 3
    failures = box.store.failures()
    assert {(failure.blame, failure.kind) for failure in failures} == {(Blame.HARNESS, "job")}
    assert failures[0].message == "the controller cannot make its job: KeyError: 'weights'"
