"""Notes below a ranking's table: what its figures don't say, each once, with devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controller.reports.views.model import Row

MANY_RATIOS: Final = 10
"""Of so many cells that are all alike, one in ten tables shows one to differ."""


def row_notes(rows: Iterable[Row]) -> list[str]:
    """Return what figures of rows don't say, apart from energy, which some tables have a word
    for."""
    rows = list(rows)
    return [*ratio_notes(rows), *quality_notes(rows), *scaling_notes(rows)]


def ratio_notes(rows: Iterable[Row]) -> list[str]:
    """Return what many intervals of ratios come to together."""
    ratios = [row.vs_reference for row in rows if row.vs_reference and not row.is_reference]
    if sum(ratio.interval is not None for ratio in ratios) < MANY_RATIOS:
        return []
    return [
        "each ratio's interval is 95 % by itself: of 20, expect one that does not hold the truth"
    ]


def quality_notes(rows: Iterable[Row]) -> list[str]:
    """Return why quality has no target, and how answers differ from their reference's or why they
    have none."""
    rows = list(rows)
    return [
        *_noted("no quality target", [(row.target_unknown, row) for row in rows]),
        *_noted("answers differ", [(row.reference_differs, row) for row in rows]),
        *_noted("no reference", [(row.reference_unknown, row) for row in rows]),
    ]


def scaling_notes(rows: Iterable[Row]) -> list[str]:
    """Return to what the steps of several ranks lose their time, for each row."""
    return [f"scaling: {_lost(row)} ({row.label})" for row in rows if row.scaling_lost]


def _lost(row: Row) -> str:
    parts = [f"{share:.1%} to {what}" for what, share in row.scaling_lost.items()]
    return f"of a step, lost are {', '.join(parts)}"


def energy_notes(rows: Iterable[Row]) -> list[str]:
    """Return why energy is not known."""
    return list(_noted("energy unknown", [(row.energy_unknown, row) for row in rows]))


def _noted(what: str, told: Iterable[tuple[str, Row]]) -> Iterator[str]:
    reasons: dict[str, dict[str, None]] = {}
    for why, row in told:
        if why:
            reasons.setdefault(why, {})[str(row.device)] = None
    yield from (f"{what}: {why} ({', '.join(devices)})" for why, devices in reasons.items())
