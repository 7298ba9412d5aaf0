"""Primitives that torch runs on tensors given to oneDNN: as which kernels, and which not."""

from __future__ import annotations

import json
import random
import re

import pytest

from controller.contracts.replay import KernelReplay
from controller.profiles import log_replays
from controller.profiles.opaque_replays import OPAQUE_MAKERS
from controller.profiles.primitive import primitive_of
from controller.profiles.replay_arguments import NotReplayable

BOTH = "src:f32::blocked:abcd::f0 dst:f32::blocked:abcd::f0"
RELU = f"cpu,eltwise,jit:avx2,forward_training,{BOTH},,alg:eltwise_relu alpha:0 beta:0,2x16x8x8"
NORM = f"cpu,batch_normalization,bnorm_jit:avx2,forward_training,{BOTH},,flags:CH,mb2ic16ih8iw8"
POOL = (
    f"cpu,pooling,jit:avx2,forward_training,{BOTH} ws:u8::blocked:abcd::f0,,alg:pooling_max,"
    "mb2ic16_ih9oh4kh3sh2dh0ph0_iw9ow4kw3sw2dw0pw0"
)
SUM = (
    "cpu,sum,jit:avx2,undef,src:f32::blocked:ab::f0 src:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,,,8x16"
)
BINARY = SUM.replace("cpu,sum", "cpu,binary").replace(",,,8x16", ",,alg:binary_mul,8x16:8x16")
SOFTMAX = (
    "cpu,softmax,jit:avx2,forward_inference,src:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,"
    "alg:softmax_accurate axis:1,8x16"
)
LSTM = (
    "cpu,rnn,ref_any,forward_training,src_layer:f32::blocked:abc::f0 src_iter:f32::blocked:abcd::f0"
    " wei_layer:f32:a:blocked:abdec::f0 wei_iter:f32:a:blocked:abdec::f0 bias:f32::blocked:abcd::f0"
    " dst_layer:f32::blocked:abc::f0,,alg:vanilla_lstm direction:unidirectional_left2right"
    " activation:undef,l1t5mb2sic16slc8dhc16dic16"
)
SCALED = (
    "cpu,eltwise,jit:avx512_core_bf16,forward_inference,data:f32::blocked:abcd::f0,"
    "attr-scratchpad:user,alg:eltwise_linear alpha:2 beta:0,2x16x8x8"
)
PRELU = (
    "cpu,prelu,jit_uni,forward_training,data:f32::blocked:abcd::f0 wei:f32:a:blocked:abcd::f0,,,"
    "2x16x8x8:1x16x1x1"
)
LAYERS = (
    "cpu,layer_normalization,jit:uni,forward_training,src:f32::blocked:abc::f0 "
    "dst:f32::blocked:abc::f0 stats:f32::blocked:ab::f0 scale:f32::blocked:a::f0 "
    "shift:f32::blocked:a::f0,attr-scratchpad:user,flags:CH,4x32x8"
)
VOLUMES = (
    "cpu,pooling,jit:avx2,forward_training,src:f32::blocked:abcde::f0 dst:f32:a:blocked:abcde::f0 "
    "ws:u8::blocked:abcde::f0,,alg:pooling_max,"
    "mb2ic16_id8od4kd2sd2dd0pd0_ih8oh4kh2sh2dh0ph0_iw8ow4kw2sw2dw0pw0"
)
EVERY = (SCALED, PRELU, LAYERS, VOLUMES, RELU, NORM, POOL, SUM, BINARY, SOFTMAX, LSTM)


def task_of(body: str) -> KernelReplay:
    primitive = primitive_of(body)
    assert primitive
    return log_replays.task_of(primitive)


