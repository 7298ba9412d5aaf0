"""Charts of a profile: the tree of a step, shares of primitives, roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.exports import stacks_of
from controller.profiles.model import PrimitiveRow, Profile, phase_number
from controller.reports.html.charts import Chart, Layout, Trace, figure_of, layout_of, trace_of
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
TREE_TITLE: Final = "Tree of a step"
OTHERS: Final = "others"
SLICES: Final = 12
"""Slices of a donut with names of their own."""
PALETTE: Final = (
    *("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7"),
    *("#a463f2", "#97bbf5", "#9c6b4e", "#9498a0", "#1f77b4", "#bcbd22"),
)
Path = tuple[str, ...]


def charts_of(profile: Profile) -> Iterator[Chart]:
    """Yield all charts of a profile that have something to show."""
    if tree := tree_of(profile):
        yield _tree(tree, profile.summary)
    if lines := kind_lines(profile).lines:
        yield donut("shares", "Shares", shares_caption(profile), lines, colours_of([lines]))
    if profile.summary.peaks:
        yield _roofline(profile, profile.summary.peaks)


def tree_of(profile: Profile) -> dict[Path, float]:
    """Return frames by their path from the root, with the seconds of all that is in them.

    An enclosing frame comes before what is in it; beside each other, phases have their order, and
    of all else the largest comes first. Those that are too small are left out, and with
    them all that is in them; none if there is no time at all.
    """
    seconds: dict[Path, float] = {}
    for stack, of in stacks_of(profile):
        path = ("step", *(stack[1:] if stack[0] == "step" else stack))
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
        branchvalues="total",
        maxdepth=DEPTH,
        sort=False,
        tiling={"orientation": "v"},
        pathbar={"thickness": 22},
        hovertemplate=(
            f"%{{label}}<br>%{{value:.4g}} ms {per(summary)}"
            "<br>%{percentRoot} of all, %{percentParent} of what is around it<extra></extra>"
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
    return Chart("tree", TREE_TITLE, caption, TREE_HEIGHT, figure)


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
    return {key: PALETTE[number % len(PALETTE)] for number, key in enumerate(order)}


def donut(
    anchor: str, title: str, caption: str, lines: Sequence[Line], colours: Mapping[Path, str]
) -> Chart:
    """Draw the shares of kinds of primitives, largest first; small ones are one slice."""
    rest = sum(line.seconds for line in lines[SLICES:])
    names = [kind_name(line.key) for line in lines[:SLICES]] + ([OTHERS] if rest else [])
    pie = trace_of(
        "pie",
        labels=[escape(name) for name in names],
        values=[line.seconds * 1e3 for line in lines[:SLICES]] + ([rest * 1e3] if rest else []),
        hole=0.5,
        sort=False,
        direction="clockwise",
        textinfo="percent",
        textposition="inside",
        insidetextorientation="horizontal",
        hovertemplate="%{label}<br>%{value:.4g} ms<br>%{percent}<extra></extra>",
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


def _roofline(profile: Profile, peaks: Peaks) -> Chart:
    rows = [r for r in profile.primitives if r.flops and r.bytes and r.seconds]
    found = {row.body: row for row in rows}.values()
    points = trace_of(
        "scatter",
        x=[_intensity(row) for row in found],
        y=[_rate(row) * 1e-9 for row in found],
        mode="markers",
        marker={"size": 9, "color": "var(--accent)", "opacity": 0.7},
        hovertext=[_hover(row, profile.summary) for row in found],
        hoverinfo="text",
    )
    roofs = [_roof(name, peak, peaks.copy_bytes) for name, peak in peaks.gemm_flops.items()]
    layout = layout_of(
        height=HEIGHT,
        margin={"l": 64, "r": 16, "t": 8, "b": 52},
        xaxis={"type": "log", "title": {"text": "FLOPs a byte"}},
        yaxis={"type": "log", "title": {"text": "GFLOP/s"}},
    )
    figure = figure_of([*roofs, points], layout)
    caption = "Primitives under what this machine was measured to do: matrix products and copies."
    return Chart("roofline", "Roofline", caption, HEIGHT, figure)


def _roof(name: str, peak: float, moved: float) -> Trace:
    ridge = peak / moved
    left, right = 0.1, max(1e4, ridge * 10)
    return trace_of(
        "scatter",
        x=[left, ridge, right],
        y=[left * moved * 1e-9, peak * 1e-9, peak * 1e-9],
        mode="lines+text",
        text=["", "", escape(f"{name} {peak * 1e-9:.0f} GFLOP/s")],
        textposition="top left",
        line={"color": "var(--muted)", "width": 1.5},
        hoverinfo="skip",
    )


def _intensity(row: PrimitiveRow) -> float:
    return (row.flops or 0.0) / (row.bytes or 1.0)


def _rate(row: PrimitiveRow) -> float:
    return (row.flops or 0.0) * row.calls / row.seconds


def _hover(row: PrimitiveRow, summary: ProfileSummary) -> str:
    lines = (
        f"{row.primitive} {row.direction} {row.data_types}",
        row.implementation,
        row.problem,
        f"{_rate(row) * 1e-9:.4g} GFLOP/s, {duration(row.seconds)} {per(summary)}",
        row.place.module,
    )
    return "<br>".join(escape(line) for line in lines if line)
