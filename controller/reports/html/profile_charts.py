"""Charts of a profile: the tree of a step, and shares of primitives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from colorsys import hls_to_rgb
from typing import Final

from controller.contracts.profile import ProfileSummary
from controller.profiles.exports import stacks_of
from controller.profiles.model import Profile, phase_number
from controller.reports.html.charts import Chart, Layout, figure_of, layout_of, trace_of
from controller.reports.html.roofline import roofline, roofline_points
from controller.reports.html.text import escape
from controller.reports.profile_lines import Line, kind_lines, per
from controller.reports.profile_tables import duration

HEIGHT, TREE_HEIGHT = 420, 520
LEAST_SHARE: Final = 1e-3
"""Of the time of all: frames with less are left out of the tree."""
MOST_FRAMES: Final = 2000
"""Frames of a tree, the largest, so that it is drawn in a second."""
DEPTH: Final = 7
"""Levels of the tree at once; those below come into sight when a frame is chosen."""
TREE_NUMBERS: Final = "The tables below add up the same time."
OTHERS: Final = "others"
SLICES: Final = 12
"""Slices of a donut with names of their own."""
PALETTE: Final = (
    *("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7"),
    *("#a463f2", "#97bbf5", "#9c6b4e", "#9498a0", "#1f77b4", "#bcbd22"),
)
GOLDEN: Final = 0.618034
Path = tuple[str, ...]


def charts_of(profile: Profile) -> Iterator[Chart]:
    """Yield all charts of a profile that have something to show."""
    if tree := tree_of(profile):
        yield _tree(tree, profile.summary)
    if lines := kind_lines(profile).lines:
        yield donut("shares", "Shares", shares_caption(profile), lines, colours_of([lines]))
    peaks = profile.summary.peaks
    if peaks and (points := roofline_points(profile)):
        yield roofline(points, peaks, profile.summary)


def tree_of(profile: Profile) -> dict[Path, float]:
    """Return frames by their path from the root, with the seconds of all that is in them.

    An enclosing frame comes before what is in it; beside each other, phases have their order, and
    of all else the largest comes first. Those that are too small are left out, and with
    them all that is in them; none if there is no time at all.
    """
    root = "all" if profile.summary.steps is None else "step"
    seconds: dict[Path, float] = {}
    for stack, of in stacks_of(profile):
        path = (root, *(stack[1:] if stack[0] == "step" else stack))
        for depth in range(1, len(path) + 1):
            seconds[path[:depth]] = seconds.get(path[:depth], 0.0) + of
    whole = max(seconds.values(), default=0.0)
    if not whole:
        return {}
    large = sorted(seconds.items(), key=lambda item: -item[1])[:MOST_FRAMES]
    kept = {path: of for path, of in large if of >= LEAST_SHARE * whole}
    order = sorted(kept, key=lambda path: (len(path), _phase_number(path), -kept[path]))
    return {path: kept[path] for path in order if len(path) == 1 or path[:-1] in kept}


def _phase_number(path: Path) -> int:
    return phase_number(path[1]) if path[1:] else 0


def _tree(frames: Mapping[Path, float], summary: ProfileSummary) -> Chart:
    ids = {path: str(number) for number, path in enumerate(frames)}
    icicle = trace_of(
        "icicle",
        ids=list(ids.values()),
        parents=[ids.get(path[:-1], "") for path in frames],
        labels=[escape(path[-1]) for path in frames],
        values=[seconds * 1e3 for seconds in frames.values()],
        text=[duration(seconds) for seconds in frames.values()],
        textinfo="label",
        branchvalues="total",
        maxdepth=DEPTH,
        sort=False,
        tiling={"orientation": "v"},
        pathbar={"thickness": 22},
        hovertemplate=(
            f"%{{label}}<br>%{{text}} {per(summary)}<br>%{{percentRoot:.1%}} of all, "
            "%{percentParent:.1%} of what is around it<extra></extra>"
        ),
        marker={"line": {"color": "var(--page)", "width": 1}},
        root={"color": "var(--surface)"},
    )
    layout = _round_layout(TREE_HEIGHT, iciclecolorway=PALETTE)
    caption = (
        "Phase, modules, operation, kernel, primitive, shape; width is time. Choose a frame to go "
        f"in, or the bar on top to go out. Below {LEAST_SHARE:.1%} of the time, none is drawn."
    )
    figure = figure_of([icicle], layout)
    title = "Tree of all" if summary.steps is None else "Tree of a step"
    return Chart("tree", title, caption, TREE_HEIGHT, figure, TREE_NUMBERS)


def shares_caption(profile: Profile) -> str:
    """Return what a donut of a profile is of."""
    return f"Time by primitive and direction, and outside oneDNN, {per(profile.summary)}."


def colours_of(tables: Sequence[Sequence[Line]]) -> dict[Path, str]:
    """Return a colour for each kind of primitive, the same in all tables."""
    seconds: dict[Path, float] = {}
    for lines in tables:
        for line in lines:
            seconds[line.key] = max(seconds.get(line.key, 0.0), line.share)
    order = sorted(seconds, key=lambda key: -seconds[key])
    return {key: _colour(number) for number, key in enumerate(order)}


def _colour(number: int) -> str:
    """Return one of the palette, and of more kinds than it has a hue of their own."""
    if number < len(PALETTE):
        return PALETTE[number]
    # By the golden ratio, so that none comes again and neighbours differ.
    parts = hls_to_rgb(number * GOLDEN % 1, 0.55, 0.5)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


def donut(
    anchor: str, title: str, caption: str, lines: Sequence[Line], colours: Mapping[Path, str]
) -> Chart:
    """Draw the shares of kinds of primitives, largest first; small ones are one slice."""
    rest = sum(line.seconds for line in lines[SLICES:])
    spent = [line.seconds for line in lines[:SLICES]] + ([rest] if rest else [])
    names = [kind_name(line.key) for line in lines[:SLICES]] + ([OTHERS] if rest else [])
    pie = trace_of(
        "pie",
        labels=[escape(name) for name in names],
        values=[seconds * 1e3 for seconds in spent],
        text=[duration(seconds) for seconds in spent],
        hole=0.5,
        sort=False,
        direction="clockwise",
        textinfo="percent",
        textposition="inside",
        insidetextorientation="horizontal",
        hovertemplate="%{label}<br>%{text}<br>%{percent}<extra></extra>",
        marker={
            "colors": [*(colours[line.key] for line in lines[:SLICES]), "var(--muted)"],
            "line": {"color": "var(--surface)", "width": 1},
        },
    )
    layout = _round_layout(
        HEIGHT,
        showlegend=True,
        legend={"orientation": "h", "y": -0.05},
        uniformtext={"minsize": 11, "mode": "hide"},
    )
    return Chart(anchor, title, caption, HEIGHT, figure_of([pie], layout))


def kind_name(key: Path) -> str:
    """Return a kind of primitive with its direction as one name."""
    return " ".join(filter(None, key))


def _round_layout(height: int, **own: object) -> Layout:
    return layout_of(height=height, margin={"l": 16, "r": 16, "t": 16, "b": 16}, **own)