@pytest.mark.parametrize(
    ("body", "kernel", "dims"),
    [
        (RELU, "aten::relu", [[2, 16, 8, 8]]),
        (RELU.replace("relu", "gelu_erf"), "aten::gelu", [[2, 16, 8, 8]]),
        (SUM, "aten::add.Tensor", [[8, 16]] * 2),
        (BINARY, "aten::mul.Tensor", [[8, 16]] * 2),
        (SOFTMAX, "aten::_softmax", [[8, 16], [], []]),
        (NORM, "aten::native_batch_norm", [[2, 16, 8, 8], [16], [16], [], [], [], [], []]),
        (POOL, "aten::mkldnn_max_pool2d", [[2, 16, 9, 9], [], [], [], [], []]),
        (VOLUMES, "aten::mkldnn_max_pool3d", [[2, 16, 8, 8, 8], [], [], [], [], []]),
        (SCALED, "aten::mul.Scalar", [[2, 16, 8, 8], []]),
        (PRELU, "aten::prelu", [[2, 16, 8, 8], [16]]),
        (LAYERS, "prim::MKLDNNLayerNorm", [[4, 32, 8], [], [8], [8], [], []]),
    ],
)
def test_kernel_and_sizes(body: str, kernel: str, dims: list[list[int]]) -> None:
    task = task_of(body)
    assert (task.kernel, json.loads(task.dims)) == (kernel, dims)
    assert json.loads(task.dtypes)[0] == "mkldnn float"


def test_some_layouts_come_out_of_a_convolution() -> None:
    for body, letters, chosen in (
        (RELU, "abcd", "aBcd8b"),
        (NORM, "abcd", "aBcd16b"),
        (VOLUMES, "abcde", "acdeb"),
    ):
        task = task_of(body.replace(letters, chosen))
        assert json.loads(task.dtypes)[0] == "convolved float"
        assert task.dims == task_of(body).dims


def test_an_lstm_layer_runs_on_plain_tensors_and_tells_its_way() -> None:
    task = task_of(LSTM)
    sizes = [[5, 2, 8], [64, 8], [64, 16], [64], [64], [2, 16], [2, 16]]
    assert (task.kernel, json.loads(task.dims)[:7]) == ("aten::mkldnn_rnn_layer", sizes)
    assert json.loads(task.dtypes)[:7] == ["float"] * 7
    back = task_of(LSTM.replace("left2right", "right2left"))
    assert (json.loads(task.values)[7], json.loads(back.values)[7]) == ("False", "True")


def test_gradients_are_computed_where_the_primitive_is_one() -> None:
    for body, forward in ((RELU, False), (NORM, False), (LSTM, False), (POOL, True)):
        assert task_of(body).gradients is forward
        gradient = task_of(body.replace("forward_training", "backward"))
        assert gradient.gradients
        assert (gradient.key == task_of(body).key) is forward


