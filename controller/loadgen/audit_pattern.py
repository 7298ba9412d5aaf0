"""In which order an audit's run answers which samples. The runner on the device has this file, too:
it imports the standard library alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

CACHE: Final = "cache"
COLD_START: Final = "cold-start"
RANDOM_DATA: Final = "random-data"
AUDITS: Final = (CACHE, COLD_START, RANDOM_DATA)
REPEATS: Final = 4
"""How often in a row `cache` answers each sample: more than twice, since a cache may be filled at
the second sight only."""
FILE: Final = "audit_ns.npy"
"""Nanoseconds an answer by the system's own clock, one for each sample or full batch, in order."""
MOST: Final = 4096
"""Most of them that a result has; a multiple of REPEATS."""
Time = TypeVar("Time")


def kept(times: Sequence[Time], audit: str) -> Sequence[Time]:
    """Return the times that a result has: the first ones, MOST of them.

    Of a cold start, which is about all of a run, each n-th.
    """
    every = max(1, -(-len(times) // MOST)) if audit == COLD_START else 1
    return times[::every][:MOST]
