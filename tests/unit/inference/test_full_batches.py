"""What the latencies of batches tell: one measurement a batch, and nothing by the last one."""

from __future__ import annotations

import pytest

from agents.inference.on_device_result import of_full_batches
from controller.stats.prediction import predictions

BATCH_S, SIZE = 0.1, 24


def spread(*sizes: int, slower_last: float = 1.0) -> tuple[float, ...]:
    """Each sample of a batch has an equal part of its time; the last batch may be slower."""
    factors = [1.0] * (len(sizes) - 1) + [slower_last]
    of = zip(sizes, factors, strict=True)
    return tuple(each for size, by in of for each in [by * BATCH_S / SIZE] * size)


@pytest.mark.parametrize(
    ("sizes", "full"),
    [((24, 24, 16), 2), ((24,), 1), ((24, 24), 2), ((24, 24, 24, 1), 3)],
)
def test_a_full_batch_is_one_latency_and_a_slower_last_one_none(
    sizes: tuple[int, ...], full: int
) -> None:
    found = of_full_batches(spread(*sizes, slower_last=1.0 if sizes[-1] == SIZE else 9.0), SIZE)
    assert found == (BATCH_S / SIZE,) * full


def test_samples_of_their_own_stay() -> None:
    assert of_full_batches((0.1, 0.2, 0.3), 1) == (0.1, 0.2, 0.3)


def test_three_batches_predict_nothing() -> None:
    copies = spread(SIZE, SIZE, SIZE)
    assert predictions("offline", copies)
    assert predictions("offline", of_full_batches(copies, SIZE)) == {}