def test_a_pooling_rounds_its_output_up_or_down() -> None:
    assert json.loads(task_of(POOL).values)[-1] == "False"
    even = POOL.replace("ih9", "ih10").replace("iw9", "iw10")
    assert json.loads(task_of(even).values)[-1] == "False"
    up = even.replace("oh4", "oh5").replace("ow4", "ow5")
    assert json.loads(task_of(up).values)[-1] == "True"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (RELU.replace("abcd", "acdb"), "no tensors of layout acdb"),
        (RELU.replace("abcd", "aBcd4b"), "no tensors of layout aBcd4b"),
        (RELU.replace("dst:f32::blocked:abcd", "dst:f32::blocked:acdb"), "layout abcd and acdb"),
        (RELU.replace("abcd", "aBcd8b").replace("2x16x8x8", "2x16"), "no tensors of layout aBcd8b"),
        (SCALED.replace("beta:0", "beta:1"), "torch runs no eltwise_linear alpha:2 beta:1"),
        (SCALED.replace("alpha:2", "alpha:nan"), "torch runs no eltwise_linear alpha:nan"),
        (SCALED.replace("inference", "training"), "torch runs no eltwise_linear"),
        (PRELU.replace("1x16x1x1", "1x1x8x1"), "one slope, or one for each channel"),
        (LAYERS.replace("f32", "bf16"), "in f32, forward, alone"),
        (LAYERS.replace("forward_training", "backward"), "in f32, forward, alone"),
        (LAYERS.replace("flags:CH", "flags:"), "with a scale and a shift alone"),
        (RELU.replace("alpha:0", "alpha:0.1"), "torch runs no eltwise_relu alpha:0.1"),
        (RELU.replace("relu", "mish"), "torch runs no eltwise_mish"),
        (RELU.replace("f32", "s8"), "no kernel of torch takes s8"),
        (RELU.replace("2x16", "0x16"), "sizes are not known"),
        (RELU.replace("2x16", "*x16"), "sizes are not known"),
        (RELU.replace("2x16", "²x16"), "sizes are not known"),
        (RELU.replace("2x16", "9" * 5000 + "x16"), "sizes are not known"),
        (RELU.replace("2x16", "200000000x16"), "GiB, above 4"),
        (SUM.replace("8x16", "1x1x1x1x8x16"), "of 5 dimensions at most"),
        (SUM.replace("sum,jit", "sum,x").replace(" dst", " src:f32::blocked:ab::f0 dst"), "two"),
        (BINARY.replace("mul", "div"), "torch runs no binary_div"),
        (BINARY.replace(":8x16", ""), "sizes are not known"),
        (BINARY.replace("8x16:8x16", "1000000x1:1x1000000"), "GiB, above 4"),
        (PRELU.replace(":1x16x1x1", ":1"), "one slope, or one for each channel"),
        (POOL.replace("ph0", "ph9"), "window is not known"),
        (
            POOL.replace("ih9oh4kh3", "ih20000oh5001kh10000").replace(
                "iw9ow4kw3", "iw20000ow5001kw10000"
            ),
            "FLOPs, above 2e+12",
        ),
        (SOFTMAX.replace("accurate", "log"), "torch runs no softmax_log"),
        (SOFTMAX.replace("axis:1", "axis:77"), "torch runs no softmax_accurate axis:77"),
        (SOFTMAX.replace("axis:1", "axis:"), "torch runs no softmax_accurate axis:"),
        (SOFTMAX.replace("axis:1", "axis:01"), "torch runs no softmax_accurate axis:01"),
        (SOFTMAX.replace("axis:1", "axis:2"), "torch runs no softmax_accurate axis:2"),
        (NORM.replace("flags:CH", "flags:CHR"), "fuses nothing"),
        (NORM.replace("ic16", ""), "it has no size ic"),
        (POOL.replace("dh0", "dh1"), "without dilation"),
        (POOL.replace("sh2", "sh0"), "window is not known"),
        (POOL.replace("oh4", "oh7"), "padding is not the same"),
        (LSTM.replace("lstm", "gru"), "single layers of LSTMs"),
        (LSTM.replace("l1t5", "l2t5"), "single layers of LSTMs"),
        (LSTM.replace("sic16", "sic8"), "no LSTM with projections"),
        (LSTM.replace("mb2", "mb-2"), "sizes are not known"),
        (LSTM.replace("mb2", "mb90000000"), "GiB, above 4"),
        (
            LSTM.replace("t5mb2", "t500mb100").replace("16", "1024").replace("slc8", "slc4096"),
            "FLOPs, above 2e+12",
        ),
        (RELU.replace("eltwise,", "shuffle,"), "torch runs no shuffle by oneDNN"),
        (RELU.replace(",alg", "attr-post-ops:sum,alg"), "post-operations sum"),
    ],
)
def test_what_is_not_replayed_says_why(body: str, why: str) -> None:
    with pytest.raises(NotReplayable, match=re.escape(why)):
        task_of(body)


def test_no_damage_of_a_body_escapes() -> None:
    rng = random.Random(5)
    for _ in range(2000):
        body = list(rng.choice(EVERY))
        for _ in range(rng.randint(1, 4)):
            begin = rng.randrange(4, len(body))
            body[begin : begin + rng.randint(1, 4)] = rng.choice(["", *"0159-xgab:,_ ²"])
        primitive = primitive_of("".join(body))
        if primitive and primitive.kind in OPAQUE_MAKERS:
            try:
                task = log_replays.task_of(primitive)
            except NotReplayable:
                continue
            assert all(size > 0 for dims in json.loads(task.dims) for size in dims)


def test_other_functions_are_other_work() -> None:
    relu, gelu = (primitive_of(body) for body in (RELU, RELU.replace("relu", "gelu_erf")))
    assert relu
    assert gelu
    assert log_replays.likeness(relu) != log_replays.likeness(gelu)
