"""The roofline: what a machine could attain, and what is above it."""

from __future__ import annotations

import pytest

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import attainable, primitive_rows, under_roofline
from controller.profiles.attribution import Spent
from controller.profiles.model import Place, Profile

BODY = (
    "cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,,,1000x1000:1000x1000"
)
FLOPS, MOVED = 2e9, 12e6


def profile(seconds: float) -> Profile:
    """A matrix product of 1000 x 1000 that took so long."""
    spent = Spent(calls=2, self_s=2 * seconds, total_s=2 * seconds, least_s=seconds)
    rows, _ = primitive_rows({(Place(op="aten::mm", kernel="aten::mm"), BODY): spent}, 1)
    return Profile(ProfileSummary(steps=1), (), tuple(rows))


def test_the_slower_of_computing_and_moving_is_attainable() -> None:
    assert attainable(FLOPS, MOVED, "f32", Peaks(gemm_flops={"f32": 1e12}, copy_bytes=1e10)) == 2e-3
    slow = Peaks(gemm_flops={"f32": 1e12}, copy_bytes=1e9)
    assert attainable(FLOPS, MOVED, "f32", slow) == 12e-3
    assert attainable(None, MOVED, "f32", slow) == 12e-3
    assert attainable(FLOPS, MOVED, "bf16", slow) is None


def test_headroom_is_what_is_above_the_roof() -> None:
    found = under_roofline(profile(5e-3), Peaks(gemm_flops={"f32": 1e12}, copy_bytes=1e10))
    assert found.summary.headroom_s == pytest.approx(2 * 3e-3)
    assert found.summary.notes == ()


def test_a_peak_that_a_primitive_exceeds_is_told() -> None:
    found = under_roofline(profile(5e-3), Peaks(gemm_flops={"f32": 2e11}, copy_bytes=1e10))
    assert found.summary.headroom_s == 0
    (note,) = found.summary.notes
    assert note.startswith("matmul reached 400 GFLOP/s in f32, above the measured peak of 200")
