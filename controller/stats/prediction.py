"""Prediction of a run of normal length from a short one, with an interval. Pure.

The normal run is simulated repeatedly from blocks of the short one; blocks preserve the correlation
of neighbouring latencies. The interval covers the uncertainty of the short run and the variation of
the normal run, but not a drift that begins after the end of the short run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from controller.stats.pairs import CONFIDENCE

DRAWS: Final = 400
NORMAL_QUERIES: Final = 1024
"""Least queries of the normal run; a longer run varies less, so the interval is conservative."""
LEAST: Final = 20
"""Fewer latencies give no prediction."""
MOST: Final = 4096
"""Largest number of latencies drawn from longer runs, which makes the interval slightly wide."""
_Statistic = Callable[[NDArray[Any]], NDArray[Any]]


def predictions(scenario: str, latencies_s: Sequence[float]) -> Mapping[str, Measurement]:
    """Return the scenario's metric as predicted for a normal run, and the ends of its interval."""
    if scenario == "single_stream":
        found = predicted(latencies_s, lambda drawn: np.quantile(drawn, 0.9, axis=-1))
        return _measurements("latency_p90", found, Unit.SECONDS)
    if scenario == "offline":
        found = predicted(latencies_s, lambda drawn: 1 / drawn.mean(axis=-1))
        return _measurements("throughput", found, Unit.SAMPLES_PER_SECOND)
    return {}


def predicted(
    latencies_s: Sequence[float], statistic: _Statistic
) -> tuple[float, float, float] | None:
    """Return a statistic of the short run and the ends of the interval for the normal run.

    None for fewer than LEAST latencies.
    """
    seen = np.asarray(latencies_s)
    if len(seen) < LEAST:
        return None
    source = np.random.default_rng(len(seen))
    short = statistic(_drawn(seen, min(len(seen), MOST), source))
    normal = statistic(_drawn(seen, NORMAL_QUERIES, source))
    point = float(statistic(seen[np.newaxis])[0])
    # The error of the short run plus the deviation of the normal run, both from the true value.
    off = (short - short.mean()) + source.permutation(normal - normal.mean())
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(off, [tail, 1 - tail])
    return point, max(0.0, point + float(low)), point + float(high)


def _drawn(seen: NDArray[Any], count: int, source: np.random.Generator) -> NDArray[Any]:
    """Return DRAWS simulated runs of `count` latencies, each made of blocks of the observed
    ones."""
    length = max(1, round(len(seen) ** (1 / 3) * 2))
    blocks = -(-count // length)
    starts = source.integers(0, len(seen), (DRAWS, blocks))
    places = (starts[..., np.newaxis] + np.arange(length)) % len(seen)
    drawn: NDArray[Any] = seen[places.reshape(DRAWS, -1)[:, :count]]
    return drawn


def _measurements(
    metric: str, found: tuple[float, float, float] | None, unit: Unit
) -> dict[str, Measurement]:
    if found is None:
        return {}
    names = (f"predicted_{metric}", f"predicted_{metric}_low", f"predicted_{metric}_high")
    return {n: Measurement(value=v, unit=unit) for n, v in zip(names, found, strict=True)}
