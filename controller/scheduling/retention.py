"""Which artefacts the head keeps no longer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.contracts.artefacts import KeptContent
from controller.contracts.retention import Retention

DAY_S: Final = 86400.0
LOOK_S: Final = 3600.0
"""Retention looks at all contents so often, and when they are too many."""


def is_due(kept_bytes: int, looked_at: float, retention: Retention, now: float) -> bool:
    """Return whether to look for what has expired. looked_at: when that was done last."""
    return kept_bytes > retention.most_bytes or now - looked_at >= LOOK_S


def expired(kept: Sequence[KeptContent], retention: Retention, now: float) -> list[KeptContent]:
    """Return the contents to remove, the oldest first.

    These are all that were announced last longer ago than the days of the retention, then the
    oldest until the rest fits. What a pinned sweep has stays, and counts.
    """
    oldest = sorted((one for one in kept if not one.pinned), key=lambda one: one.used_at)
    excess = sum(one.kept_bytes for one in kept) - retention.most_bytes
    found = []
    for one in oldest:
        if one.used_at >= now - retention.days * DAY_S and excess <= 0:
            break
        found.append(one)
        excess -= one.kept_bytes
    return found
