"""A LoadGen test whose system computes several samples of a query at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import mlperf_loadgen as loadgen
import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.session import Session, System, WarmUp, warm_up
from agents.inference.runner.spec import RunSpec


class BatchSystem(System, Protocol):
    """A System that can also compute several samples at once."""

    def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
        """Return each sample's answer, contiguous; called once a batch, inside LoadGen's clock."""
        ...


def batch_sizes(queried: int, most: int) -> tuple[int, ...]:
    """Return the sizes of the batches that a query's samples are computed in, without repeats."""
    full, rest = divmod(queried, most)
    return tuple(size for size in (most if full else 0, rest) if size)


def warm_up_batches(system: BatchSystem, sample: Sample, sizes: Sequence[int]) -> WarmUp:
    """Warm up with batches of each size; the fastest time is that of a sample in the first.

    Each size has its own kernels and, on a stack that compiles, its own code.
    """
    found = [warm_up(_Together(system, size), sample) for size in sizes]
    return WarmUp(sum(warmth.runs for warmth in found), found[0].fastest_s / sizes[0])


class BatchedSession(Session):
    """A Session that answers a query in batches of at most `most` samples."""

    def __init__(self, system: BatchSystem, dataset: Dataset, spec: RunSpec, most: int) -> None:
        super().__init__(system, dataset, spec)
        self._system, self._most = system, most

    def _issue(self, queries: list[Any]) -> None:
        """Answer queries batch by batch; each sample of a batch takes an equal part of its time."""
        if self.started_at is None:
            self.started_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        for first in range(0, len(queries), self._most):
            batch = queries[first : first + self._most]
            started = time.perf_counter_ns()
            answers = self._answers(batch)
            # LoadGen copies answers before it returns, in accuracy mode only.
            loadgen.QuerySamplesComplete(
                [
                    loadgen.QuerySampleResponse(query.id, answer.ctypes.data, answer.nbytes)
                    for query, answer in zip(batch, answers, strict=True)
                ]
            )
            each = (time.perf_counter_ns() - started) // len(batch)
            self.latencies_ns.extend([each] * len(batch))
            self.done += len(batch)

    def _answers(self, batch: Sequence[Any]) -> Sequence[NDArray[Any]]:
        """Return the answers, empty after a fault, which `run` raises."""
        try:
            if self._fault is None:
                return self._system.answers([self._loaded[query.index] for query in batch])
        except Exception as error:  # noqa: BLE001 - LoadGen aborts if one crosses it
            self._fault = error
        return [np.zeros(0, np.uint8)] * len(batch)


class _Together:
    """A System that computes a sample several times at once."""

    def __init__(self, system: BatchSystem, size: int) -> None:
        self._system, self._size = system, size

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        return self._system.prepare(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        return self._system.answers([sample] * self._size)[0]
