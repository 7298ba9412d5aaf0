"""Measurements of one kernel at several minutes: draws of one ratio, told with their range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from controller.contracts.kernels import KernelDraw, KernelRow
from controller.contracts.result import Measurement, Validity, worst
from controller.contracts.units import Unit
from controller.reports.html.report import report_html
from controller.reports.kernel_rows import (
    combined,
    disturbances,
    kernel_table,
    speed_up,
    validity_said,
    with_earlier,
)
from controller.reports.summary import summaries_of, summarise
from controller.reports.summary_table import summary_lines
from controller.reports.views.sweep import sweep_view
from tests.support.sweep_examples import MADE, SweepExample, catalog, result
from tests.support.validity import CHOICES

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def measured(
    ratio: float,
    hour: int = 0,
    copy_gbps: float = 10.0,
    changes: dict[str, object] | None = None,
    reasons: tuple[str, ...] = (),
    validity: Validity | None = None,
) -> KernelRow:
    """Return a row of twelve pairs that agree to 1 %, some hours after noon."""
    figures: dict[str, object] = {
        "ratio": ratio,
        "gbps": 8.0,
        "copy_gbps": copy_gbps,
        "baseline_gbps": 0.3,
        "matmul_gflops": 80.0,
        "p20_s": 0.1,
        "p50_s": 0.2,
        "p80_s": 0.3,
        "baseline_p20_s": 3.0,
        "baseline_p50_s": 6.0 / ratio,
        "baseline_p80_s": 5.0,
        "memory_bytes": 5,
        "baseline_memory_bytes": 50,
        "memory_share": 0.5,
    }
    of_draw = {
        "measured_at": NOON + timedelta(hours=hour),
        "ratios": tuple(ratio * (1 + (n % 3 - 1) / 100) for n in range(12)),
        "validity": validity or (Validity.DISTURBED if reasons else Validity.VALID),
        "reasons": reasons,
    }
    own: dict[str, object] = {
        "op": "focal",
        "dtype": "bf16",
        "shape": "s",
        "variant": "avx512",
        "library": "0123456789abcdef",
        "baseline": "eager",
        "baseline_digest": None,
        "ratio_low": 0.99 * ratio,
        "ratio_high": 1.01 * ratio,
        "pairs": 12,
        "bytes": 10**9,
        "threads": 2,
        "torch": "2.13",
        "malloc": "",
        "cpu": "Xeon",
        "draws": (KernelDraw.model_validate(figures | of_draw),),
    }
    own |= figures
    return KernelRow.model_validate(own | (changes or {}))


def test_a_ratio_of_three_hours_is_as_uncertain_as_the_hours_make_it() -> None:
    rows = [measured(31.0, 0, 14.0), measured(28.0, 5, 12.0), measured(20.0, 9, 8.0)]
    (row,) = combined(rows)
    assert row.ratio == pytest.approx((31 * 28 * 20) ** (1 / 3), rel=0.01)
    assert row.ratio_low is not None
    assert row.ratio_high is not None
    assert row.ratio_low < 20, "each draw alone is certain to 1 %"
    assert row.ratio_high > 31
    assert (row.pairs, len(row.draws), row.copy_gbps) == (36, 3, 12.0)
    assert "3 draws: 20.00× to 31.00×" in speed_up(row)
    table = StringIO()
    Console(file=table, width=400).print(kernel_table([row]))
    for said in ("8.0 to 14.0", "03-02 12:00 to 03-02 21:00", "67%, baseline 2%"):
        assert said in table.getvalue()


def test_one_draw_stays_what_it_is_with_the_conditions_of_its_minute() -> None:
    assert combined([measured(31.0)]) == [measured(31.0)]
    assert speed_up(measured(31.0)) == "31.00× [30.69, 31.31]"
    assert speed_up(measured(31.0, changes={"ratio_low": None, "ratio_high": None})) == "31.00×"


@pytest.mark.parametrize(
    ("low", "ratio", "high", "said"),
    [
        (0.953, 0.957, 0.962, "0.957× [0.953, 0.962]"),
        (1.038, 1.043, 1.047, "1.043× [1.038, 1.047]"),
        (0.041, 0.043, 0.045, "0.043× [0.041, 0.045]"),
    ],
)
def test_a_speed_up_has_the_places_that_its_interval_deserves(
    low: float, ratio: float, high: float, said: str
) -> None:
    row = measured(ratio, changes={"ratio_low": low, "ratio_high": high})
    assert speed_up(row) == said
    draws = (*row.draws, *measured(ratio + 0.002, 1).draws)
    several = speed_up(row.model_copy(update={"draws": draws}))
    assert several == f"{said}, 2 draws: {ratio:.3f}× to {ratio + 0.002:.3f}×"


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": "EPYC"},
        {"threads": 1},
        {"torch": "2.8"},
        {"variant": "avx2"},
        {"dtype": "fp32"},
        {"shape": "t"},
        {"bytes": 7},
        {"malloc": "LD_PRELOAD"},
        {"baseline": "compile"},
        {"op": "nms"},
        {"direction": "backward"},
        {"library": "fedcba9876543210"},
        {"baseline_digest": "fedcba9876543210"},
    ],
)
def test_only_measurements_of_the_same_are_draws_of_one(other: dict[str, object]) -> None:
    assert len(combined([measured(31.0), measured(20.0, 5, changes=other)])) == 2
    earlier = [measured(20.0, 5, changes=other)]
    assert with_earlier([measured(31.0)], earlier) == ([measured(31.0)], 1)


def test_earlier_draws_are_added_and_none_counts_twice() -> None:
    now, before = measured(31.0, 9), measured(20.0, 0)
    other = measured(5.0, changes={"variant": "avx2"})
    (row,), unlike = with_earlier([now], [before, other])
    assert unlike == 1
    assert [draw.ratio for draw in row.draws] == [20.0, 31.0]
    (again,), _ = with_earlier([now], [row, before])
    assert again.draws == row.draws
    assert with_earlier([now], []) == ([now], 0)


def test_a_file_of_several_draws_weighs_no_more_than_its_draws() -> None:
    """Else the medians are those over files, and a draw in two of them counts twice."""
    draws = [measured(ratio, hour, ratio) for hour, ratio in enumerate((10.0, 20.0, 40.0, 60.0))]
    (file,) = combined(draws[:3])
    (row,), _ = with_earlier(draws[3:], [file, draws[0]])
    assert row.copy_gbps == 30.0
    assert row.baseline_p50_s == pytest.approx((6 / 20 + 6 / 40) / 2)
    (alone,) = combined(draws)
    assert row == alone


def test_a_row_without_the_librarys_hash_is_not_read() -> None:
    older = measured(31.0).model_dump(mode="json", exclude={"library"})
    with pytest.raises(ValueError, match=r"library\n *Field required"):
        KernelRow.model_validate(older)


@CHOICES
def test_a_row_is_from_its_valid_draws_else_the_disturbed_ones(
    validities: tuple[Validity, ...], taken: tuple[int, ...]
) -> None:
    draws = [measured(10.0 + n, n, validity=v) for n, v in enumerate(validities)]
    (row,), (alone,) = combined(draws), combined(draws[n] for n in taken)
    assert row.model_dump(exclude={"draws"}) == alone.model_dump(exclude={"draws"})
    assert [draw.validity for draw in row.draws] == [*validities], "all draws are kept"
    left_out, of = len(validities) - len(taken), worst(validities[n] for n in taken)
    more = f", {left_out} of {len(validities)} draws left out" if left_out else ""
    assert validity_said(row) == f"{of}{more}"
    assert combined([row]) == [row]


def test_each_disturbance_is_told() -> None:
    quiet, loud = measured(31.0, 0), measured(20.0, 5, reasons=("1.67 of 2 cores",))
    assert (validity_said(quiet), disturbances([quiet])) == ("VALID", [])
    assert validity_said(loud) == "DISTURBED"
    (row,) = combined([quiet, loud])
    assert validity_said(row) == "VALID, 1 of 2 draws left out"
    assert disturbances([row]) == [
        "focal bf16 avx512, eager, 03-02 17:00: DISTURBED: 1.67 of 2 cores"
    ]
    table = StringIO()
    Console(file=table, width=400).print(kernel_table([row]))
    assert "VALID, 1 of 2 draws left out" in table.getvalue()


def test_stored_ratios_of_several_runs_are_told_with_their_range() -> None:
    step = Measurement(value=1.0, unit=Unit.SECONDS)
    runs = []
    for n, ratio in enumerate((31.0, 28.0, 20.0)):
        found = Measurement(value=ratio, unit=Unit.RATIO, samples=(ratio, ratio, 9 * ratio))
        runs.append(result(repeat=n, metrics={"step_time": step, "eager_ratio": found}))
    said = "20.000× to 31.000× in 3 draws"
    rankings = summarise(runs, [], {}, catalog()).rankings
    assert summaries_of(rankings)[0].metrics["eager_ratio"].value == 28.0
    assert f"28.000× ({said})" in "\n".join(summary_lines(rankings, 400, "all"))
    view = sweep_view(SweepExample().data(runs), catalog(), MADE)
    assert said in report_html(view)
    one = sweep_view(SweepExample().data(runs[:1]), catalog(), MADE)
    assert "draws" not in report_html(one)
