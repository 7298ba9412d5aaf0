"""One LoadGen test: LoadGen issues the queries, keeps the clock and decides on validity."""

from __future__ import annotations

import array
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import mlperf_loadgen as loadgen
import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.spec import RunSpec

_NO_ANSWER: Final = np.zeros(0, np.uint8)
WARM_UP_RUNS: Final = 8
WARM_UP_S: Final = 0.5
"""Warming up lasts until both are reached; for a model of 10 s a run, that is eight runs."""
TRACED_FROM_S: Final = 0.01
"""Seconds from sample to sample from which a run is traced, see `is_traced`."""


class System(Protocol):
    """The system that a session measures."""

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """Return a sample's tensors; called while LoadGen loads samples, before its clock."""
        ...

    def answer(self, sample: Sample) -> NDArray[Any]:
        """Return a sample's answer, contiguous; called once a sample, inside LoadGen's clock."""
        ...


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What the untimed runs before the test showed."""

    runs: int
    fastest_s: float


def warm_up(model: System, sample: Sample) -> WarmUp:
    """Run a model until its caches, threads and clocks have settled."""
    fastest, runs, started = float("inf"), 0, time.perf_counter()
    while runs < WARM_UP_RUNS or time.perf_counter() - started < WARM_UP_S:
        before = time.perf_counter()
        model.answer(sample)
        fastest = min(fastest, time.perf_counter() - before)
        runs += 1
    return WarmUp(runs, fastest)


class Session:
    """The system under test and the query sample library of one test (LoadGen's SUT and QSL)."""

    def __init__(self, model: System, dataset: Dataset, spec: RunSpec) -> None:
        self.done = 0
        """Samples answered so far; read by another thread."""
        self.latencies_ns = array.array("q")
        """Seconds per sample inside this system, by its own clock; LoadGen adds its dispatch (~1
        µs)."""
        self._model, self._dataset, self._spec = model, dataset, spec
        self._loaded: dict[int, Sample] = {}
        self._fault: Exception | None = None
        self.started_at: float | None = None
        """When the first query came, by the device's uptime."""

    def run(self, expected_latency_s: float) -> None:
        """Run the test to its end; raises whatever the model raised in it.

        LoadGen creates the queries of a single_stream test in advance, and ends the test early if
        they run out. The expected latency is half the fastest one seen, to leave room for a model
        that gets faster.
        """
        settings = loadgen_settings(self._spec)
        expected_ns = max(1, int(expected_latency_s * 1e9 / 2))
        settings.single_stream_expected_latency_ns = expected_ns
        if self._spec.scenario == "multi_stream":
            settings.multi_stream_expected_latency_ns = expected_ns * self._spec.samples_per_query
        total = len(self._dataset)
        held = min(self._spec.performance_sample_count, total)
        traced = is_traced(self._spec, expected_latency_s)
        library = loadgen.ConstructQSL(total, held, self._load, self._unload)
        with self._issuing() as issue:
            system = loadgen.ConstructSUT(issue, _flush)
            try:
                logged = log_settings(self._spec.log_dir, traced=traced)
                loadgen.StartTestWithLogSettings(system, library, settings, logged, "")
            finally:
                loadgen.DestroyQSL(library)
                loadgen.DestroySUT(system)
        if self._fault is not None:
            raise self._fault

    @property
    def audit_ns(self) -> array.array[int]:
        """The time of each full batch of an audit's run, a sample, in order; else none."""
        return array.array("q")

    def facts(self) -> Mapping[str, object]:
        """Return what it adds to a result's environment."""
        return {}

    def _load(self, indices: list[int]) -> None:
        try:
            for index in indices:
                self._loaded[index] = self._model.prepare(self._dataset[index])
        except Exception as error:  # noqa: BLE001 - LoadGen aborts if one crosses it; run() raises
            self._fault = error

    def _unload(self, indices: list[int]) -> None:
        for index in indices:
            self._loaded.pop(index, None)

    @contextmanager
    def _issuing(self) -> Iterator[Any]:
        """Yield the function that LoadGen calls with queries; for server, it returns at once."""
        if self._spec.scenario != "server":
            yield self._issue
            return
        waiting: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()

        def answer_in_turn() -> None:
            while queries := waiting.get():
                self._issue(queries)

        worker = threading.Thread(target=answer_in_turn)
        worker.start()
        try:
            yield waiting.put
        finally:
            waiting.put(None)
            worker.join()

    def _issue(self, queries: list[Any]) -> None:
        """Answer queries one by one: the measured path, the same in every scenario and mode."""
        if self.started_at is None:
            self.started_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        clock = time.perf_counter_ns
        for query in queries:
            started = clock()
            answer = _NO_ANSWER
            try:
                if self._fault is None:
                    answer = self._model.answer(self._loaded[query.index])
            except Exception as error:  # noqa: BLE001 - as in _load; what is left is not run
                self._fault = error
            # LoadGen copies an answer before it returns, in accuracy mode only.
            response = loadgen.QuerySampleResponse(query.id, answer.ctypes.data, answer.nbytes)
            loadgen.QuerySamplesComplete([response])
            self.latencies_ns.append(clock() - started)
            self.done += 1


def loadgen_settings(spec: RunSpec) -> Any:  # noqa: ANN401 - loadgen.TestSettings is untyped
    """Return LoadGen's settings for a spec."""
    settings = loadgen.TestSettings()
    settings.scenario = {
        "single_stream": loadgen.TestScenario.SingleStream,
        "multi_stream": loadgen.TestScenario.MultiStream,
        "offline": loadgen.TestScenario.Offline,
        "server": loadgen.TestScenario.Server,
    }[spec.scenario]
    settings.mode = {
        "performance": loadgen.TestMode.PerformanceOnly,
        "accuracy": loadgen.TestMode.AccuracyOnly,
    }[spec.mode]
    settings.min_query_count = spec.min_query_count
    settings.min_duration_ms = spec.min_duration_ms
    settings.max_duration_ms = spec.max_duration_ms
    settings.offline_expected_qps = spec.offline_expected_qps
    if spec.scenario == "multi_stream":
        settings.multi_stream_samples_per_query = spec.samples_per_query
    if spec.scenario == "server":
        settings.server_target_qps = spec.target_qps
        settings.server_target_latency_ns = int(spec.target_latency_ms * 1e6)
    settings.qsl_rng_seed = spec.qsl_rng_seed
    settings.sample_index_rng_seed = spec.sample_index_rng_seed
    settings.schedule_rng_seed = spec.schedule_rng_seed
    return settings


def is_traced(spec: RunSpec, expected_latency_s: float) -> bool:
    """Return whether LoadGen writes the latency of each sample, from which all can be worked out.

    It takes LoadGen's own thread 6 µs of CPU time a sample, and 650 bytes, while the model runs: of
    slow models alone, less than a thousandth of one core.
    """
    apart_s = 1 / spec.target_qps if spec.scenario == "server" else expected_latency_s
    return spec.mode == "performance" and apart_s >= TRACED_FROM_S


def log_settings(folder: str, *, traced: bool) -> Any:  # noqa: ANN401 - LogSettings is untyped
    """Return settings that write LoadGen's logs only to a folder."""
    output = loadgen.LogOutputSettings()
    output.outdir = folder
    output.copy_summary_to_stdout = False
    settings = loadgen.LogSettings()
    settings.log_output = output
    settings.log_mode = loadgen.LoggingMode.EndOfTestOnly  # during the test, only the trace is
    settings.enable_trace = traced
    return settings


def expected_samples(spec: RunSpec, images: int, expected_latency_s: float) -> int:
    """Return the approximate number of samples of a run, for its progress."""
    if spec.mode == "accuracy":
        return images
    if spec.scenario == "offline":
        return spec.min_query_count
    if spec.scenario == "server":
        return max(spec.min_query_count, int(spec.min_duration_ms / 1e3 * spec.target_qps))
    samples = max(spec.min_query_count, int(spec.min_duration_ms / 1e3 / expected_latency_s))
    least = spec.min_query_count * spec.samples_per_query
    if spec.max_duration_ms:
        samples = min(samples, max(1, int(spec.max_duration_ms / 1e3 / expected_latency_s)))
    return max(samples, least) if spec.scenario == "multi_stream" else samples


def _flush() -> None:
    """Do nothing: every answer is complete when it is given."""
