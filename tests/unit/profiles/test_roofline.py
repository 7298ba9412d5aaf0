"""The roofline: what a machine could attain, and what is above it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import (
    attainable,
    kernel_rows,
    primitive_rows,
    under_roofline,
)
from controller.profiles.attribution import Attribution, Spent
from controller.profiles.model import Place, Profile
from tests.support.planted_profile import kernel, primitive

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


PEAKS = Peaks(gemm_flops={"f32": 1e12}, copy_bytes=1e10)


@pytest.mark.parametrize(
    ("op", "flops", "attainable_s"),
    [
        ("aten::_slow_conv2d_forward", None, None),
        ("aten::slow_conv_transpose2d", None, None),
        ("aten::mkldnn_rnn_layer", None, None),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", None, None),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", 4e10, 4e-2),
        ("aten::mm", None, None),
        ("aten::sum", None, 1e-3),
        ("aten::relu", None, 1e-3 + 2 * 16 * 32 * 32 * 4 / 1e10),
    ],
)
def test_bytes_are_no_roof_of_what_computes_much(
    op: str, flops: float | None, attainable_s: float | None
) -> None:
    row = replace(kernel(op, 0.1), flops=flops, bytes=1e7)
    (found,) = under_roofline(Profile(ProfileSummary(steps=1), (row,), ()), PEAKS).kernels
    assert found.attainable_s == (None if attainable_s is None else pytest.approx(attainable_s))
    assert found.bytes == 1e7  # advice is of inputs alone


@pytest.mark.parametrize(("kind", "is_known"), [("rnn", False), ("reorder", True)])
def test_bytes_are_no_roof_of_a_recurrent_layer(kind: str, is_known: bool) -> None:
    row = replace(primitive(Place(op="aten::lstm"), kind, 0.1), bytes=1e7)
    (found,) = under_roofline(Profile(ProfileSummary(steps=1), (), (row,)), PEAKS).primitives
    assert (found.attainable_s is not None) is is_known


@pytest.mark.parametrize("seconds", [2e-3, 4e-3])
def test_relu_at_a_copys_rate_is_at_its_roof(seconds: float) -> None:
    elements = 2_500_000  # read and written in 2 ms
    sizes, types = json.dumps([[elements]]), '["float"]'
    place = Place("forward", op="aten::relu", kernel="aten::relu", dims=sizes, dtypes=types)
    found = Attribution(steps=[1.0], kernels={place: Spent(calls=1, self_s=seconds, total_s=1.0)})
    whole = Profile(ProfileSummary(steps=1), tuple(kernel_rows(found)), ())
    assert under_roofline(whole, PEAKS).summary.headroom_s == pytest.approx(seconds - 2e-3)
