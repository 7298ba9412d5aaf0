"""The roofline of a profile: equal work is one point, of the work that the roofs count."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go
import pytest

from controller.contracts.peaks import Peaks
from controller.profiles.files import read, write
from controller.profiles.model import KernelRow, PrimitiveRow, Profile
from controller.reports.html.profile import FOUND, TOP, profile_html
from controller.reports.html.profile_charts import charts_of
from controller.reports.html.roofline import RooflinePoint, roofline_points
from tests.support.planted_profile import convolution, kernel, profile

PEAKS = Peaks(gemm_flops={"f32": 2e11}, copy_bytes=2e10)
FLOPS, MOVED = 4e9, 1e8
PADDED = {"ih": 1, "iw": 2, "oh": 1, "ow": 2, "kh": 3, "kw": 1, "ph": 1}
"""A third of its taps is inside of an input that is a pixel high."""


def known(seconds: float, module: str = "a", calls: float = 1.0, **told: str) -> PrimitiveRow:
    """Return a convolution of FLOPS and MOVED a call."""
    row = convolution(module, seconds, **told)[1]
    assert isinstance(row, PrimitiveRow)
    return replace(row, calls=calls, flops=FLOPS, bytes=MOVED)


def product(seconds: float, module: str = "a", name: str = "aten::addmm") -> KernelRow:
    """Return a matrix product of torch's own, of FLOPS and MOVED a call."""
    row = kernel(name, seconds, module=module, dims="[[1000], [1000, 1000], [1000, 2000]]")
    return replace(row, flops=FLOPS, bytes=MOVED)


def with_peaks(*rows: KernelRow | PrimitiveRow) -> Profile:
    found = profile(rows)
    return replace(found, summary=found.summary.model_copy(update={"peaks": PEAKS}))


def point(*rows: KernelRow | PrimitiveRow) -> RooflinePoint:
    (found,) = roofline_points(with_peaks(*rows))
    return found


def test_equal_work_is_one_point_with_the_rate_of_all_its_places() -> None:
    found = point(known(0.1, "a", calls=3.0), known(0.02, "b"), known(0.04, "c"))
    assert found.seconds == pytest.approx(0.16)
    assert found.flops_per_s == pytest.approx(5 * FLOPS / 0.16)
    assert found.flops_per_byte == pytest.approx(FLOPS / MOVED)
    assert found.modules == ("a", "b", "c")
    assert found.numbers == ("125", "40", "160 ms", "3")


def test_other_work_is_another_point_and_the_largest_time_comes_first() -> None:
    rows = (known(0.1), known(0.4, problem="mb2_ic32oc32"), product(0.2), product(0.1, "b"))
    names = [(found.name, found.seconds) for found in roofline_points(with_peaks(*rows))]
    assert [name for name, _ in names] == [
        *("convolution FWD_D f32", "aten::addmm f32", "convolution FWD_D f32"),
    ]
    assert [seconds for _, seconds in names] == pytest.approx([0.4, 0.3, 0.1])


def hovers(found: Profile) -> list[str]:
    (chart,) = (chart for chart in charts_of(found) if chart.anchor == "roofline")
    go.Figure(chart.figure)  # refuses what plotly does not know
    return [*chart.figure["data"][-1]["hovertext"]]


def test_a_point_names_its_module_or_says_how_many_places_it_has() -> None:
    (one,) = hovers(with_peaks(known(0.1, "layer1.0.conv1")))
    assert one.endswith("<br>40 GFLOP/s, 40 FLOPs a byte, 100 ms a step<br>layer1.0.conv1")
    (two,) = hovers(with_peaks(known(0.1, "layer1.0.conv1"), known(0.1, "layer1.1.conv1")))
    assert two.endswith("200 ms a step<br>2 places")


def test_taps_in_the_padding_are_no_work() -> None:
    found = point(replace(known(0.1), parameters=PADDED))
    assert found.flops_per_s == pytest.approx(FLOPS / 3 / 0.1)
    assert found.flops_per_byte == pytest.approx(FLOPS / 3 / MOVED)


def test_a_primitive_that_was_cut_off_has_the_rate_of_its_whole_time() -> None:
    found = point(replace(known(0.1), kept=0.5))
    assert found.flops_per_s == pytest.approx(FLOPS / 0.2)
    assert found.seconds == pytest.approx(0.1)


