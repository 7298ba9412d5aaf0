"""What templates write figures with: the context of templates/figures.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from controller.reports.figures import shown
from controller.reports.tables import ratio_text
from controller.reports.verdict import bounds, tie, times
from controller.reports.views.model import FactRow, Row


def several_subjects(rows: Sequence[Row | FactRow]) -> bool:
    """Return whether rows need a column for their subject, beside their device."""
    return any(row.subject not in ("", str(row.device)) for row in rows)


FIGURES: Final[Mapping[str, object]] = {
    "several_subjects": several_subjects,
    "shown": shown,
    "ratio_text": ratio_text,
    "times": times,
    "bounds": bounds,
    "tie": tie,
}
