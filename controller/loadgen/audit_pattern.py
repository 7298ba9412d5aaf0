"""In which order an audit's run answers which samples. The runner on the device has this file, too:
it imports the standard library alone."""

from __future__ import annotations

from typing import Final

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
"""Most of them that are kept, of `cold-start` evenly thinned; a multiple of REPEATS."""
