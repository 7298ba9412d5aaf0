"""The roofline of a profile: what its work reached under what the machine can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.model import KernelRow, PrimitiveRow, Profile
from controller.profiles.operations import ATTENTION, GEMMS, main_dtype
from controller.profiles.roofs import WINOGRAD, is_narrowed, taps_inside
from controller.reports.html.charts import Chart, Trace, figure_of, layout_of, trace_of
from controller.reports.html.text import escape
from controller.reports.profile_lines import per
from controller.reports.profile_tables import duration, rounded

ANCHOR: Final = "roofline"
HEIGHT: Final = 420
CAPTION: Final = (
    "Primitives, and matrix products and attention outside oneDNN, under what this machine was "
    "measured to do: matrix products and copies. Taps in the padding are no work, and a kernel's "
    "bytes are those of its inputs."
)
WORDS: Final = ("work", "implementation", "problem")
NUMBERS: Final = ("GFLOP/s", "FLOPs a byte", "time", "places")


@dataclass(frozen=True, slots=True)
class _Found:
    """The work of one row of a profile."""

    key: tuple[str, str, str, str]
    """What is equal work: name, implementation, problem, and all else that tells it apart."""
    module: str
    flops: float
    """Of one call."""
    bytes: float
    """Of one call."""
    calls: float
    seconds: float
    whole_s: float
    """As watched, with what was cut off: roofs are of times that nothing scales."""


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """Equal work at all its places in a step."""

    name: str
    """Primitive, direction and types; of a kernel, its name and type."""
    implementation: str
    problem: str
    flops_per_s: float
    flops_per_byte: float
    seconds: float
    modules: tuple[str, ...]
    """The module of each place."""

    @property
    def words(self) -> tuple[str, ...]:
        """Its texts under the headings WORDS."""
        return self.name, self.implementation, self.problem

    @property
    def numbers(self) -> tuple[str, ...]:
        """Its values under the headings NUMBERS, formatted."""
        return (
            rounded(self.flops_per_s * 1e-9),
            rounded(self.flops_per_byte),
            duration(self.seconds),
            f"{len(self.modules):,}",
        )


def roofline_points(profile: Profile) -> list[RooflinePoint]:
    """Return the work whose FLOPs and bytes are known, largest time first.

    Equal work is one point: the same primitive, or kernel with the same inputs, at any place.
    """
    groups: dict[tuple[str, str, str, str], list[_Found]] = {}
    for found in (*_primitives(profile), *_kernels(profile)):
        groups.setdefault(found.key, []).append(found)
    return sorted(map(_point, groups.values()), key=lambda point: -point.seconds)


def _point(places: Sequence[_Found]) -> RooflinePoint:
    first = places[0]
    name, implementation, problem, _ = first.key
    calls = sum(found.calls for found in places)
    return RooflinePoint(
        name=name,
        implementation=implementation,
        problem=problem,
        flops_per_s=first.flops * calls / sum(found.whole_s for found in places),
        flops_per_byte=first.flops / first.bytes,
        seconds=sum(found.seconds for found in places),
        modules=tuple(found.module for found in places),
    )


def _primitives(profile: Profile) -> Iterator[_Found]:
    scale = profile.summary.scale or 1.0
    for row in profile.primitives:
        flops = _work(row)
        if flops and row.bytes and row.seconds > 0 and row.calls and row.kept:
            name = " ".join(filter(None, (row.primitive, row.direction, row.data_types)))
            key = (name, row.implementation, row.problem, row.body)
            whole_s = row.seconds / (row.kept * scale)
            module = row.place.module
            yield _Found(key, module, flops, row.bytes, row.calls, row.seconds, whole_s)


def _work(row: PrimitiveRow) -> float:
    """Return the FLOPs of a call as roofs count them; 0 if they can't be told."""
    inside = taps_inside(row)
    if not row.flops or inside is None or WINOGRAD in row.implementation or is_narrowed(row):
        return 0.0
    return row.flops * inside


def _kernels(profile: Profile) -> Iterator[_Found]:
    """Yield matrix products and attention; those that ran in oneDNN are primitives, as nearly all
    convolutions are."""
    scale = profile.summary.scale or 1.0
    for row in profile.kernels:
        kernel = row.place.kernel
        counts = (kernel in GEMMS or kernel in ATTENTION) and not row.primitive_s
        if counts and row.flops and row.bytes and row.self_s > 0 and row.calls:
            yield _of_kernel(row, row.flops, row.bytes, scale)


def _of_kernel(row: KernelRow, flops: float, moved: float, scale: float) -> _Found:
    place = row.place
    name = " ".join(filter(None, (place.kernel, main_dtype(place.dtypes))))
    key = (name, "", place.dims, f"{place.dtypes} {place.values}")
    return _Found(key, place.module, flops, moved, row.calls, row.self_s, row.self_s / scale)


def roofline(points: Sequence[RooflinePoint], peaks: Peaks, summary: ProfileSummary) -> Chart:
    """Draw points under the roofs of a machine."""
    marks = trace_of(
        "scatter",
        x=[point.flops_per_byte for point in points],
        y=[point.flops_per_s * 1e-9 for point in points],
        mode="markers",
        marker={"size": 9, "color": "var(--accent)", "opacity": 0.7},
        hovertext=[_hover(point, summary) for point in points],
        hoverinfo="text",
    )
    roofs = [_roof(name, peak, peaks.copy_bytes) for name, peak in peaks.gemm_flops.items()]
    layout = layout_of(
        height=HEIGHT,
        margin={"l": 64, "r": 16, "t": 8, "b": 52},
        xaxis={"type": "log", "title": {"text": "FLOPs a byte"}},
        yaxis={"type": "log", "title": {"text": "GFLOP/s"}},
    )
    return Chart(ANCHOR, "Roofline", CAPTION, HEIGHT, figure_of([*roofs, marks], layout))


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


def _hover(point: RooflinePoint, summary: ProfileSummary) -> str:
    rate, intensity, spent, places = point.numbers
    lines = (
        *point.words,
        f"{rate} GFLOP/s, {intensity} FLOPs a byte, {spent} {per(summary)}",
        point.modules[0] if len(point.modules) == 1 else f"{places} places",
    )
    return "<br>".join(escape(line) for line in lines if line)
