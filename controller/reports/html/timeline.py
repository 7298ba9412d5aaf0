"""The timeline of a watched step, as a page's script draws it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.platform.terminal import visible
from controller.profiles.model import Profile, Span
from controller.reports.profile_tables import duration

GRID_US = 10
"""Parts of a microsecond that a page keeps of times."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the page has of a timeline."""

    caption: str
    data: dict[str, list[str] | list[int] | list[list[int]]]
    """`texts`, and of each span in `spans`: places of kind, name and detail in `texts`, row, start
    and length in 1/GRID_US µs. `rows` has the first row of each thread, and the end."""


def timeline_of(profile: Profile) -> Timeline | None:
    """Return a profile's timeline; None if it has none."""
    spans = profile.timeline
    if not spans:
        return None
    firsts = _first_rows(spans)
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
    whole = max(span.start_s + span.seconds for span in spans)
    caption = (
        f"The quickest watched step, {duration(whole)} as watched, with the batch that it loads: "
        f"{len(spans):,} spans. Phases, then modules, operations, kernels and primitives."
    )
    return Timeline(caption, {"texts": list(texts), "spans": rows, "rows": firsts})


def _first_rows(spans: Sequence[Span]) -> list[int]:
    """Return the first row of each thread, one below another, and the row after the last."""
    lanes = [0] * (max(span.thread for span in spans) + 1)
    for span in spans:
        lanes[span.thread] = max(lanes[span.thread], span.lane + 1)
    firsts = [0]
    for count in lanes:
        firsts.append(firsts[-1] + count)
    return firsts
