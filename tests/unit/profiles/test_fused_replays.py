"""Primitives with operations behind them, and products of parts of tensors: by which kernels."""

from __future__ import annotations

import json
import random
import re

import pytest

from controller.contracts.replay import KernelReplay
from controller.profiles import log_replays
from controller.profiles.primitive import primitive_of
from controller.profiles.replay_arguments import NotReplayable

INNER = (
    "cpu,inner_product,brg_matmul:avx512_core_bf16,forward_inference,src:bf16::blocked:ab::f0 "
    "wei:bf16::blocked:ab::f0 bia:bf16::blocked:a::f0 dst:bf16::blocked:ab::f0,"
    "attr-scratchpad:user attr-post-ops:{},,mb64ic48oc32"
)
CONVOLUTION = (
    "cpu,convolution,brg_conv_fwd:avx512_core,forward_inference,src:f32::blocked:acdb::f0 "
    "wei:f32:a:blocked:Acdb32a::f0 bia:f32:a:blocked:a::f0 dst:f32::blocked:acdb::f0,"
    "attr-scratchpad:user attr-post-ops:{},alg:convolution_direct,"
    "mb2_ic16oc32_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1"
)
DECONVOLUTION = (
    "cpu,deconvolution,brg_deconv:avx512_core+brg_conv_fwd:avx512_core,forward_training,"
    "src:f32::blocked:acdb::f0 wei:f32:a:blocked:Acdb32a::f0 bia:f32:a:blocked:a::f0 "
    "dst:f32::blocked:acdb::f0,attr-scratchpad:user attr-post-ops:{},alg:deconvolution_direct,"
    "mb2_ic16oc32_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1"
)
LINEAR = (  # a linear layer of BERT in bf16, whose bias the output holds before
    "cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0 "
    "wei:bf16::blocked:ba::f0 dst:bf16::blocked:ab::f0,"
    "attr-scratchpad:user attr-post-ops:sum,,256x768:768x3072"
)
ATTENTION = (  # of one head and block, in BERT's attention backward
    "cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ba::f0 "
    "wei:bf16::blocked:ab:2048x1:f0 dst:bf16::blocked:ab:512x1:f0,"
    "attr-scratchpad:user attr-scales:src0:0:f32 attr-post-ops:sum,,64x32:32x64"
)
BATCHES = (
    "cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:acb::f0 "
    "wei:bf16::blocked:abc::f0 dst:bf16::blocked:abc::f0,"
    "attr-scratchpad:user attr-post-ops:sum:2,,3x64x48:3x48x32"
)
ACTIVATIONS = {
    "eltwise_relu": ("relu", [], ""),
    "eltwise_relu:0.1": ("leaky_relu", [0.1], ""),
    "eltwise_gelu_erf": ("gelu", [], "none"),
    "eltwise_gelu_tanh": ("gelu", [], "tanh"),
    "eltwise_tanh": ("tanh", [], ""),
    "eltwise_logistic:1": ("sigmoid", [], ""),
    "eltwise_clip:-1:2": ("hardtanh", [-1.0, 2.0], ""),
    "eltwise_hardsigmoid:0.166667:0.5": ("hardsigmoid", [], ""),
    "eltwise_hardswish:0.166667:0.5": ("hardswish", [], ""),
    "eltwise_swish:1": ("swish", [], ""),
}
"""As torch 2.13 has oneDNN log them → name, scalars and algorithm."""


def task_of(body: str) -> KernelReplay:
    primitive = primitive_of(body)
    assert primitive
    return log_replays.task_of(primitive)


@pytest.mark.parametrize("post_op", ACTIVATIONS)
@pytest.mark.parametrize(
    ("body", "kernel"),
    [
        (INNER, "mkldnn::_linear_pointwise"),
        (CONVOLUTION, "mkldnn::_convolution_pointwise"),
        (DECONVOLUTION, "mkldnn::_convolution_transpose_pointwise"),
    ],
)
def test_activations(body: str, kernel: str, post_op: str) -> None:
    task = task_of(body.format(post_op))
    assert task.kernel == kernel
    name, scalars, algorithm = ACTIVATIONS[post_op]
    assert json.loads(task.values)[-3:] == [repr(name), repr(scalars), repr(algorithm)]


def test_a_second_tensor_is_an_input_as_large_as_its_mask_tells() -> None:
    linear = task_of(INNER.format("binary_mul:bf16:3:ab"))
    assert linear.kernel == "mkldnn::_linear_pointwise.binary"
    assert json.loads(linear.dims)[:4] == [[64, 48], [64, 32], [32, 48], [32]]
    assert json.loads(linear.values)[-1] == "'mul'"
    layer = task_of(CONVOLUTION.format("binary_add:f32:15:acdb+eltwise_relu"))
    assert layer.kernel == "mkldnn::_convolution_pointwise.binary"
    assert json.loads(layer.dims)[:3] == [[2, 16, 8, 8], [2, 32, 8, 8], [32, 16, 3, 3]]
    assert json.loads(layer.strides)[1] == [2048, 1, 256, 32]
    assert json.loads(layer.values)[-5:] == ["'add'", "", "'relu'", "[]", ""]
    each = task_of(CONVOLUTION.format("binary_add:f32:2"))
    assert json.loads(each.dims)[1] == [1, 32, 1, 1]


def test_what_a_convolution_adds_to_is_its_output() -> None:
    task = task_of(CONVOLUTION.format("sum+eltwise_relu"))
    assert task.kernel == "mkldnn::_convolution_pointwise_.binary"
    assert json.loads(task.dims)[:3] == [[2, 32, 8, 8], [2, 16, 8, 8], [32, 16, 3, 3]]
    assert json.loads(task.values)[-5:] == ["'add'", "", "'relu'", "[]", ""]


