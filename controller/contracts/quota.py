"""The limits on all sweeps of one user together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of each user but the administrator."""

    open_runs: int = 20_000
    bytes_a_day: int = 256 * 2**20
    """Bytes of the store for a day's submissions; results are not counted."""
