"""How long a run has to be: MLPerf Mobile's length classes as LoadGen settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunLength:
    """LoadGen's minimum number of queries (offline: of samples) and duration."""

    min_query_count: int
    min_duration_ms: int


LENGTHS: Mapping[str, Mapping[str, RunLength]] = {
    "single_stream": {
        "rapid": RunLength(64, 6_000),
        "quick": RunLength(128, 10_000),
        "normal": RunLength(1024, 60_000),
    },
    "offline": {
        "rapid": RunLength(64, 0),
        "quick": RunLength(2_457, 0),
        "normal": RunLength(24_576, 0),
    },
}
"""Scenario → length class; run rules of MLPerf Mobile, and its app's classes."""

PERFORMANCE_SAMPLES = 1024
"""Samples LoadGen draws from in image classification (run rules)."""
