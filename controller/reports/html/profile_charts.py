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

HEIGHT, TREE_HEIGHT, LEGEND_LINE = 420, 520, 19
"""Pixels: of a donut whose legend has LEGEND_LINES lines, of a tree, of a further line."""
LEGEND_LINES: Final = 6
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
PLAIN: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
HATCHED: Final = ("#4269d0", "#efb118", "#9c6b4e", "#97bbf5", "#9498a0", "#ffd9e8")
PALETTE: Final = (*PLAIN, *HATCHED)
"""Colours that the colour-blind tell apart, six each; slices of the second six are hatched, too."""
OF_OTHERS: Final = "#767b85"
GOLDEN: Final = 0.618034
Path = tuple[str, ...]


def charts_of(profile: Profile) -> Iterator[Chart]:
    """Yield all charts of a profile that have something to show."""
    if tree := tree_of(profile):
        yield _tree(tree, profile.summary, _not_drawn(profile, tree))
    lines = kind_lines(profile).lines
    if any(line.seconds for line in lines):
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
    seconds: dict[Path, float] = {}
    for stack, of in stacks_of(profile):
        path = _path(profile, stack)
        for depth in range(1, len(path) + 1):
            seconds[path[:depth]] = seconds.get(path[:depth], 0.0) + of
    whole = max(seconds.values(), default=0.0)
    if not whole:
        return {}
    large = sorted(seconds.items(), key=lambda item: -item[1])[:MOST_FRAMES]
    kept = {path: of for path, of in large if of >= LEAST_SHARE * whole}
    order = sorted(kept, key=lambda path: (len(path), _phase_number(path), -kept[path]))
    return {path: kept[path] for path in order if len(path) == 1 or path[:-1] in kept}


def _not_drawn(profile: Profile, frames: Mapping[Path, float]) -> float:
    """Return the seconds of stacks whose last frame is left out of a tree."""
    return sum(of for stack, of in stacks_of(profile) if _path(profile, stack) not in frames)


def _path(profile: Profile, stack: Sequence[str]) -> Path:
    root = "all" if profile.summary.steps is None else "step"
    return (root, *(stack[1:] if stack[0] == "step" else stack))


def _phase_number(path: Path) -> int:
    return phase_number(path[1]) if path[1:] else 0


def _tree(frames: Mapping[Path, float], summary: ProfileSummary, left_out_s: float) -> Chart:
    ids = {path: str(number) for number, path in enumerate(frames)}
    first: list[Path] = [path for path in frames if len(path) == 2]
    hues = {path: _colour(number) for number, path in enumerate(first)}
    colours = [hues.get(path[:2], "var(--surface)") for path in frames]
    inks = [_ink(hues[path[:2]]) if path[:2] in hues else "var(--ink)" for path in frames]
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
        marker={"colors": colours, "line": {"color": "var(--page)", "width": 1}},
        textfont={"color": inks},
        leaf={"opacity": 1},
    )
    layout = _round_layout(TREE_HEIGHT)
    caption = (
        "Phase, modules, operation, kernel, primitive, shape; width is time. Choose a frame to go "
        f"in, or the bar on top to go out. Below {LEAST_SHARE:.1%} of the time, none is drawn, nor "
        f"beyond {MOST_FRAMES:,}: {duration(left_out_s)} are of frames that are not."
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


def _ink(colour: str) -> str:
    """Return black or white, whichever is read better on a colour: WCAG 2.2's contrast is then 4.58
    or more."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    red, green, blue = linear
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


def donut(
    anchor: str, title: str, caption: str, lines: Sequence[Line], colours: Mapping[Path, str]
) -> Chart:
    """Draw the shares of kinds of primitives, largest first; small ones are one slice."""
    rest = sum(line.seconds for line in lines[SLICES:])
    spent = [line.seconds for line in lines[:SLICES]] + ([rest] if rest else [])
    names = [kind_name(line.key) for line in lines[:SLICES]] + ([OTHERS] if rest else [])
    hues = [*(colours[line.key] for line in lines[:SLICES]), OF_OTHERS][: len(spent)]
    whole = sum(line.seconds for line in lines)
    pie = trace_of(
        "pie",
        labels=[escape(name) for name in names],
        values=[seconds * 1e3 for seconds in spent],
        text=[f"{seconds / whole:.1%}" for seconds in spent],
        customdata=[duration(seconds) for seconds in spent],
        hole=0.5,
        sort=False,
        direction="clockwise",
        textinfo="text",
        textposition="inside",
        insidetextorientation="horizontal",
        insidetextfont={"color": [_ink(hue) for hue in hues]},
        hovertemplate="%{label}<br>%{customdata}<br>%{text}<extra></extra>",
        marker={
            "colors": hues,
            "line": {"color": "var(--surface)", "width": 1},
            "pattern": {"shape": ["/" if hue in HATCHED else "" for hue in hues], "solidity": 0.15},
        },
    )
    height = HEIGHT + LEGEND_LINE * max(0, len(names) - LEGEND_LINES)
    layout = _round_layout(
        height,
        showlegend=True,
        legend={"orientation": "h", "y": -0.05},
        uniformtext={"minsize": 11, "mode": "hide"},
    )
    return Chart(anchor, title, caption, height, figure_of([pie], layout))


def kind_name(key: Path) -> str:
    """Return a kind of primitive with its direction as one name."""
    return " ".join(filter(None, key))


def _round_layout(height: int, **own: object) -> Layout:
    return layout_of(height=height, margin={"l": 16, "r": 16, "t": 16, "b": 16}, **own)
