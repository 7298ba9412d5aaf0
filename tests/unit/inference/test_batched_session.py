"""Batches of a query's samples: their sizes, and the warm-up of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.inference.runner.batched_session import batch_sizes, warm_up_batches
from agents.inference.runner.graphs import Sample
from agents.inference.runner.session import WARM_UP_RUNS


class Counting:
    """Notes how many samples it computes at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        return self.answers([sample])[0]

    def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
        self.sizes.append(len(samples))
        return [sample[0] for sample in samples]


@pytest.mark.parametrize(
    ("queried", "most", "sizes"),
    [
        (64, 8, (8,)),
        (64, 24, (24, 16)),
        (64, 64, (64,)),
        (64, 128, (64,)),
        (2457, 8, (8, 1)),
        (1, 8, (1,)),
    ],
)
def test_the_sizes_of_a_query_s_batches(queried: int, most: int, sizes: tuple[int, ...]) -> None:
    assert batch_sizes(queried, most) == sizes


def test_each_size_is_warmed_up_before_it_is_timed() -> None:
    """Else a stack that compiles would do so for the last batch, on LoadGen's clock."""
    system = Counting()
    warmth = warm_up_batches(system, (np.zeros(3),), (24, 16))
    first = system.sizes.index(16)
    assert set(system.sizes[:first]) == {24}
    assert set(system.sizes[first:]) == {16}
    assert min(first, len(system.sizes) - first) >= WARM_UP_RUNS
    assert warmth.runs == len(system.sizes)
