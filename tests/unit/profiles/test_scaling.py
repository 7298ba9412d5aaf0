"""Planted: watched steps like the plain one and unlike it; nothing is ever above the plain step."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.peaks import Peaks
from controller.profiles.assembling import under_roofline
from controller.profiles.capturing import profile_of
from controller.profiles.model import Profile
from controller.reports.profile_lines import Line, kind_lines, module_lines, op_lines, tables_of
from controller.reports.profile_tables import summary_lines
from tests.support.planted_step import (
    CONVOLUTION_S,
    HEAD,
    LOAD_S,
    RELU_S,
    REORDER_S,
    STEP_S,
    planted,
)

PEAKS = Peaks(gemm_flops={"f32": 1e12}, copy_bytes=1e10, measured_at="2026-11-25T00:00:00+00:00")
Steps = tuple[float, ...]


def scaled(folder: Path, traced: Steps, verbose: Steps) -> Profile:
    return under_roofline(profile_of(planted(folder, traced=traced, verbose=verbose)), PEAKS)


@pytest.mark.parametrize(
    ("traced", "verbose", "reason"),
    [
        ((1.0,) * 3, (1.0,) * 3, None),
        ((1.13,) * 3, (1.07,) * 3, None),
        ((1.29,) * 3, (1.25,) * 3, None),
        ((1.01, 1.1, 1.2), (1.02,), None),
        ((0.9,) * 3, (0.8,) * 3, None),
        (
            (1.1,) * 3,
            (3.79,) * 3,
            "a step took 1.137 s under oneDNN's verbose mode, and 0.3 s alone",
        ),
        ((1.4,) * 3, (1.2,) * 3, "a step took 0.42 s under torch.profiler, and 0.3 s alone"),
        ((0.7,) * 3, (0.7,) * 3, "a step took 0.21 s under torch.profiler, and 0.3 s alone"),
        (
            (0.9,) * 3,
            (1.25,) * 3,
            "a step took 0.375 s under oneDNN's verbose mode, and 0.27 s under torch.profiler",
        ),
        (
            (1.0,) * 3,
            (1.0, 1.0, 1.5),
            "the 3 steps under oneDNN's verbose mode took from 0.3 to 0.45 s",
        ),
        ((1.0, 2.0, 1.0), (1.0,), "the 3 steps under torch.profiler took from 0.3 to 0.6 s"),
    ],
)
def test_a_profile_is_of_the_plain_step_or_invalid(
    tmp_path: Path, traced: Steps, verbose: Steps, reason: str | None
) -> None:
    found = scaled(tmp_path, traced, verbose)
    summary = found.summary
    assert summary.step_s == STEP_S
    assert summary.headroom_s is not None
    assert 0 < summary.headroom_s <= STEP_S
    for table in tables_of(found):
        assert sum(line.seconds for line in table.lines) <= STEP_S * (1 + 1e-9)
        assert all((line.headroom_s or 0) <= line.seconds for line in table.lines)
    assert sum(line.seconds for line in op_lines(found).lines) == pytest.approx(STEP_S)
    assert sum(top.seconds for top in summary.top) <= STEP_S
    # Shares are those of the watched step, whatever it took.
    (head,) = [line for line in module_lines(found).lines if line.key[0] == HEAD]
    assert head.share == pytest.approx((CONVOLUTION_S + REORDER_S) / STEP_S, rel=1e-3)
    assert summary.load_s == pytest.approx(LOAD_S)
    if reason is None:
        assert (summary.validity, summary.reasons) == ("VALID", ())
    else:
        assert summary.validity == "INVALID"
        assert summary.reasons[0].startswith(reason)
        assert summary.reasons[0].endswith("more than 30% apart")
        assert summary_lines(summary)[0] == f"INVALID: {summary.reasons[0]}"


def test_how_far_a_slow_step_moves_the_mean_is_told(tmp_path: Path) -> None:
    summary = scaled(tmp_path, (1.0,) * 3, (1.0, 1.2, 1.1)).summary
    assert summary.onednn_median == pytest.approx(1.0, rel=1e-3)
    other = scaled(tmp_path / "other", (1.0,) * 3, (1.0, 1.6, 1.0)).summary
    assert other.onednn_median == pytest.approx(1 / 1.2, rel=1e-3)


@pytest.mark.parametrize(("points", "is_valid"), [(3.0, True), (5.0, False)])
def test_watched_runs_agree_where_the_time_goes(
    tmp_path: Path, points: float, is_valid: bool
) -> None:
    files = planted(tmp_path, relu_s=RELU_S - points / 100 * STEP_S)
    reasons = profile_of(files).summary.reasons
    if is_valid:
        assert reasons == ()
    else:
        (reason,) = reasons
        # Of two that differ alike either may be named.
        assert reason.endswith("under oneDNN's verbose mode: more than 4 points apart")
        assert reason.startswith(("aten::relu took 16.7% of the step", "(in no op) took 6.7%"))


def test_a_module_s_headroom_has_that_of_its_primitives(tmp_path: Path) -> None:
    found = scaled(tmp_path, (1.0,), (1.0,))
    modules = {line.key[0]: line for line in module_lines(found).lines}
    # Both are bound by moving: two images, and the convolution its weights, too.
    moved = 4 * (2 * 2 * 16 * 64 * 64 + 16 * 16 * 9) / PEAKS.copy_bytes
    expected = CONVOLUTION_S + REORDER_S - moved
    assert modules[HEAD].seconds == pytest.approx(CONVOLUTION_S + REORDER_S, rel=1e-5)
    assert modules[HEAD].headroom_s == pytest.approx(expected, rel=1e-5)
    ops = {line.key[1]: line for line in op_lines(found).lines}
    assert ops["aten::mkldnn_convolution"].headroom_s == pytest.approx(expected, rel=1e-5)
    kinds = {line.key[0]: line.seconds for line in kind_lines(found).lines}
    assert kinds == pytest.approx(
        {
            "convolution": CONVOLUTION_S,
            "reorder": REORDER_S,
            "(outside oneDNN)": RELU_S,
            "(in no op)": STEP_S - CONVOLUTION_S - REORDER_S - RELU_S,
        },
        rel=1e-4,
    )


def totals(lines: list[Line]) -> tuple[float, float]:
    return sum(line.seconds for line in lines), sum(line.headroom_s or 0.0 for line in lines)


def test_modules_ops_and_kinds_of_a_recorded_step_come_to_the_same(profile: Profile) -> None:
    found = under_roofline(profile, PEAKS)
    expected = (found.summary.step_s, found.summary.headroom_s)
    for lines_of in (op_lines, module_lines, kind_lines):
        assert totals(list(lines_of(found).lines)) == pytest.approx(expected)
