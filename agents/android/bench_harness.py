"""What our harness costs a query: the runner under LoadGen against a bare loop of `invoke`.

Both arms run the same loaded model with the same threads in one process, in pairs; a coin decides
which goes first in each, so that drift favours neither. A sample is a period, the time from the
start of one query to the start of the next: it holds all that is ours and LoadGen's, which is
dispatch, the copy of the input, the answer, the book-keeping and the progress thread.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agents.android.runner.dataset import Dataset
from agents.android.runner.messages import told_every_second
from agents.android.runner.model import LiteRtModel, Sample
from agents.android.runner.session import Session, warm_up
from agents.android.runner.spec import RunSpec
from controller.contracts.bench import OverheadSamples
from controller.contracts.pairs import Pair

HELD_SAMPLES: Final = 64
"""Enough for LoadGen to draw from, few enough to be prepared at once."""


class _Repeating:
    """A model made slower by running `times` times a query, that notes when each query starts."""

    def __init__(self, model: LiteRtModel, times: int) -> None:
        self._model = model
        self.invokes = times
        self.starts: list[int] = []

    def prepare(self, image: NDArray[np.uint8], mean: float, std: float) -> Sample:
        """See Classifier.prepare."""
        return self._model.prepare(image, mean, std)

    def classify(self, sample: Sample) -> int:
        """See Classifier.classify."""
        self.starts.append(time.perf_counter_ns())
        for _ in range(self.invokes - 1):
            self._model.invoke()
        return self._model.classify(sample)

    def invoke(self) -> None:
        """The bare path: what a query runs, and nothing else."""
        self.starts.append(time.perf_counter_ns())
        for _ in range(self.invokes):
            self._model.invoke()


def measure_overhead(
    model: Path,
    dataset: Path,
    query_s: float = 0.005,
    threads: int = 1,
    pairs: int = 48,
    queries: int = 64,
) -> OverheadSamples:
    """Measure `pairs` interleaved pairs of `queries` queries of about `query_s` each.

    Takes about 2 * pairs * queries * query_s seconds. Raises RunnerFault if model or data set
    can't be used, ValueError for fewer than 10 pairs or 64 queries.
    """
    if pairs < 10 or queries < 64:
        raise ValueError(f"{pairs} pairs of {queries} queries: at least 10 of 64 are needed")
    data, loaded = Dataset.read(dataset), LiteRtModel(model, threads)
    fastest_s = warm_up(loaded, loaded.prepare(data.images[0], 0.0, 255.0)).fastest_s
    times = max(1, round(query_s / fastest_s))
    repeating = _Repeating(loaded, times)
    with TemporaryDirectory() as logs:
        spec = _spec(model, dataset, logs, threads, queries)

        def harness() -> None:
            session = Session(repeating, data, spec)
            with told_every_second(lambda: None):
                session.run(fastest_s * times)

        def bare() -> None:
            for _ in range(queries):
                repeating.invoke()

        return _interleaved(repeating, bare, harness, pairs)


def _interleaved(
    model: _Repeating, bare: Callable[[], None], harness: Callable[[], None], pairs: int
) -> OverheadSamples:
    coin = random.Random(pairs)

    def periods(arm: Callable[[], None]) -> tuple[float, ...]:
        model.starts.clear()
        arm()
        return tuple((np.diff(model.starts) / 1e9).tolist())

    found = []
    for _ in range(pairs):
        bare_first = coin.random() < 0.5
        arms = (bare, harness) if bare_first else (harness, bare)
        taken = {arm: periods(arm) for arm in arms}
        found.append(Pair(a=taken[bare], b=taken[harness], a_first=bare_first))
    return OverheadSamples(pairs=tuple(found), invokes_per_query=model.invokes)


def _spec(model: Path, dataset: Path, logs: str, threads: int, queries: int) -> RunSpec:
    return RunSpec(
        model=str(model),
        dataset=str(dataset),
        log_dir=logs,
        scenario="single_stream",
        mode="performance",
        min_query_count=queries,
        min_duration_ms=0,
        performance_sample_count=HELD_SAMPLES,
        threads=threads,
    )


def main() -> int:
    """`python -m agents.android.bench_harness MODEL WRITER PAIRS`: print OverheadSamples as JSON.

    MODEL is a file of the `models` package, WRITER the function that writes its data set.
    """
    path, writer, pairs = sys.argv[1:]
    module, _, name = writer.partition(":")
    with TemporaryDirectory() as folder:
        dataset = Path(folder) / "dataset.npz"
        getattr(import_module(module), name)(dataset)
        model = Path(str(files("models").joinpath(path)))
        samples = measure_overhead(model, dataset, pairs=int(pairs))
    sys.stdout.write(samples.model_dump_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