@pytest.mark.parametrize("row", [replace(known(0.1), kept=0.5), product(0.05)])
def test_a_rate_is_as_watched_as_the_roofs_are_that_it_raises(
    row: KernelRow | PrimitiveRow, tmp_path: Path
) -> None:
    """Times are scaled to the plain step, of which 0.1 s here took 0.125 s when watched."""
    made = with_peaks(row)
    told = made.summary.model_copy(update={"scale": 0.8})
    write(replace(made, summary=told), tmp_path)
    (found,) = roofline_points(read(tmp_path))
    whole_s = 0.2 if isinstance(row, PrimitiveRow) else 0.05
    assert found.flops_per_s == pytest.approx(FLOPS / (whole_s / 0.8))
    assert found.seconds == pytest.approx(0.1 if isinstance(row, PrimitiveRow) else 0.05)


@pytest.mark.parametrize(
    "row",
    [
        known(0.1, implementation="jit_wino_4x3:avx512_core"),
        replace(known(0.1), primitive="deconvolution", parameters=PADDED),
        replace(known(0.1), flops=None),
        replace(known(0.1), bytes=None),
        known(0.0),
        replace(product(0.1), primitive_s=0.05),
        product(0.1, name="aten::mkldnn_convolution"),
        kernel("aten::relu", 0.1),
    ],
    ids=[
        *("Winograd", "padding not counted", "no FLOPs", "no bytes", "no time"),
        *("in oneDNN", "a convolution's kernel", "no product"),
    ],
)
def test_work_that_cannot_be_told_has_no_point_and_no_roofline_is_empty(
    row: KernelRow | PrimitiveRow,
) -> None:
    found = with_peaks(row)
    assert roofline_points(found) == []
    assert [chart.anchor for chart in charts_of(found) if chart.anchor == "roofline"] == []
    assert 'id="roofline"' not in profile_html(found, "it")


@pytest.mark.parametrize("made", [known, product])
def test_calls_that_took_less_than_nothing_have_no_rate(
    made: Callable[[float], KernelRow | PrimitiveRow],
) -> None:
    """Clocks round so; with as much elsewhere, all calls would take no time."""
    rows = (made(-1e-6), made(1e-6), kernel("aten::relu", 0.1))
    assert point(*rows).flops_per_s == pytest.approx(FLOPS / 1e-6)


def test_a_profile_without_primitives_has_a_roofline_of_its_products() -> None:
    (told,) = hovers(with_peaks(product(0.1, "up"), product(0.1, "down")))
    assert told.startswith("aten::addmm f32<br>[[1000], [1000, 1000], [1000, 2000]]<br>40 GFLOP/s")
    assert told.endswith("2 places")


def test_its_points_are_a_table_below_it_as_its_label_says() -> None:
    rows = [known(0.01 + n * 1e-4, problem=f"mb{n}") for n in range(TOP + 5)]
    page = profile_html(with_peaks(*rows), "it")
    section = page.split('<div id="roofline"')[1].split("</section>")[0]
    assert "The table below has the numbers." in section
    texts = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", section)
    headings = ["work", "implementation", "problem", "GFLOP/s", "FLOPs a byte", "time", "places"]
    assert texts[:7] == headings
    assert texts[7:14] == [
        *("convolution FWD_D f32", "jit:avx2", f"mb{TOP + 4}", "310.1", "40", "12.9 ms", "1")
    ]
    assert section.count("<tr hidden>") == 5
    assert f"The {TOP} largest of {TOP + 5}." in section
    assert len(json.loads(page.split('id="figures">')[1].split("</script>")[0])) == 3


def test_a_table_of_very_many_points_is_cut_and_says_so() -> None:
    rows = [known(0.01 + n * 1e-4, problem=f"mb{n}") for n in range(FOUND + 5)]
    section = profile_html(with_peaks(*rows), "it").split('<div id="roofline"')[1]
    table = section.split("</section>")[0]
    assert table.count('<th scope="row">') == FOUND
    assert f"The {TOP} largest of {FOUND + 5}; the {FOUND} largest can be found." in table
