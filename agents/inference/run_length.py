"""How long a run has to be: a task's length classes as LoadGen settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.mobile import RunLength, RunLengths

OFFLINE: Final[Mapping[str, RunLength]] = {
    "normal": RunLength(queries=24_576, seconds=0),
    "quick": RunLength(queries=2_457, seconds=0),
    "rapid": RunLength(queries=64, seconds=0),
}
"""Samples of the one query; the number alone decides (run rules of MLPerf Mobile, and its app)."""
ESTIMABLE: Final = 662
"""Fewer queries give no estimate of the 99th percentile, which these scenarios go by (LoadGen)."""


def run_length(scenario: str, name: str, lengths: RunLengths) -> RunLength:
    """Return the least number of queries (offline: samples) and seconds of a run."""
    if scenario == "offline":
        return OFFLINE[name]
    length = lengths.of(name)
    if scenario == "single_stream":
        return length
    return RunLength(queries=max(length.queries, ESTIMABLE), seconds=length.seconds)
