"""Dates of profiles and peaks, as they are kept: ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

_EARLIEST_S, _LATEST_S = 1e9, 1e10
"""2001 and 2286: other clocks than the epoch's read less or, in other units, more."""


def date_of(epoch_s: float | None) -> str | None:
    """Return the date of so many seconds since the epoch; None if that is no such number."""
    if epoch_s is None or not _EARLIEST_S < epoch_s < _LATEST_S:
        return None
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="seconds")
