"""The required length of a run: a task's length classes as LoadGen settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.mobile import RunLength, RunLengths

OFFLINE: Final[Mapping[str, RunLength]] = {
    "normal": RunLength(queries=24_576, seconds=0),
    "quick": RunLength(queries=2_457, seconds=0),
    "rapid": RunLength(queries=64, seconds=0),
}
"""Samples of the only query; no minimum duration (run rules of MLPerf Mobile, and its app)."""
ESTIMABLE: Final = 662
"""Fewest queries from which LoadGen can estimate the 99th percentile, the metric of these
scenarios."""


def run_length(scenario: str, name: str, lengths: RunLengths) -> RunLength:
    """Return the least number of queries (offline: samples) and seconds of a run."""
    if scenario == "offline":
        return OFFLINE[name]
    length = lengths.of(name)
    if scenario == "single_stream":
        return length
    return RunLength(queries=max(length.queries, ESTIMABLE), seconds=length.seconds)