def test_a_product_adds_to_what_is_there() -> None:
    linear = task_of(LINEAR)
    assert linear.kernel == "aten::addmm"
    assert json.loads(linear.dims) == [[3072], [256, 768], [768, 3072], [], []]
    assert json.loads(linear.strides)[1:3] == [[768, 1], [1, 768]]
    assert json.loads(linear.values)[3:] == ["1.0", "1.0"]
    batches = task_of(BATCHES)
    assert batches.kernel == "aten::baddbmm"
    assert json.loads(batches.strides)[1:3] == [[3072, 1, 64], [1536, 32, 1]]
    assert json.loads(batches.values)[3:] == ["2.0", "1.0"]
    between = task_of(BATCHES.replace("dst:bf16::blocked:abc", "dst:bf16::blocked:bac"))
    assert between.kernel == "aten::baddbmm.out"
    assert json.loads(between.strides)[-1] == [32, 96, 1]


def test_a_batch_may_have_one_product_or_several_sizes() -> None:
    one = task_of(BATCHES.replace("3x64x48:3x48x32", "1x64x48:1x48x32"))
    assert (one.kernel, json.loads(one.dims)[1]) == ("aten::baddbmm", [1, 64, 48])
    assert json.loads(one.strides)[1] == [3072, 1, 64]
    heads = BATCHES.replace("acb", "abdc").replace(":abc:", ":abcd:")
    several = task_of(heads.replace("3x64x48:3x48x32", "2x3x64x48:2x3x48x32"))
    assert json.loads(several.dims)[1] == [6, 64, 48]
    assert json.loads(several.strides)[1:3] == [[3072, 1, 64], [1536, 32, 1]]


def test_a_product_of_parts_of_tensors_has_their_strides_and_a_factor() -> None:
    task = task_of(ATTENTION)
    assert task.kernel == "aten::addmm.out"
    assert json.loads(task.dims) == [[64], [64, 32], [32, 64], [], [], [64, 64]]
    assert json.loads(task.strides)[1:3] == [[1, 64], [2048, 1]]
    assert json.loads(task.strides)[-1] == [512, 1]
    assert json.loads(task.values)[3:5] == ["1.0", "0.5"]
    alone = task_of(ATTENTION.replace(" attr-post-ops:sum", ""))
    assert json.loads(alone.values)[3:5] == ["0.0", "0.5"]
    plain = task_of(ATTENTION.replace(" attr-scales:src0:0:f32 attr-post-ops:sum", ""))
    assert (plain.kernel, json.loads(plain.dims)) == (
        "aten::mm.out",
        [[64, 32], [32, 64], [64, 64]],
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (INNER.format("sum"), "post-operations sum"),
        (INNER.format("eltwise_elu:1"), "post-operations eltwise_elu:1"),
        (INNER.format("eltwise_swish:2"), "post-operations eltwise_swish:2"),
        (INNER.format("eltwise_clip:nan:1"), "post-operations eltwise_clip:nan:1"),
        (INNER.format("eltwise_relu:1:2"), "post-operations eltwise_relu:1:2"),
        (INNER.format("binary_max:bf16:3:ab"), "post-operations binary_max"),
        (INNER.format("binary_add:bf16:3:ab+eltwise_relu"), "post-operations binary_add"),
        (INNER.format("binary_add:s8:3:ab"), "post-operations binary_add:s8"),
        (INNER.format("binary_add:bf16:²:ab"), "post-operations binary_add"),
        (INNER.format("eltwise_relu").replace("forward_inference", "backward_data"), "_relu"),
        (CONVOLUTION.format("sum:0.5"), "post-operations sum:0.5"),
        (CONVOLUTION.format("eltwise_relu+sum"), "post-operations eltwise_relu+sum"),
        (CONVOLUTION.format("sum+eltwise_tanh"), "post-operations sum+eltwise_tanh"),
        (CONVOLUTION.format("sum").replace("acdb", "abcd"), "only with channels-last"),
        (CONVOLUTION.format("sum").replace("forward_inference", "backward_data"), "sum"),
        (DECONVOLUTION.format("sum"), "post-operations sum"),
        (LINEAR.replace("sum", "eltwise_relu"), "post-operations eltwise_relu"),
        (LINEAR.replace("sum", "sum:1:3"), "post-operations sum:1:3"),
        (ATTENTION.replace("512x1", "99999999999x1"), "GiB, above 4"),
    ],
)
def test_what_is_not_replayed_says_why(body: str, why: str) -> None:
    with pytest.raises(NotReplayable, match=re.escape(why)):
        task_of(body)


@pytest.mark.parametrize("strides", ["0x1", "x", "512", "512x1x1", "9" * 5000 + "x1", "*x1"])
def test_strides_that_are_none_are_not_replayed(strides: str) -> None:
    with pytest.raises(NotReplayable, match=r"its strides .* are not those of a part of a tensor"):
        task_of(ATTENTION.replace("512x1", strides))


def test_no_damage_of_a_body_escapes() -> None:
    rng = random.Random(7)
    post_ops = ("sum+eltwise_relu", "binary_add:f32:15:acdb", "eltwise_clip:-1:2")
    every = [body.format(one) for one in post_ops for body in (INNER, CONVOLUTION, DECONVOLUTION)]
    kept = 0
    for _ in range(3000):
        body = list(rng.choice([*every, LINEAR, ATTENTION, BATCHES]))
        for _ in range(rng.randint(1, 4)):
            body[rng.randrange(4, len(body))] = rng.choice("0159-xgab:,_+ ²*")
        primitive = primitive_of("".join(body))
        try:
            kept += bool(primitive and log_replays.task_of(primitive))
        except NotReplayable:
            continue
    assert kept
