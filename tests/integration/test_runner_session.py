"""A session under the real LoadGen, with a model small enough to count its calls."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.inference.runner.batched_session import BatchedSession
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.session import (
    TRACED_FROM_S,
    WARM_UP_RUNS,
    WARM_UP_S,
    Session,
    is_traced,
    warm_up,
)
from agents.inference.runner.spec import RunSpec
from controller.contracts.mobile import Top1
from controller.loadgen import logs
from controller.loadgen.trace import read_trace
from models.mobile.metrics import read_answers, score

pytestmark = pytest.mark.integration

DATA = Dataset([np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1) * 10])


class Echo:
    """Names an image by its only pixel; from call `fails_at` on, or when preparing, it fails."""

    def __init__(self, fails_at: int | None = None, prepares: bool = True) -> None:
        self.calls = 0
        self._fails_at, self._prepares = fails_at, prepares

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        if not self._prepares:
            raise ValueError("can't prepare")
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        self.calls += 1
        if self._fails_at is not None and self.calls >= self._fails_at:
            raise ValueError("can't answer")
        return np.array([sample[0].max()], np.int64)


def spec(folder: Path, **changes: object) -> RunSpec:
    given: dict[str, object] = {
        "model": "none",
        "dataset": "none",
        "log_dir": str(folder),
        "scenario": "single_stream",
        "mode": "performance",
        "min_query_count": 64,
        "min_duration_ms": 0,
        "performance_sample_count": 3,
        "threads": 1,
        "delegate": "xnnpack",
        "batch_size": 1,
    }
    return RunSpec.of(given | changes)


def detail(folder: Path) -> logs.DetailLog:
    return logs.DetailLog.parse(logs.read(folder, logs.DETAIL))


@pytest.mark.parametrize("scenario", ["single_stream", "offline"])
def test_every_sample_is_answered_once_and_timed(scenario: str, tmp_path: Path) -> None:
    model = Echo()
    session = Session(model, DATA, spec(tmp_path, scenario=scenario))
    session.run(1e-6)
    assert session.done == model.calls == len(session.latencies_ns) == 64
    assert min(session.latencies_ns) > 0
    assert logs.objections(detail(tmp_path)) == ()


def test_multi_stream_has_queries_of_several_samples(tmp_path: Path) -> None:
    model = Echo()
    settings = {"scenario": "multi_stream", "samples_per_query": 4, "min_query_count": 700}
    session = Session(model, DATA, spec(tmp_path, **settings))
    session.run(1e-6)
    assert session.done == model.calls == 4 * 700
    assert logs.objections(detail(tmp_path)) == ()
    assert set(logs.latency_metrics(detail(tmp_path), "multi_stream")) >= {"latency_p99"}


def test_offline_can_be_answered_in_batches(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Batching(Echo):
        def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
            sizes.append(len(samples))
            return [self.answer(sample) for sample in samples]

    session = BatchedSession(Batching(), DATA, spec(tmp_path, scenario="offline"), 24)
    session.run(1e-6)
    assert sizes == [24, 24, 16]
    assert session.done == len(session.latencies_ns) == 64
    assert logs.objections(detail(tmp_path)) == ()


def test_a_batch_that_fails_ends_the_test_with_its_error(tmp_path: Path) -> None:
    class Failing(Echo):
        def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
            self.calls += 1
            raise ValueError("can't answer together")

    model = Failing()
    with pytest.raises(ValueError, match="together"):
        BatchedSession(model, DATA, spec(tmp_path, scenario="offline"), 24).run(1e-6)
    assert model.calls == 1


def test_server_s_queries_come_by_a_clock_and_not_by_the_answers(tmp_path: Path) -> None:
    settings = {"scenario": "server", "target_qps": 2000.0, "min_query_count": 700}
    session = Session(Echo(), DATA, spec(tmp_path, **settings, target_latency_ms=60_000.0))
    session.run(1e-6)
    log = detail(tmp_path)
    assert session.done >= 700
    assert logs.objections(log) == ()
    # Poisson arrivals: 700 of them keep the rate to some percent. A busy machine is later.
    throughput = logs.throughput(log, "server")
    assert throughput
    assert throughput < 2000 * 1.3


def test_a_server_that_is_too_slow_is_invalid(tmp_path: Path) -> None:
    settings = {"scenario": "server", "target_qps": 2000.0, "min_query_count": 700}
    session = Session(Echo(), DATA, spec(tmp_path, **settings, target_latency_ms=1e-3))
    session.run(1e-6)
    assert logs.objections(detail(tmp_path))


def test_answers_reach_the_accuracy_log_under_their_own_image(tmp_path: Path) -> None:
    Session(Echo(), DATA, spec(tmp_path, mode="accuracy")).run(1e-6)
    answers = read_answers(tmp_path / logs.ACCURACY, 5)
    assert answers.objections == ()
    assert score(Top1(), answers.by_sample, [0, 10, 20, 30, 40])["top1"].value == 1.0
    assert score(Top1(), answers.by_sample, [0, 10, 20, 30, 50])["top1"].value == 0.8


def test_a_minimum_duration_is_kept_by_a_model_far_faster_than_expected(tmp_path: Path) -> None:
    Session(Echo(), DATA, spec(tmp_path, min_duration_ms=200)).run(1e-6)
    log = detail(tmp_path)
    assert logs.objections(log) == ()
    assert logs.duration_s(log, "single_stream") >= 0.2


def test_a_model_that_fails_ends_the_test_with_its_own_error(tmp_path: Path) -> None:
    model = Echo(fails_at=3)
    session = Session(model, DATA, spec(tmp_path))
    with pytest.raises(ValueError, match="can't answer"):
        session.run(1e-6)
    assert model.calls == 3


def test_samples_that_cant_be_prepared_end_the_test_with_their_error(tmp_path: Path) -> None:
    model = Echo(prepares=False)
    with pytest.raises(ValueError, match="can't prepare"):
        Session(model, DATA, spec(tmp_path)).run(1e-6)
    assert model.calls == 0


def test_the_seeds_decide_the_order_of_samples(tmp_path: Path) -> None:
    def order(name: str, seed: int) -> list[int]:
        seen: list[int] = []

        class Noting(Echo):
            def answer(self, sample: Sample) -> NDArray[Any]:
                seen.append(int(sample[0].max()))
                return super().answer(sample)

        folder = tmp_path / name
        folder.mkdir()
        Session(Noting(), DATA, spec(folder, sample_index_rng_seed=seed)).run(1e-6)
        return seen

    assert order("a", 7) == order("b", 7) != order("c", 8)


def test_warming_up_takes_its_time_and_finds_the_fastest_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, took_s = 0.0, itertools.chain([0.3, 0.2, 0.01], itertools.repeat(0.02))

    class Settling(Echo):
        def answer(self, sample: Sample) -> NDArray[Any]:
            nonlocal now
            now += next(took_s)
            return super().answer(sample)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    model = Settling()
    warmth = warm_up(model, DATA[0])
    assert warmth.runs == model.calls == WARM_UP_RUNS
    assert warmth.fastest_s == pytest.approx(0.01)
    assert now > WARM_UP_S


@pytest.mark.parametrize(("expected_s", "traced"), [(TRACED_FROM_S, True), (1e-6, False)])
def test_only_a_slow_model_s_run_is_traced(expected_s: float, traced: bool, tmp_path: Path) -> None:
    Session(Echo(), DATA, spec(tmp_path)).run(expected_s)
    found = read_trace(tmp_path / logs.TRACE)
    assert (found is not None) is traced
    if found:
        log = detail(tmp_path)
        assert found.samples[57] == log["result_90.00_percentile_latency_ns"]


def test_a_server_is_traced_by_the_rate_of_its_queries(tmp_path: Path) -> None:
    rates = {TRACED_FROM_S / 2: False, TRACED_FROM_S: True}
    for apart_s, traced in rates.items():
        server = spec(tmp_path, scenario="server", target_qps=1 / apart_s, target_latency_ms=100.0)
        assert is_traced(server, 1e-6) is traced
    assert not is_traced(spec(tmp_path, mode="accuracy"), 1.0)
