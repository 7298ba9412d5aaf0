from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from controller.contracts.result import Blame, Validity
from controller.contracts.run import WAITING_S
from controller.metrics import names
from controller.metrics.farm_metrics import FarmMetrics
from controller.metrics.observer import ENDINGS, Observer
from tests.support import builders, store_examples
from tests.support.exposition import counted
from tests.support.farm import TTL_S, FarmBox


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def box(tmp_path: Path, observer: Observer) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.observe = observer.observe
    box.farm.register(builders.registration())
    yield box
    box.close()


def samples(observer: Observer, metric: names.Metric) -> list[Sample]:
    family = metric.name.removesuffix("_total")
    return [
        s for found in counted(observer.registry) if found.name == family for s in found.samples
    ]


def endings(observer: Observer) -> dict[tuple[str, str], float]:
    """Return how many attempts ended in each way that occurred."""
    return {
        (s.labels["outcome"], s.labels["blame"]): s.value
        for s in samples(observer, names.RUNS)
        if s.value
    }


def test_every_ending_is_exported_before_it_occurs(observer: Observer) -> None:
    found = samples(observer, names.RUNS)
    assert {(s.labels["outcome"], s.labels["blame"]) for s in found} == set(ENDINGS)
    assert {s.value for s in found} == {0.0}


def test_attempts_are_counted_by_how_they_ended(box: FarmBox, observer: Observer) -> None:
    box.submit(builders.sweep(repeats=2))
    (job,) = box.ask().run
    box.report(job.ref, builders.failure(Blame.DEVICE))
    (job,) = box.ask().run
    box.report(job.ref, builders.result())
    (job,) = box.ask().run
    reasons = {"validity": Validity.INVALID, "reasons": ("too few queries",)}
    box.report(job.ref, builders.result().model_copy(update=reasons))
    assert endings(observer) == {
        ("failed", "device"): 1,
        ("valid", "none"): 1,
        ("invalid", "none"): 1,
    }


def test_a_lost_attempt_is_counted_once_though_its_result_comes_late(
    box: FarmBox, observer: Observer
) -> None:
    box.submit(builders.sweep())
    (job,) = box.ask().run
    box.wait(TTL_S)
    box.report(job.ref, builders.result())
    assert endings(observer) == {("lost", "harness"): 1}


def test_a_cancelled_attempt_is_counted_and_a_cancelled_wait_is_not(
    box: FarmBox, observer: Observer
) -> None:
    submission = box.submit(builders.sweep(repeats=3))
    box.cancel(submission.sweep_id)
    assert endings(observer) == {("cancelled", "none"): 1}


def test_a_duration_has_an_exemplar_that_names_its_run(box: FarmBox, observer: Observer) -> None:
    box.submit(builders.sweep())
    (job,) = box.ask().run
    box.clock.now += 7
    box.report(job.ref, builders.result())
    found = samples(observer, names.RUN_SECONDS)
    labels = {"workload": "resnet", "stack": "torch", "scenario": "training"}
    assert [s.value for s in found if s.name.endswith("_sum")] == [7.0]
    (sample,) = [s for s in found if s.exemplar]
    assert sample.labels == labels | {"le": "10.0"}
    assert sample.exemplar
    assert sample.exemplar.labels == {"run_id": job.ref.run_id}
    assert sample.exemplar.value == 7.0


@pytest.mark.parametrize(("years", "bound"), [(40, 1800.0 + WAITING_S), (-40, 0.0)])
def test_a_duration_is_no_longer_than_a_run_may_take_where_the_clock_was_set(
    observer: Observer, years: int, bound: float
) -> None:
    """One such run made the sum, and every mean of it, wrong until the next start."""
    (run, *_) = store_examples.runs_for(store_examples.sweep_record())
    assert run.deadline_s == 1800.0
    leased = store_examples.grant(run)
    ended_at = leased.run.attempts[0].leased_at + years * 365 * 86_400.0
    ended = store_examples.report(leased.run, store_examples.result(), now=ended_at)
    observer.observe(leased.run, ended)
    found = samples(observer, names.RUN_SECONDS)
    assert [s.value for s in found if s.name.endswith("_sum")] == [bound]


def test_a_duration_is_exported_before_its_first_run_has_ended(
    box: FarmBox, observer: Observer
) -> None:
    """Prometheus sees no increase in a series that begins with its first observation."""
    box.submit(builders.sweep(repeats=2))  # one starts at once, the other waits
    observer.expect(box.farm.state().open_runs)
    found = samples(observer, names.RUN_SECONDS)
    labels = {"workload": "resnet", "stack": "torch", "scenario": "training"}
    assert [(s.labels, s.value) for s in found if s.name.endswith("_count")] == [(labels, 0.0)]
    (job,) = box.ask().run
    box.clock.now += 7
    box.report(job.ref, builders.result())
    observer.expect(box.farm.state().open_runs)
    found = samples(observer, names.RUN_SECONDS)
    assert [s.value for s in found if s.name.endswith("_count")] == [1.0]


def test_a_scrape_expects_what_waits(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=2))
    exposed = FarmMetrics(builders.catalog(), []).expose(box.farm.state()).counted
    labels = {"workload": "resnet", "stack": "torch", "scenario": "training"}
    assert exposed.get_sample_value(f"{names.RUN_SECONDS}_count", labels) == 0.0


def test_dispatch_is_the_wait_of_each_attempt(box: FarmBox, observer: Observer) -> None:
    box.submit(builders.sweep(repeats=2))  # one starts at once
    box.clock.now += 20
    (job,) = box.ask().run
    box.report(job.ref, builders.result())  # now the other
    found = samples(observer, names.DISPATCH_SECONDS)
    assert [s.value for s in found if s.name.endswith("_count")] == [2.0]
    assert [s.value for s in found if s.name.endswith("_sum")] == [20.0]


def test_nothing_is_exported_beside_what_is_named(observer: Observer) -> None:
    known = {name for metric in names.all_metrics() for name in metric.series_names}
    found = {s.name for f in counted(observer.registry) for s in f.samples}
    assert found <= known
