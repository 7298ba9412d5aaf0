"""Bytes and FLOPs of primitives with several inputs, broadcast batches and small tensors."""

from __future__ import annotations

import pytest

from controller.profiles.primitive import Primitive, primitive_of

F32 = 4


def primitive(kind: str, roles: str, problem: str, dtype: str = "f32") -> Primitive:
    """Return a primitive as oneDNN 3 prints it (src/common/verbose.cpp); roles: `src src dst`."""
    memory = " ".join(f"{role}:{dtype}::blocked:abcd::f0" for role in roles.split())
    parsed = primitive_of(f"cpu,{kind},jit:uni,undef,{memory},,,{problem}")
    assert parsed
    return parsed


@pytest.mark.parametrize(
    ("kind", "roles", "problem", "elements"),
    [
        ("binary", "src src dst", "8x64x56x56:1x64x1x1", 2 * 8 * 64 * 56 * 56 + 64),
        ("binary", "src src dst", "1x64x1x1:8x64x56x56", 2 * 8 * 64 * 56 * 56 + 64),
        ("binary", "src src dst", "8x1:1x16", 8 + 16 + 8 * 16),
        ("binary", "src src dst", "64:64", 3 * 64),
        ("binary", "src src src dst", "8x16:8x1:8x16", 8 * 16 + 8 + 8 * 16 + 8 * 16),
        ("binary", "src src src dst", "8x16:8x1", 8 * 16 + 8 + 8 * 16),
        ("concat", "src src dst", "1x64x56x56:1x192x56x56", 2 * (64 + 192) * 56 * 56),
        ("concat", "src src src dst", "2x3:2x4:2x5", 2 * 2 * (3 + 4 + 5)),
        ("reduction", "src dst", "128x1000:128x1", 128 * 1000 + 128),
        ("prelu", "data wei", "2x16x8x8:1x16x1x1", 2 * 16 * 64 + 16),
        ("prelu", "data wei diff diff_wei", "2x16x8x8:1x16x1x1", 2 * (2 * 16 * 64 + 16)),
        ("layer_normalization", "src dst stats", "128x256x225", 2 * 128 * 256 * 225),
        ("layer_normalization", "src dst stats scale shift", "4x32x8", 2 * 4 * 32 * 8),
        (
            "layer_normalization",
            "src dst stats scale shift diff_src diff_scale diff_shift",
            "4x32x8",
            3 * 4 * 32 * 8,
        ),
        ("layer_normalization", "data stats diff", "4x32x8", 2 * 4 * 32 * 8),
        ("sum", "src src src dst", "8x16", 4 * 8 * 16),
        ("softmax", "src dst", "8x16", 2 * 8 * 16),
        ("softmax", "src dst diff_dst", "8x16", 3 * 8 * 16),
        ("reorder", "src dst", "2x16x8x8", 2 * 2 * 16 * 64),
        ("reorder", "src dst", "64", 2 * 64),
        ("eltwise", "data", "2x16", 2 * 16),
        ("eltwise", "data diff", "2x16", 2 * 2 * 16),
        ("matmul", "src wei dst", "4x64:64x32", 4 * 64 + 64 * 32 + 4 * 32),
        ("matmul", "src wei dst", "8x10x20:8x20x30", 8 * (200 + 600 + 300)),
        ("matmul", "src wei dst", "8x10x20:1x20x30", 8 * 200 + 600 + 8 * 300),
        ("matmul", "src wei dst", "1x10x20:8x20x30", 200 + 8 * 600 + 8 * 300),
        ("matmul", "src wei dst", "2x1x10x20:1x3x20x30", 2 * 200 + 3 * 600 + 6 * 300),
        ("matmul", "src wei dst", "4x64:64x32:4x32", 4 * 64 + 64 * 32 + 4 * 32),
    ],
)
def test_each_tensor_has_its_own_size(kind: str, roles: str, problem: str, elements: int) -> None:
    assert primitive(kind, roles, problem).bytes() == elements * F32
    assert primitive(kind, roles, problem, "bf16").bytes() == elements * 2


@pytest.mark.parametrize(
    ("kind", "roles", "problem"),
    [
        ("matmul", "src wei dst", "*x64:64x32"),
        ("reorder", "src dst", "*x64"),
        ("concat", "src src dst", "2x3:2x*"),
        ("rnn", "src_layer wei_layer dst_layer", "l1t8mb2sic16slc16dhc16dic16"),
    ],
)
def test_bytes_of_an_open_size_are_not_known(kind: str, roles: str, problem: str) -> None:
    assert primitive(kind, roles, problem).bytes() is None


def test_a_second_convolution_behind_one_has_no_known_work() -> None:
    """A depthwise one (`dw`): the sizes between both are not told."""
    body = (
        "cpu,convolution,jit_uni_dw:avx2,forward_inference,src:f32::blocked:acdb::f0 "
        "wei:f32::blocked:Acdb8a::f0 dst:f32::blocked:acdb::f0,{},alg:convolution_direct,"
        "mb1_ic32oc64_ih16oh16kh1sh1dh0ph0_iw16ow16kw1sw1dw0pw0"
    )
    plain, fused, older = (
        primitive_of(body.format(of))
        for of in ("", "attr-post-ops:dw:k3s2p1", "attr-post-ops:eltwise_relu+dw_k3s1p1")
    )
    assert plain
    assert older
    assert older.flops() is None
    assert plain.flops() == 2.0 * 32 * 64 * 16 * 16
    assert fused
    assert (fused.flops(), fused.bytes()) == (None, None)


@pytest.mark.parametrize(
    ("problem", "batch"),
    [
        ("10x20:20x30", 1),
        ("8x10x20:8x20x30", 8),
        ("8x10x20:1x20x30", 8),
        ("1x10x20:8x20x30", 8),
        ("2x1x10x20:1x3x20x30", 6),
    ],
)
def test_a_batch_is_that_of_the_output(problem: str, batch: int) -> None:
    product = primitive("matmul", "src wei dst", problem)
    assert product.parameters == {"b": batch, "m": 10, "k": 20, "n": 30}
    assert product.flops() == 2 * batch * 10 * 20 * 30
