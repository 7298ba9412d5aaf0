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
from controller.profiles.budget import budget_of
from controller.profiles.model import KernelRow, Place, Profile
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
    spent = Spent(calls=1, self_s=seconds, total_s=seconds)
    found = Attribution(steps=[1.0], kernels={place: spent})
    whole = Profile(ProfileSummary(steps=1), tuple(kernel_rows(found)), ())
    assert under_roofline(whole, PEAKS).summary.headroom_s == pytest.approx(seconds - 2e-3)


PADDED = {"ih": 2, "oh": 2, "kh": 3, "ph": 1, "iw": 2, "ow": 2, "kw": 3, "pw": 1}
"""Of nine taps, four are inside the input."""


@pytest.mark.parametrize(
    ("kind", "attainable_s"), [("convolution", 9e-3 * 4 / 9), ("deconvolution", 9e-3)]
)
def test_taps_in_the_padding_need_no_time(kind: str, attainable_s: float) -> None:
    """Of a deconvolution's, it can't be told: all count, so that no headroom is made up."""
    row = primitive(Place(op="aten::conv2d"), kind, 0.1)
    row = replace(row, parameters=PADDED, flops=9e9)
    (found,) = under_roofline(Profile(ProfileSummary(steps=1), (), (row,)), PEAKS).primitives
    assert found.attainable_s == pytest.approx(attainable_s)
    assert found.flops == 9e9


SIZES = [[64, 512, 2, 2], [512, 512, 3, 3]]
PADDINGS = {
    "aten::_slow_conv2d_forward": (SIZES, ["", "", "[3, 3]", "", "[1, 1]", "[1, 1]"], 1),
    "aten::mkldnn_convolution": (SIZES, ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"], 1),
    "aten::_slow_conv2d_backward": (
        [SIZES[0], *SIZES],
        ["", "", "", "[3, 3]", "[1, 1]", "[1, 1]", "[True, True, True]"],
        2,
    ),
    "aten::convolution_backward": (
        [SIZES[0], *SIZES],
        [
            *("", "", "", "[512]", "[1, 1]", "[1, 1]", "[1, 1]"),
            *("False", "[0, 0]", "1", "[True, True, False]"),
        ],
        2,
    ),
}


@pytest.mark.parametrize("name", PADDINGS)
def test_nor_do_those_of_torchs_own_convolutions(name: str) -> None:
    sizes, values, passes = PADDINGS[name]
    types = json.dumps(["float"] * 3)
    place = Place("forward", "", name, name, json.dumps(sizes), "", types, json.dumps(values))
    found = Attribution(steps=[1.0], kernels={place: Spent(calls=1, self_s=1.0, total_s=1.0)})
    whole = Profile(ProfileSummary(steps=1), tuple(kernel_rows(found)), ())
    (row,) = under_roofline(whole, Peaks(gemm_flops={"f32": 1e12}, copy_bytes=1e12)).kernels
    flops = 2 * 64 * 512 * 512 * 9 * 4 * passes
    assert row.flops == flops
    assert row.attainable_s == pytest.approx(flops * 4 / 9 / 1e12)


def moving(name: str, self_s: float, total_s: float) -> KernelRow:
    """A kernel that reads 10 MB, in 1 ms at a copy's rate."""
    return replace(kernel(name, self_s), total_s=total_s, bytes=1e7)


def test_a_kernel_that_calls_others_has_no_roof_by_what_they_move() -> None:
    wrappers = ("aten::conv2d", "aten::convolution", "aten::_to_copy", "ConvolutionBackward0")
    rows = [moving(name, 1e-3, 2e-2) for name in wrappers]
    rows.append(moving("aten::_slow_conv2d_backward", 1e-3, 2e-2))
    rows.append(replace(moving("aten::convolution_backward", 1e-3, 2e-2), flops=1e12))
    leaves = [
        moving("aten::add", 4e-3, 4e-3),
        moving("aten::sum", 4e-3, 7e-3),  # what it calls has less of its time
        moving("aten::_fused_adam_", 4e-3, 9e-3),
        replace(moving("aten::addmm", 4e-3, 9e-3), flops=1e9),
    ]
    peaks = PEAKS.model_copy(update={"update_bytes": 1e10})
    told = ProfileSummary(steps=1, step_s=0.022)
    found = under_roofline(Profile(told, (*rows, *leaves), ()), peaks)
    known = {row.place.kernel for row in found.kernels if row.attainable_s is not None}
    assert known == {row.place.kernel for row in leaves}
    step = budget_of(found).step
    assert step.no_roof_s == pytest.approx(1e-3 * len(rows))
    assert step.at_peak_s + step.above_roof_s == pytest.approx(4e-3 * len(leaves))
    assert step.seconds == pytest.approx(0.022)


def test_a_view_has_no_roof() -> None:
    for name in ("aten::as_strided_", "aten::resolve_conj", "aten::resolve_neg"):
        sizes, types = "[[2500000]]", '["float"]'
        place = Place("forward", op=name, kernel=name, dims=sizes, dtypes=types)
        found = Attribution(steps=[1.0], kernels={place: Spent(calls=1, self_s=1.0, total_s=1.0)})
        whole = Profile(ProfileSummary(steps=1), tuple(kernel_rows(found)), ())
        assert under_roofline(whole, PEAKS).kernels[0].attainable_s is None
