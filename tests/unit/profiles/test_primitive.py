"""Bytes and FLOPs of primitives with several inputs, broadcast batches and small tensors."""

from __future__ import annotations

import pytest

from controller.profiles.primitive import Primitive, primitive_of
from controller.profiles.primitive_bytes import moved_bytes

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
        ("prelu", "data wei", "2x16x8x8:1x16x1x1", 2 * (2 * 16 * 64) + 16),
        (
            "prelu",
            "data wei diff diff_wei",
            "2x16x8x8:1x16x1x1",
            3 * (2 * 16 * 64) + 2 * 16,
        ),
        ("layer_normalization", "src dst stats", "128x256x225", 2 * 128 * 256 * 225),
        ("layer_normalization", "src dst stats scale shift", "4x32x8", 2 * 4 * 32 * 8),
        (
            "layer_normalization",
            "src dst stats scale shift diff_src diff_scale diff_shift",
            "4x32x8",
            3 * 4 * 32 * 8,
        ),
        ("layer_normalization", "data stats", "4x32x8", 2 * 4 * 32 * 8),
        ("layer_normalization", "data stats diff", "4x32x8", 3 * 4 * 32 * 8),
        ("sum", "src src src dst", "8x16", 4 * 8 * 16),
        ("softmax", "src dst", "8x16", 2 * 8 * 16),
        ("softmax", "src dst diff_dst", "8x16", 3 * 8 * 16),
        ("reorder", "src dst", "2x16x8x8", 2 * 2 * 16 * 64),
        ("reorder", "src dst", "64", 2 * 64),
        ("softmax", "data diff", "8x16", 3 * 8 * 16),
        ("eltwise", "data", "2x16", 2 * 2 * 16),
        ("eltwise", "data diff", "2x16", 3 * 2 * 16),
        ("shuffle", "data", "2x16x8x8", 2 * 2 * 16 * 64),
        ("batch_normalization", "data", "mb2ic16ih8iw8", 2 * 2 * 16 * 64),
        ("batch_normalization", "data diff", "mb2ic16ih8iw8", 3 * 2 * 16 * 64),
        ("group_normalization", "src dst", "g4mb2ic16ih8iw8", 2 * 2 * 16 * 64),
        ("group_normalization", "src dst diff_src", "g4mb2ic16ih8iw8", 3 * 2 * 16 * 64),
        ("lrn", "data", "mb2ic16ih8iw8ls5beta0.75", 2 * 2 * 16 * 64),
        ("lrn", "data diff", "mb2ic16ih8iw8ls5beta0.75", 3 * 2 * 16 * 64),
        ("matmul", "src wei dst", "4x64:64x32", 4 * 64 + 64 * 32 + 4 * 32),
        ("matmul", "src wei dst", "8x10x20:8x20x30", 8 * (200 + 600 + 300)),
        ("matmul", "src wei dst", "8x10x20:1x20x30", 8 * 200 + 600 + 8 * 300),
        ("matmul", "src wei dst", "1x10x20:8x20x30", 200 + 8 * 600 + 8 * 300),
        ("matmul", "src wei dst", "2x1x10x20:1x3x20x30", 2 * 200 + 3 * 600 + 6 * 300),
        ("matmul", "src wei dst", "4x64:64x32:4x32", 4 * 64 + 64 * 32 + 4 * 32),
    ],
)
def test_each_tensor_has_its_own_size(kind: str, roles: str, problem: str, elements: int) -> None:
    assert moved_bytes(primitive(kind, roles, problem)) == elements * F32
    assert moved_bytes(primitive(kind, roles, problem, "bf16")) == elements * 2


CONVOLUTION = (
    "cpu,convolution,brg,forward_training,src:{0}::blocked:acdb::f0 wei:{0}:a:blocked:Acdb::f0 "
    "bia:undef::undef::: dst:{0}::blocked:acdb::f0,{1},alg:convolution_direct,"
    "mb2_ic8oc16_ih10oh5kh1sh2dh0ph0_iw10ow5kw1sw2dw0pw0"
)
MATMUL = (
    "cpu,matmul,brg,undef,src:{0}::blocked:abc::f0 wei:{0}::blocked:abc::f0 "
    "dst:{0}::blocked:abc::f0,{1},,4x8x16:4x16x32"
)
STRIDED = "cpu,reorder,jit,undef,src:f32::blocked:ab:{}:f0 dst:f32::blocked:ab::f0,,,8x64"
OUTPUTS = {CONVOLUTION: 2 * 16 * 5 * 5, MATMUL: 4 * 8 * 32}


