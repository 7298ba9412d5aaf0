"""The timeline of a watched step, as a page's script draws it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.platform.terminal import visible
from controller.profiles.model import LOAD, Profile, Span
from controller.reports.profile_tables import duration

GRID_US = 10
"""Parts of a microsecond that a page keeps of times."""
MOST_ROWS: Final = 1000
"""Rows that a page draws: the height of what a browser draws is limited."""
STEP: Final = "step"
TELLING: Final = 0.01
"""Share of a step that other threads have to go on for, to be said."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the page has of a timeline."""

    caption: str
    data: dict[str, list[str] | list[int] | list[list[int]]]
    """`texts`, and of each span in `spans`: places of kind, name and detail in `texts`, row, start
    and length in 1/GRID_US µs. `rows` has the first row of each thread, and the end."""


def timeline_of(profile: Profile, most_rows: int = MOST_ROWS) -> Timeline | None:
    """Return a profile's timeline; None if it has none."""
    if not profile.timeline:
        return None
    firsts = _first_rows(profile.timeline)
    spans = [span for span in profile.timeline if firsts[span.thread] + span.lane < most_rows]
    texts: dict[str, int] = {}
    rows = [
        [
            *(texts.setdefault(visible(text), len(texts)) for text in (s.kind, s.name, s.detail)),
            firsts[s.thread] + s.lane,
            round(s.start_s * 1e6 * GRID_US),
            max(1, round(s.seconds * 1e6 * GRID_US)),
        ]
        for s in spans
    ]
    drawn = [*(first for first in firsts[:-1] if first < most_rows), min(firsts[-1], most_rows)]
    caption = _caption(profile.timeline, len(spans), firsts[-1] - drawn[-1])
    return Timeline(caption, {"texts": list(texts), "spans": rows, "rows": drawn})


def _caption(spans: Sequence[Span], drawn: int, rows_left_out: int) -> str:
    step_s = next((span.seconds for span in spans if span.kind == STEP), 0.0)
    beyond_s = max(span.start_s + span.seconds for span in spans) - step_s
    loads = any(span.kind == "phase" and span.name == LOAD for span in spans)
    caption = (
        f"The quickest watched step, {duration(step_s)} as watched"
        f"{', with the batch that it loads' if loads else ''}: {drawn:,} spans. "
        "Phases, then modules, operations, kernels and primitives."
    )
    if beyond_s > TELLING * step_s:
        caption += f" Other threads go on for {duration(beyond_s)} after it."
    if not rows_left_out:
        return caption
    return (
        f"{caption} Left out: the last {rows_left_out:,} rows of threads and of what is inside, "
        f"with {len(spans) - drawn:,} spans."
    )


def _first_rows(spans: Sequence[Span]) -> list[int]:
    """Return the first row of each thread, one below another, and the row after the last."""
    lanes = [0] * (max(span.thread for span in spans) + 1)
    for span in spans:
        lanes[span.thread] = max(lanes[span.thread], span.lane + 1)
    firsts = [0]
    for count in lanes:
        firsts.append(firsts[-1] + count)
    return firsts
