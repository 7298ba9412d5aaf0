"""The overhead of our harness per query: the runner under LoadGen against a bare loop of `invoke`.

Both arms run the same loaded model with the same threads in one process, in pairs; the order within
a pair is random, so that drift favours neither. A sample is a period, the time from the start of
one query to the start of the next. So it includes everything that we and LoadGen do: dispatch, the
copy of the input, the answer, book-keeping and the progress thread.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.inference.image_spec import image_spec
from agents.inference.runner.graphs import Sample
from agents.inference.runner.images import read_dataset
from agents.inference.runner.messages import told_every_second
from agents.inference.runner.model import TfliteModel
from agents.inference.runner.session import Session, warm_up
from agents.inference.runner.spec import RunSpec
from controller.contracts.bench import OverheadRequest, OverheadSamples
from controller.contracts.catalog import load_catalog, user_tasks
from controller.contracts.mobile import OnDevice
from controller.contracts.pair import Pair
from controller.platform.helper_main import Replies, serve
from models.mobile.preparation import DEVICE, MODEL, PrepareOrder, prepare

HELD_SAMPLES: Final = 64
"""Samples in memory: enough for LoadGen to draw from, few enough to prepare at once."""


class _Repeating:
    """A model that runs `times` times a query, and records when each query starts."""

    def __init__(self, model: TfliteModel, times: int) -> None:
        self._model = model
        self.invokes = times
        self.starts: list[int] = []

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """See System.prepare."""
        return self._model.prepare(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        """See System.answer."""
        self.starts.append(time.perf_counter_ns())
        for _ in range(self.invokes - 1):
            self._model.invoke()
        return self._model.answer(sample)

    def invoke(self) -> None:
        """Run the bare path: the same runs of the model, and nothing else."""
        self.starts.append(time.perf_counter_ns())
        for _ in range(self.invokes):
            self._model.invoke()


def measure_overhead(
    spec: RunSpec,
    query_s: float = 0.005,
    pairs: int = 48,
) -> OverheadSamples:
    """Measure `pairs` interleaved pairs of the spec's queries, of about `query_s` seconds each.

    Takes about 2 * pairs * queries * query_s seconds. Raises RunnerFault if the model or data set
    is unusable, ValueError for fewer than 10 pairs or 64 queries.
    """
    queries = spec.min_query_count
    if pairs < 10 or queries < 64:
        raise ValueError(f"{pairs} pairs of {queries} queries: at least 10 of 64 are needed")
    loaded = TfliteModel(spec)
    data = read_dataset(spec, loaded.input_type)
    fastest_s = warm_up(loaded, loaded.prepare(data[0])).fastest_s
    times = max(1, round(query_s / fastest_s))
    repeating = _Repeating(loaded, times)

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


def overhead_spec(prepared: Path, workload: OnDevice, queries: int = 64) -> RunSpec:
    """Return the spec of a task prepared in a folder; the logs go there, too."""
    told = {
        "model": str(prepared / DEVICE / MODEL),
        "dataset": str(prepared / DEVICE),
        "log_dir": str(prepared),
        "scenario": "single_stream",
        "mode": "performance",
        "min_query_count": queries,
        "min_duration_ms": 0,
        "performance_sample_count": HELD_SAMPLES,
        "threads": 1,
        "delegate": "xnnpack",
        "batch_size": 1,
        "answer": workload.output.kind,
    }
    return RunSpec.of({**told, **image_spec(workload.input)})


def handle(request: OverheadRequest, replies: Replies) -> None:
    """Answer with OverheadSamples; raises UserError if the model or its data can't be had."""
    workload = load_catalog().workloads[request.workload].on_device
    assert workload is not None
    with TemporaryDirectory() as folder:
        prepared = Path(folder) / request.workload
        order = PrepareOrder(
            name=request.workload,
            workload=workload,
            numerics=request.numerics,
            dataset=next(iter(workload.datasets), None),
            store=user_tasks().parent,
            folder=prepared,
        )
        prepare(order)
        replies.answer(measure_overhead(overhead_spec(prepared, workload), pairs=request.pairs))


if __name__ == "__main__":
    sys.exit(serve(OverheadRequest, handle))
