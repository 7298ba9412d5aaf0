"""Numbers of calls as texts. Pure."""

from __future__ import annotations

MANY = 999_999.5
"""Calls that are shown as a whole number: six digits would round them to a power."""


def calls_text(calls: float) -> str:
    """Return a formatted number of calls; a mean of steps may be no whole number."""
    return f"{calls:,.6g}" if calls < MANY else f"{calls:,.0f}"
