"""One LoadGen test: LoadGen issues the queries, keeps the clock and decides on validity."""

from __future__ import annotations

import array
import time
from dataclasses import dataclass
from typing import Any, Final, Protocol

import mlperf_loadgen as loadgen
import numpy as np
from numpy.typing import NDArray

from agents.android.runner.dataset import Dataset
from agents.android.runner.model import Sample
from agents.android.runner.spec import RunSpec

WARM_UP_RUNS: Final = 8
WARM_UP_S: Final = 0.5
"""Warming up takes both; a model of 10 s a run is warmed up by its eight runs."""


class Classifier(Protocol):
    """What a session measures."""

    def prepare(self, image: NDArray[np.uint8], mean: float, std: float) -> Sample:
        """Return one input tensor; called while LoadGen loads samples, before its clock starts."""
        ...

    def classify(self, sample: Sample) -> int:
        """Return an image's class number; called once a sample, inside LoadGen's clock."""
        ...


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What the untimed runs before the test showed."""

    runs: int
    fastest_s: float


def warm_up(model: Classifier, sample: Sample) -> WarmUp:
    """Run a model until its caches, threads and clocks have settled."""
    fastest, runs, started = float("inf"), 0, time.perf_counter()
    while runs < WARM_UP_RUNS or time.perf_counter() - started < WARM_UP_S:
        before = time.perf_counter()
        model.classify(sample)
        fastest = min(fastest, time.perf_counter() - before)
        runs += 1
    return WarmUp(runs, fastest)


class Session:
    """The system under test and the sample library of one test, in LoadGen's sense."""

    def __init__(self, model: Classifier, dataset: Dataset, spec: RunSpec) -> None:
        self.done = 0
        """Samples answered so far; another thread may read it."""
        self.latencies_ns = array.array("q")
        """Time inside this system a sample, by its own clock: LoadGen adds its dispatch (~1 µs)."""
        self._model, self._dataset, self._spec = model, dataset, spec
        self._loaded: dict[int, Sample] = {}
        self._fault: Exception | None = None
        self._answer = array.array("q", [0])
        self._answer_at, self._answer_size = self._answer.buffer_info()[0], self._answer.itemsize

    def run(self, expected_latency_s: float) -> None:
        """Run the test to its end; raises whatever the model raised inside it.

        LoadGen prepares the queries of a single-stream test beforehand, and ends it early if they
        run out; half the fastest latency seen leaves room for a model that gets faster.
        """
        settings = loadgen_settings(self._spec)
        settings.single_stream_expected_latency_ns = max(1, int(expected_latency_s * 1e9 / 2))
        total = len(self._dataset)
        held = min(self._spec.performance_sample_count, total)
        system = loadgen.ConstructSUT(self._issue, _flush)
        library = loadgen.ConstructQSL(total, held, self._load, self._unload)
        try:
            loadgen.StartTestWithLogSettings(
                system, library, settings, log_settings(self._spec.log_dir), ""
            )
        finally:
            loadgen.DestroyQSL(library)
            loadgen.DestroySUT(system)
        if self._fault is not None:
            raise self._fault

    def _load(self, indices: list[int]) -> None:
        try:
            for index in indices:
                self._loaded[index] = self._model.prepare(
                    self._dataset.images[index], self._spec.input_mean, self._spec.input_std
                )
        except Exception as error:  # noqa: BLE001 - LoadGen aborts if one crosses it; run() raises
            self._fault = error

    def _unload(self, indices: list[int]) -> None:
        for index in indices:
            self._loaded.pop(index, None)

    def _issue(self, queries: list[Any]) -> None:
        """Answer queries one by one: the measured path, the same in every scenario and mode."""
        clock = time.perf_counter_ns
        for query in queries:
            started = clock()
            try:
                if self._fault is None:
                    self._answer[0] = self._model.classify(self._loaded[query.index])
            except Exception as error:  # noqa: BLE001 - as in _load; what is left is not run
                self._fault = error
            response = loadgen.QuerySampleResponse(query.id, self._answer_at, self._answer_size)
            loadgen.QuerySamplesComplete([response])
            self.latencies_ns.append(clock() - started)
            self.done += 1


def loadgen_settings(spec: RunSpec) -> Any:  # noqa: ANN401 - loadgen.TestSettings is untyped
    """Return LoadGen's settings for a spec."""
    settings = loadgen.TestSettings()
    settings.scenario = {
        "single_stream": loadgen.TestScenario.SingleStream,
        "offline": loadgen.TestScenario.Offline,
    }[spec.scenario]
    settings.mode = {
        "performance": loadgen.TestMode.PerformanceOnly,
        "accuracy": loadgen.TestMode.AccuracyOnly,
    }[spec.mode]
    settings.min_query_count = spec.min_query_count
    settings.min_duration_ms = spec.min_duration_ms
    settings.offline_expected_qps = spec.offline_expected_qps
    settings.qsl_rng_seed = spec.qsl_rng_seed
    settings.sample_index_rng_seed = spec.sample_index_rng_seed
    settings.schedule_rng_seed = spec.schedule_rng_seed
    return settings


def log_settings(folder: str) -> Any:  # noqa: ANN401 - loadgen.LogSettings is untyped
    """Return settings that put LoadGen's logs into a folder, and nowhere else."""
    output = loadgen.LogOutputSettings()
    output.outdir = folder
    output.copy_summary_to_stdout = False
    settings = loadgen.LogSettings()
    settings.log_output = output
    settings.log_mode = loadgen.LoggingMode.EndOfTestOnly  # no files are written meanwhile
    settings.enable_trace = False
    return settings


def expected_samples(spec: RunSpec, images: int, expected_latency_s: float) -> int:
    """Return about how many samples a run will take, for its progress."""
    if spec.mode == "accuracy":
        return images
    if spec.scenario == "offline":
        return spec.min_query_count
    return max(spec.min_query_count, int(spec.min_duration_ms / 1e3 / expected_latency_s))


def _flush() -> None:
    """Answers are complete when they are given; nothing is held back."""