@pytest.mark.parametrize(
    ("body", "post_ops", "more"),
    [
        (CONVOLUTION, "attr-post-ops:eltwise_relu", 0),
        (CONVOLUTION, "attr-post-ops:sum", 2 * OUTPUTS[CONVOLUTION]),
        (CONVOLUTION, "attr-post-ops:sum:0.5+eltwise_relu", 2 * OUTPUTS[CONVOLUTION]),
        (CONVOLUTION, "attr-post-ops:sum:1:0:u8", OUTPUTS[CONVOLUTION]),
        (CONVOLUTION, "attr-post-ops:binary_add:f32:2:a", 4 * 16),
        (CONVOLUTION, "attr-post-ops:binary_mul:bf16:15:abcd", 2 * OUTPUTS[CONVOLUTION]),
        (CONVOLUTION, "attr-post-ops:prelu:2", 4 * 16),
        (CONVOLUTION, "post_ops:'sum;eltwise_relu;';", 2 * OUTPUTS[CONVOLUTION]),
        (MATMUL, "attr-post-ops:binary_add:f32:7:abc", 4 * OUTPUTS[MATMUL]),
        (MATMUL, "attr-post-ops:binary_add:f32:6:abc", 4 * 8 * 32),
        (MATMUL, "attr-post-ops:eltwise_relu+binary_add:f32:0:abc", 4),
        (MATMUL, "attr-post-ops:sum+binary_add:f32:4:abc", 2 * OUTPUTS[MATMUL] + 4 * 32),
    ],
)
def test_post_operations_read_more_tensors(body: str, post_ops: str, more: int) -> None:
    """`sum` reads what the output held before; a binary one, a tensor of the sizes in its mask."""
    plain, fused = (primitive_of(body.format("bf16", of)) for of in ("", post_ops))
    assert plain
    assert fused
    without = moved_bytes(plain)
    assert without
    assert moved_bytes(fused) == without + more


def test_an_elementwise_primitive_has_post_operations_of_its_output() -> None:
    body = "cpu,eltwise,jit,forward_inference,data:f32::blocked:ab::f0,{},alg:eltwise_relu,4x8"
    found = primitive_of(body.format("attr-post-ops:binary_mul:f32:3:ab"))
    assert found
    assert moved_bytes(found) == 3 * 4 * 8 * F32


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        (STRIDED.format("0x0"), 1 + 8 * 64),
        (STRIDED.format("0x1"), 64 + 8 * 64),
        (STRIDED.format("128x1"), 2 * 8 * 64),
        (
            MATMUL.format("f32", "").replace(
                "wei:f32::blocked:abc:", "wei:f32::blocked:abc:0x32x1"
            ),
            4 * 8 * 16 + 16 * 32 + 4 * 8 * 32,
        ),
        (
            "cpu,eltwise,jit,undef,data:f32::blocked:ab:0x1:f0,,alg:eltwise_relu,8x64",
            64 + 8 * 64,
        ),
        (
            "cpu,batch_normalization,jit,undef,data:f32::blocked:abcd:0x64x8x1:f0,,,mb4ic16ih8iw8",
            (1 + 4) * 16 * 64,
        ),
    ],
)
def test_what_is_broadcast_by_a_stride_of_zero_counts_once(body: str, elements: int) -> None:
    found = primitive_of(body)
    assert found
    assert moved_bytes(found) == elements * F32


@pytest.mark.parametrize(("mask", "elements"), [(2, 64), (3, 16 * 64), (0, 1)])
def test_a_products_bias_has_the_sizes_in_its_mask(mask: int, elements: int) -> None:
    found = primitive_of(
        "cpu,matmul,brg,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
        f"bia:f32::blocked:ab::f0_mask{mask} dst:f32::blocked:ab::f0,,,16x32:32x64"
    )
    assert found
    assert moved_bytes(found) == (16 * 32 + 32 * 64 + 16 * 64 + elements) * F32


@pytest.mark.parametrize("side", ["src", "wei"])
def test_a_sparse_product_has_no_known_work(side: str) -> None:
    """A log doesn't tell how many of its elements are not zero."""
    dense = (
        "cpu,matmul,ref,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
        "dst:f32::blocked:ab::f0,,,64x1024:1024x64"
    )
    found = primitive_of(dense.replace(f"{side}:f32::blocked:ab", f"{side}:f32::sparse:csr"))
    assert found
    assert (found.flops(), moved_bytes(found)) == (None, None)


@pytest.mark.parametrize(
    "memory",
    [
        "src:bf16::blocked:abcddst:bf16::blocked:aBcd16b::f0",
        "dst:bf16::blocked:aBcd16b::f0",
    ],
)
def test_a_reorder_without_a_side_is_damaged(memory: str) -> None:
    assert primitive_of(f"cpu,reorder,jit:uni,undef,{memory},,,2x16x8x8") is None


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
    assert moved_bytes(primitive(kind, roles, problem)) is None


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
    assert (fused.flops(), moved_bytes(fused)) == (None, None)


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
