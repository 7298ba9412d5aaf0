"""What a run of normal length would give, from a short one, with an interval. Pure.

The normal run is drawn, again and again, from blocks of the short one: neighbouring latencies are
alike, and a block keeps that. The interval holds both what the short run leaves open and what the
normal one would vary by; a drift that begins after the short run's end it can't know.
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
"""Of the long run at least; a longer one varies less, so that the interval is on the safe side."""
LEAST: Final = 20
"""Fewer latencies predict nothing."""
MOST: Final = 4096
"""Of a run with more latencies as many are drawn, which makes the interval a little wide."""
_Statistic = Callable[[NDArray[Any]], NDArray[Any]]


def predictions(scenario: str, latencies_s: Sequence[float]) -> Mapping[str, Measurement]:
    """Return the scenario's metric as a normal run would have it, and the ends of its interval."""
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
    """Return a statistic of the short run and the ends of the normal one's interval.

    None for fewer than LEAST latencies.
    """
    seen = np.asarray(latencies_s)
    if len(seen) < LEAST:
        return None
    source = np.random.default_rng(len(seen))
    short = statistic(_drawn(seen, min(len(seen), MOST), source))
    normal = statistic(_drawn(seen, NORMAL_QUERIES, source))
    point = float(statistic(seen[np.newaxis])[0])
    # How far the short run may be off, and how far the normal one from what lies behind both.
    off = (short - short.mean()) + source.permutation(normal - normal.mean())
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(off, [tail, 1 - tail])
    return point, max(0.0, point + float(low)), point + float(high)


def _drawn(seen: NDArray[Any], count: int, source: np.random.Generator) -> NDArray[Any]:
    """Return DRAWS runs of `count` latencies, each made of blocks of the seen ones."""
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
