"""Predictions of a normal run hold it as often as they say, or have no interval."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from controller.stats.prediction import (
    LEAST,
    NORMAL_QUERIES,
    Prediction,
    predicted_p90,
    predicted_throughput,
    predictions,
    worth,
)

TRIALS = 400
CASES = [(count, alike) for count in (64, 128) for alike in (0.0, 0.5, 0.7)]


def runs(source: np.random.Generator, count: int, alike: float) -> NDArray[np.float64]:
    """Return TRIALS runs of latencies whose logarithms are an AR(1) process."""
    steps = source.standard_normal((TRIALS, count))
    steps[:, 1:] *= np.sqrt(1 - alike**2)
    for at in range(1, count):
        steps[:, at] += alike * steps[:, at - 1]
    return 0.01 * np.exp(0.1 * steps)


def of_trials(
    count: int, alike: float, metric: str
) -> tuple[list[Prediction], NDArray[np.float64]]:
    """Return what is predicted by short runs, and what came of normal ones."""
    source = np.random.default_rng(count)
    short, normal = runs(source, count, alike), runs(source, NORMAL_QUERIES, alike)
    if metric == "p90":
        return [predicted_p90(run.tolist()) for run in short], np.quantile(normal, 0.9, axis=1)
    return [predicted_throughput(run.tolist()) for run in short], 1 / normal.mean(axis=1)


@pytest.mark.parametrize("metric", ["p90", "throughput"])
@pytest.mark.parametrize(("count", "alike"), CASES)
def test_intervals_hold_the_normal_run(count: int, alike: float, metric: str) -> None:
    found, came = of_trials(count, alike, metric)
    inside = [
        one.interval[0] <= value <= one.interval[1]
        for one, value in zip(found, came, strict=True)
        if one.interval
    ]
    # Of p90, hardly any of 64 latencies this much alike has an interval: too few to tell a share.
    if metric == "p90" and (count, alike) == (64, 0.7):
        assert len(inside) < TRIALS / 20
    else:
        assert sum(inside) / len(inside) >= 0.93


@pytest.mark.parametrize(("count", "alike", "share"), [(64, 0.0, 0.7), (128, 0.5, 0.7)])
def test_a_percentile_has_an_interval_where_latencies_are_worth_enough(
    count: int, alike: float, share: float
) -> None:
    found, _ = of_trials(count, alike, "p90")
    assert sum(one.interval is not None for one in found) / TRIALS > share


@pytest.mark.parametrize("scenario", ["single_stream", "offline"])
def test_too_few_latencies_predict_nothing(scenario: str) -> None:
    few = runs(np.random.default_rng(1), LEAST - 1, 0.0)[0].tolist()
    assert predictions(scenario, few) == {}
    assert predictions(scenario, [*few, few[0]])


def test_latencies_too_much_alike_give_no_interval() -> None:
    rising = [0.01 + n / 1e4 for n in range(64)]
    assert set(predictions("offline", rising)) == {"predicted_throughput"}
    assert set(predictions("single_stream", rising)) == {"predicted_latency_p90"}


def test_other_scenarios_have_no_prediction() -> None:
    assert predictions("server", [0.01] * 200) == {}


def test_equal_latencies_predict_themselves() -> None:
    assert worth(np.full(64, 0.1)) == 64
    found = {name: one.value for name, one in predictions("single_stream", [0.1] * 64).items()}
    ends = {f"predicted_latency_p90{end}": pytest.approx(0.1) for end in ("", "_low", "_high")}
    assert found == ends


def test_alike_neighbours_are_worth_less() -> None:
    """A long AR(1) run is worth (1 - alike) / (1 + alike) of its length; see runs."""
    for alike in (0.0, 0.5, 0.8):
        long = runs(np.random.default_rng(2), 2048, alike)[:50]
        known = np.mean([worth(run) for run in long]) / 2048
        # The worth is a cautious one: the upper end of a standard error.
        assert 0.7 < known / ((1 - alike) / (1 + alike)) <= 1
