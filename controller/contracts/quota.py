"""What one user's sweeps may take, all together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """Of each user but the administrator."""

    open_runs: int = 20_000
    bytes_a_day: int = 256 * 2**20
    """Of the store, for what is submitted; results come on top."""
