"""A log's primitives as kernels of torch: which, with which inputs, and which not and why."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agents.log_replay.worker import replay_all
from agents.profiling.replay import LEAST_RUNS
from controller.cli.main import app
from controller.contracts.errors import UserError
from controller.contracts.replay import (
    REPLAY_LOG,
    KernelReplay,
    LogReplayed,
    LogReplays,
    Replayed,
)
from controller.platform.helper_main import Replies
from controller.profiles.files import read
from controller.profiles.importing import import_file
from controller.profiles.log_projecting import log_projected, step_seconds
from controller.profiles.log_replays import likeness, planned_replays
from controller.profiles.marks import REPLAY
from controller.profiles.model import Profile
from controller.profiles.primitive import primitive_of
from controller.profiles.projecting import samples_of
from controller.runtime.log_replay import run_log_replays

ROOT = Path(__file__).parents[3]
CONVOLUTION = (
    "cpu,convolution,brg_conv_fwd:avx2,forward_training,src:f32::blocked:acdb::f0 "
    "wei:f32:a:blocked:Acdb32a::f0 bia:f32:a:blocked:a::f0 dst:f32::blocked:acdb::f0,"
    "attr-scratchpad:user,alg:convolution_direct,"
    "g4mb2_ic32oc64_ih32oh16kh3sh2dh0ph1_iw32ow16kw3sw2dw0pw1"
)
PLAIN = CONVOLUTION.replace("src:f32::blocked:acdb", "src:f32:a:blocked:aBcd8b").replace(
    "dst:f32::blocked:acdb", "dst:f32:a:blocked:aBcd8b"
)
INNER = (
    "cpu,inner_product,brgemm:avx2,forward_training,src:bf16::blocked:ab::f0 "
    "wei:bf16:a:blocked:ab::f0 bia:undef::undef::: dst:bf16::blocked:ab::f0,,,mb8ic16oc4"
)
MATMUL = (
    "cpu,matmul,brg_matmul:avx2,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ba::f0 "
    "dst:f32::blocked:ab::f0,,,128x64:64x32"
)
GRADIENT = INNER.replace("forward_training", "backward_weights")
REORDER = (
    "cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:acdb::f0,,,2x64x32x32"
)


def log_of(*bodies: str, repeats: int = 4, milliseconds: float = 1.0) -> bytes:
    lines = [f"onednn_verbose,v1,primitive,exec,{body},{milliseconds}\n" for body in bodies]
    return "".join(lines * repeats).encode()


def imported(tmp_path: Path, *bodies: str) -> Profile:
    file = tmp_path / "it.log"
    file.write_bytes(log_of(*bodies))
    return import_file(file)


def task_of(tmp_path: Path, body: str) -> KernelReplay:
    planned = planned_replays(imported(tmp_path, body, REORDER).primitives)
    assert planned.refused.keys() == {REORDER}
    return planned.tasks[body]


def refusal_of(tmp_path: Path, body: str) -> str:
    return planned_replays(imported(tmp_path, body, REORDER).primitives).refused[body]


def test_a_convolution_has_sizes_layout_stride_and_groups(tmp_path: Path) -> None:
    task = task_of(tmp_path, CONVOLUTION)
    assert task.kernel == "aten::convolution"
    dims, strides = json.loads(task.dims), json.loads(task.strides)
    assert dims[:3] == [[2, 32, 32, 32], [64, 8, 3, 3], [64]]
    assert strides[0] == [32 * 32 * 32, 1, 32 * 32, 32]
    assert strides[1] == [72, 1, 24, 8]
    assert json.loads(task.dtypes)[:4] == ["float", "float", "float", ""]
    window = ["[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "4"]
    assert json.loads(task.values)[3:] == window
    assert json.loads(task_of(tmp_path, PLAIN).strides)[0] == [32768, 1024, 32, 1]


@pytest.mark.parametrize(
    ("propagation", "mask"),
    [("backward_data", "[True, False, False]"), ("backward_weights", "[False, True, True]")],
)
def test_its_gradients(tmp_path: Path, propagation: str, mask: str) -> None:
    task = task_of(tmp_path, CONVOLUTION.replace("forward_training", propagation))
    assert task.kernel == "aten::convolution_backward"
    assert json.loads(task.dims)[:3] == [[2, 64, 16, 16], [2, 32, 32, 32], [64, 8, 3, 3]]
    assert json.loads(task.values)[3] == "[64]"
    assert json.loads(task.values)[-1] == mask


def test_a_deconvolution_turns_its_ends(tmp_path: Path) -> None:
    body = CONVOLUTION.replace("convolution", "deconvolution", 1).replace(
        "g4mb2_ic32oc64_ih32oh16kh3sh2dh0ph1_iw32ow16kw3sw2dw0pw1",
        "mb2_ic64oc32_ih16oh32kh3sh2dh0ph1_iw16ow32kw3sw2dw0pw1",
    )
    task = task_of(tmp_path, body)
    assert json.loads(task.dims)[:2] == [[2, 64, 16, 16], [64, 32, 3, 3]]
    assert json.loads(task.values)[6:8] == ["True", "[1, 1]"]


def test_products(tmp_path: Path) -> None:
    forward = task_of(tmp_path, INNER)
    assert forward.kernel == "mkldnn::_linear_pointwise"
    assert json.loads(forward.dims)[:2] == [[8, 16], [4, 16]]
    assert json.loads(forward.dtypes)[0] == "c10::BFloat16"
    weights = task_of(tmp_path, INNER.replace("forward_training", "backward_weights"))
    assert (weights.kernel, json.loads(weights.dims)) == ("aten::mm", [[4, 8], [8, 16]])
    assert json.loads(weights.strides) == [[1, 4], [16, 1]]
    product = task_of(tmp_path, MATMUL)
    assert (product.kernel, json.loads(product.dims)) == ("aten::mm", [[128, 64], [64, 32]])
    assert json.loads(product.strides) == [[64, 1], [1, 64]]
    batches = task_of(
        tmp_path,
        MATMUL.replace(":ab", ":abc")
        .replace(":ba", ":acb")
        .replace("128x64:64x32", "3x128x64:3x64x32"),
    )
    assert (batches.kernel, json.loads(batches.dims)) == ("aten::bmm", [[3, 128, 64], [3, 64, 32]])
    assert json.loads(batches.strides) == [[8192, 64, 1], [2048, 1, 64]]


MODES = (
    "attr-fpmath:bf16",
    "attr-fpmath:any:true",
    "attr-acc-mode:relaxed",
    "attr-rounding-mode:dst:stochastic",
    "attr-deterministic:1",
    "attr-dropout:ab",
    "attr-scales:wei:2:f32",
    "attr-zero-points:dst:0:s32",
    "attr-oscale:2",
    "attr-something-new:1",
)
"""As oneDNN 3.12 logs them: src/common/verbose.cpp."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", [CONVOLUTION, INNER, MATMUL])
def test_another_arithmetic_is_other_work_and_not_replayed(
    tmp_path: Path, body: str, mode: str
) -> None:
    """Torch would run f32 in full where the log's was rounded to bf16: no replay of it."""
    before, attributes, *after = body.rsplit(",", 3)
    other = ",".join((before, f"{attributes} {mode}", *after))
    plain, moded = (primitive_of(one) for one in (body, other))
    assert plain
    assert moded
    assert likeness(plain) != likeness(moded)
    assert f"no kernel of torch runs it with {mode}" in refusal_of(tmp_path, other)
    found = projected(tmp_path, replay_log(body, 0.5), body, other)
    assert [row.body for row in found.primitives if row.replay] == [body]
    told = f"not replayed, 50.0% of the time: {plain.kind} {plain.direction}".strip()
    assert any(note.startswith(told) and note.endswith(mode) for note in found.summary.notes)


def test_where_the_scratchpad_is_changes_no_work() -> None:
    bodies = (CONVOLUTION, CONVOLUTION.replace("attr-scratchpad:user", ""))
    assert len({likeness(one) for body in bodies if (one := primitive_of(body))}) == 1


STRIDED = CONVOLUTION.replace("src:f32::blocked:acdb:", "src:f32::blocked:acdb:131072x1x8192x512")
PART = MATMUL.replace("src:f32::blocked:ab:", "src:f32::blocked:ab:4096x1")
COLUMN = MATMUL.replace("dst:", "bia:f32::blocked:ab::f0_mask{} dst:").replace("64x32", "64x1")
BIASED = MATMUL.replace("dst:", "bia:f32::blocked:ab::f0_mask{} dst:")


@pytest.mark.parametrize(
    ("body", "other", "are_alike"),
    [
        (CONVOLUTION, STRIDED, False),
        (BIASED.format(2), BIASED.format(3), False),
        (BIASED.format(2), BIASED.format(2).replace("_mask2", ""), True),
        (MATMUL, MATMUL.replace("64x32", "64x32:128x32"), True),  # as oneDNN 2 and 3.0 tell it
        (MATMUL, PART, False),
        (COLUMN.format(0), COLUMN.format(2), True),  # a size of one has no bit
        (COLUMN.format(0), COLUMN.format(1), False),
        (CONVOLUTION, CONVOLUTION.replace("forward_training", "forward_inference"), True),
        (INNER, INNER.replace("forward_training", "forward_inference"), True),
        (INNER, INNER.replace("forward_training", "backward_data"), False),
    ],
)
def test_only_the_same_work_is_alike(body: str, other: str, are_alike: bool) -> None:
    one, two = (primitive_of(each) for each in (body, other))
    assert one
    assert two
    assert (likeness(one) == likeness(two)) is are_alike


@pytest.mark.parametrize("kind", ["batch_normalization", "pooling", "rnn"])
def test_what_keeps_a_workspace_in_training_infers_otherwise(kind: str) -> None:
    body = CONVOLUTION.replace("convolution", kind, 1).replace("alg:convolution_direct", "alg:max")
    ways = [primitive_of(body), primitive_of(body.replace("forward_training", "forward_inference"))]
    assert len({likeness(one) for one in ways if one}) == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (CONVOLUTION.replace("cpu", "gpu"), "it ran on engine gpu"),
        (CONVOLUTION.replace("f32", "s8"), "no kernel of torch takes s8"),
        (CONVOLUTION.replace("wei:f32", "wei:bf16"), "no kernel of torch takes bf16 and f32"),
        (CONVOLUTION.replace("forward_training", "sideways"), "propagation sideways"),
        (CONVOLUTION.replace("g4", "g5"), "5 groups do not divide"),
        (CONVOLUTION.replace("g4", "g0"), "sizes are not known"),
        (CONVOLUTION.replace("ph1", "ph0"), "padding is not the same"),
        (CONVOLUTION.replace("mb2", "mb-2"), "sizes are not known"),
        (CONVOLUTION.replace("mb2", "mb0"), "sizes are not known"),
        (CONVOLUTION.replace("sh2", "sh0"), "strides are not known"),
        (CONVOLUTION.replace("mb2", "mb200000"), "GiB, above 4"),
        (CONVOLUTION.replace("g4mb2_ic32oc64", "g1mb40_ic4096oc4096"), "FLOPs, above 2e+12"),
        (CONVOLUTION.replace("ih32oh16", "oh16"), "it has no size ih"),
        (INNER.replace("ic16", "ic99999999999999"), "GiB, above 4"),
        (MATMUL.replace("128x64:", "9" * 5000 + "x64:"), "sizes are not known"),
        (MATMUL.replace("128x64:", "²x64:"), "sizes are not known"),
        (MATMUL.split(" dst")[0] + ",,,524288x1:1x1048576", "GiB, above 4"),
        (MATMUL.replace("128x64:64x32", "*x64:64x32"), "sizes are not known"),
        (MATMUL.replace("128x64:64x32", "1x128x64:8x64x32"), "batches of different sizes"),
        (MATMUL.replace("matmul", "shuffle"), "torch runs no shuffle"),
        (BIASED.format(3), "no kernel of torch adds a bias but one for each column"),
        (PART.replace("4096x1", "0x1"), "its strides 0x1 are not those of a part of a tensor"),
        (PART.replace("4096x1", "*x1"), "its strides *x1 are not those of a part of a tensor"),
        (REORDER.replace("64", "65"), "no kernel that was replayed has this reorder"),
    ],
)
def test_what_is_not_replayed_says_why(tmp_path: Path, body: str, why: str) -> None:
    assert why in refusal_of(tmp_path, body)


def test_no_damage_of_a_body_escapes(tmp_path: Path) -> None:
    rng = random.Random(3)
    for _ in range(600):
        body = list(rng.choice((CONVOLUTION, INNER, MATMUL)))
        for _ in range(rng.randint(1, 4)):
            begin = rng.randrange(4, len(body))
            body[begin : begin + rng.randint(1, 4)] = rng.choice(["", *"0159-xgab:,_ "])
        try:
            rows = imported(tmp_path, "".join(body), REORDER).primitives
        except UserError:
            continue
        planned = planned_replays(rows)
        assert planned.tasks.keys() | planned.refused.keys() == {row.body for row in rows}


def projected(
    tmp_path: Path,
    replays: str,
    *bodies: str,
    done: LogReplayed | None = None,
    steps_s: Sequence[float] = (0.002,) * 4,
) -> Profile:
    profile = imported(tmp_path, *bodies)
    planned = planned_replays(profile.primitives)
    keys = dict.fromkeys(task.key for task in planned.tasks.values())
    given = done or LogReplayed(
        replayed=tuple(Replayed(key=key, samples=(0.003,) * 11) for key in keys), threads=2
    )
    samples = samples_of(BytesIO(replays.encode()), given.replayed)
    return log_projected(profile, planned, given, samples, steps_s)


def replay_log(body: str, milliseconds: float, number: int = 0) -> str:
    line = f"onednn_verbose,v1,primitive,exec,{body},{milliseconds}\n"
    return f"{REPLAY}{number}\n{line * 11}{REPLAY}\n"


def test_only_equal_primitives_are_compared(tmp_path: Path) -> None:
    """By body; else by work, whatever the implementation is; of products, the whole kernel."""
    same = projected(tmp_path, replay_log(CONVOLUTION, 0.5), CONVOLUTION, REORDER)
    assert same.summary.efficiency == pytest.approx(0.5)
    assert same.summary.replayed == pytest.approx(0.5)
    other = CONVOLUTION.replace("brg_conv_fwd:avx2", "jit:avx512")
    elsewhere = projected(tmp_path, replay_log(other, 0.5), CONVOLUTION, REORDER).summary
    assert elsewhere.efficiency == pytest.approx(0.5)
    ran = "50.0% of the time: convolution brg_conv_fwd:avx2 ran as jit:avx512"
    assert [ran in note for note in elsewhere.notes].count(True) == 1
    assert not any("another implementation" in note for note in same.summary.notes)
    for unlike in (
        CONVOLUTION.replace("ih32", "ih64"),
        CONVOLUTION.replace("f32", "bf16"),
        PLAIN,
        CONVOLUTION.replace("forward_training", "backward_data"),
        CONVOLUTION.replace("attr-scratchpad:user", "attr-post-ops:eltwise_relu"),
    ):
        found = projected(tmp_path, replay_log(unlike, 0.5), CONVOLUTION, REORDER)
        assert found.summary.efficiency is None
        told = "not replayed, 50.0% of the time: convolution FWD_D: no kernel ran it as that"
        assert any(told in note for note in found.summary.notes)


def test_a_product_without_onednn_counts_as_its_whole_kernel_and_says_so(tmp_path: Path) -> None:
    whole = projected(tmp_path, replay_log(REORDER, 0.5), MATMUL, REORDER).summary
    assert whole.efficiency == pytest.approx((3.0 + 0.5) / 2)
    told = "replayed as other work, 50.0% of the time: matmul ran as a whole kernel without oneDNN"
    assert told in whole.notes


@pytest.mark.parametrize(
    ("product", "ran"),
    [
        (MATMUL, MATMUL.replace("dst:f32", "dst:bf16")),
        (MATMUL, MATMUL.replace("128x64", "256x64")),
        (INNER, MATMUL.replace("f32", "bf16").replace("128x64:64x32", "8x16:16x4")),
        (GRADIENT, MATMUL.replace("f32", "bf16").replace("128x64:64x32", "4x16:16x16")),
        (GRADIENT, MATMUL.replace("128x64:64x32", "4x8:8x16")),
    ],
)
def test_a_kernel_that_ran_other_work_by_onednn_does_not_count(
    tmp_path: Path, product: str, ran: str
) -> None:
    found = projected(tmp_path, replay_log(ran, 0.5), product, REORDER).summary
    assert found.efficiency is None
    assert any("no kernel ran it as that primitive" in note for note in found.notes)


def test_a_gradient_of_an_inner_product_may_run_as_a_product(tmp_path: Path) -> None:
    ran = MATMUL.replace("f32", "bf16").replace("128x64:64x32", "4x8:8x16")
    found = projected(tmp_path, replay_log(ran, 0.5), GRADIENT, REORDER).summary
    assert found.efficiency == pytest.approx(0.5), "the product alone, and not its kernel"
    assert "replayed as other work, 50.0% of the time: inner_product BWD_W ran as matmul" in (
        found.notes
    )


def test_a_bias_in_bf16_is_added_to_and_says_so(tmp_path: Path) -> None:
    """torch has the output hold it before the product."""
    product = BIASED.format(2).replace("f32", "bf16")
    ran = MATMUL.replace("f32", "bf16").replace(",,,", ",attr-post-ops:sum,,")
    found = projected(tmp_path, replay_log(ran, 0.5), product, REORDER).summary
    assert found.efficiency == pytest.approx(0.5)
    told = "replayed as other work, 50.0% of the time: matmul ran as one that adds to its bias"
    assert told in found.notes


def test_a_stand_in_counts_for_its_own_work_alone(tmp_path: Path) -> None:
    """A part of a tensor ran without oneDNN; the whole ran by it, and by two implementations."""
    other = MATMUL.replace("brg_matmul:avx2", "gemm:jit")
    found = projected(tmp_path, replay_log(MATMUL, 0.5), MATMUL, PART, other)
    seconds = {row.body: row.replay.seconds for row in found.primitives if row.replay}
    assert seconds == pytest.approx({MATMUL: 0.0005, other: 0.0005, PART: 0.003})


def test_a_log_without_times_has_no_efficiency(tmp_path: Path) -> None:
    (file := tmp_path / "it.log").write_bytes(log_of(CONVOLUTION, REORDER, milliseconds=0.0))
    profile = import_file(file)
    planned = planned_replays(profile.primitives)
    done = LogReplayed(replayed=(Replayed(key=planned.tasks[CONVOLUTION].key),), threads=2)
    other = CONVOLUTION.replace("brg_conv_fwd:avx2", "jit:avx512")
    for log in ("", replay_log(other, 0.5)):
        samples = samples_of(BytesIO(log.encode()), done.replayed)
        assert log_projected(profile, planned, done, samples).summary.efficiency is None


def test_of_very_many_primitives_those_with_most_time_are_run(tmp_path: Path) -> None:
    bodies = [CONVOLUTION.replace("mb2", f"mb{n}") for n in (1, 2, 3, 4)]
    planned = planned_replays(imported(tmp_path, *bodies).primitives, most=2)
    assert len(planned.tasks) == 2
    assert [*planned.refused.values()] == ["2 others take longer"] * 2


def test_a_slow_step_is_not_in_the_efficiency(tmp_path: Path) -> None:
    """Times are those of the median step: of five, one took ten times as long."""
    steady = projected(tmp_path, replay_log(CONVOLUTION, 0.5), CONVOLUTION, REORDER)
    slow = projected(
        tmp_path,
        replay_log(CONVOLUTION, 0.5),
        CONVOLUTION,
        REORDER,
        steps_s=(0.002, 0.002, 0.02, 0.002, 0.002),
    )
    scale = 0.002 / 0.0056
    assert slow.summary.scale == pytest.approx(scale)
    for row, same in zip(slow.primitives, steady.primitives, strict=True):
        assert (row.seconds, row.least_s) == pytest.approx(
            (scale * same.seconds, scale * same.least_s)
        )
    assert slow.summary.efficiency == pytest.approx(0.5 / scale)
    assert slow.summary.onednn_s == pytest.approx(scale * (steady.summary.onednn_s or 0.0))
    told = "times are scaled to the median step, of 2 ms in primitives; the mean is 5.6 ms"
    assert told in slow.summary.notes
    once = projected(tmp_path, replay_log(CONVOLUTION, 0.5), CONVOLUTION, REORDER, steps_s=(0.02,))
    assert once.summary.scale is None


def test_what_was_refused_or_disturbed_is_said(tmp_path: Path) -> None:
    task = planned_replays(imported(tmp_path, CONVOLUTION, REORDER).primitives).tasks[CONVOLUTION]
    refused = Replayed(key=task.key, refused="RuntimeError: no")
    done = LogReplayed(replayed=(refused,), disturbed=("others worked",), threads=1)
    found = projected(tmp_path, "", CONVOLUTION, REORDER, done=done)
    assert found.summary.validity == "DISTURBED"
    assert found.summary.reasons == ("replays: others worked",)
    notes = "\n".join(found.summary.notes)
    assert "convolution FWD_D: RuntimeError: no" in notes
    assert "reorder: no kernel that was replayed has this reorder" in notes
    assert "replayed by 1 threads; the log tells none" in notes


def test_no_memory_is_taken_that_the_host_has_not(tmp_path: Path) -> None:
    """A kernel that would need more is refused before its tensors are made."""
    task = task_of(tmp_path, CONVOLUTION).model_copy(update={"bytes": 2.0**60})
    wanted = LogReplays(tasks=(task,), folder=str(tmp_path), threads=0, time_limit_s=60.0)
    (refused,) = replay_all(wanted, Replies(StringIO()))
    assert refused.refused
    assert "6.44e+09 GiB of memory, and " in refused.refused


def test_each_round_turns_the_order_round(tmp_path: Path) -> None:
    tasks = tuple(task_of(tmp_path, body) for body in (CONVOLUTION, MATMUL))
    (folder := tmp_path / "replays").mkdir()
    wanted = LogReplays(tasks=tasks, folder=str(folder), threads=1, time_limit_s=60.0, rounds=3)
    done = run_log_replays(wanted)
    assert [one.key for one in done.replayed] == [task.key for task in tasks]
    assert [one.refused for one in done.replayed] == [None, None]
    assert min(len(one.samples) for one in done.replayed) >= 3 * LEAST_RUNS
    numbers = re.findall(rf"^{REPLAY}(\d+)$", (folder / REPLAY_LOG).read_text(), re.MULTILINE)
    assert numbers == ["0", "1", "1", "0", "0", "1"]


def test_what_is_too_late_for_any_round_is_refused(tmp_path: Path) -> None:
    tasks = tuple(task_of(tmp_path, body) for body in (CONVOLUTION, MATMUL))
    late = LogReplays(tasks=tasks, folder=str(tmp_path), threads=0, time_limit_s=-1.0, rounds=2)
    each = list(replay_all(late, Replies(StringIO())))
    assert [one.refused for one in each] == ["the time limit of -1 s had passed"] * 2


def test_an_allocation_beyond_the_free_memory_fails_and_kills_nothing() -> None:
    """A kernel may return far more than it is given, which nothing tells before."""
    script = (
        "import psutil, torch\n"
        "from agents.log_replay.worker import limit_memory\n"
        "limit_memory()\n"
        "size = int(1.1 * psutil.virtual_memory().available)\n"
        "try:\n"
        "    torch.empty(size, dtype=torch.uint8)  # which touches none of it\n"
        "except RuntimeError as error:\n"
        "    print('refused', torch.empty(1000).numel())\n"
    )
    command = [sys.executable, "-P", "-c", script]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    assert done.stdout == "refused 1000\n"


BODIES = frozenset((CONVOLUTION, MATMUL, REORDER))


def test_each_step_s_seconds() -> None:
    log = log_of(CONVOLUTION, REORDER, repeats=3, milliseconds=2.0)
    assert step_seconds(BytesIO(log), 3, 6.0, BODIES) == pytest.approx([0.004] * 3)
    strange = b"onednn_verbose,v1,primitive,exec,cpu,graph,of,another,kind,,,\n".replace(
        b",\n", b",1\n"
    )
    lines = log.splitlines(keepends=True)
    mixed = b"".join(strange + one if n % 2 else one for n, one in enumerate(lines))
    assert step_seconds(BytesIO(mixed), 3, 6.0, BODIES) == pytest.approx([0.004] * 3)
    other = log + log_of(CONVOLUTION, MATMUL, milliseconds=9.0)
    assert step_seconds(BytesIO(other), 4, 8.0, BODIES) == [], (
        "a step of other work is no step like them"
    )


def test_a_log_of_this_host_is_projected_here(tmp_path: Path) -> None:
    """Every convolution and the product of a real step run again as what the log has."""
    script = (
        "import torch\n"
        "m = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.Conv2d(16, 16, 1),\n"
        "  torch.nn.ConvTranspose2d(16, 8, 2, 2)).to(memory_format=torch.channels_last)\n"
        "x = torch.randn(2, 3, 64, 64).to(memory_format=torch.channels_last)\n"
        "l, y = torch.nn.LSTM(8, 16), torch.randn(5, 2, 8, requires_grad=True)\n"
        "n, z = torch.nn.BatchNorm2d(8), torch.randn(2, 8, 16, 16).to_mkldnn().requires_grad_()\n"
        "for _ in range(4):\n"
        "  m(x).sum().backward()\n"
        "  l(y)[0].sum().backward()\n"
        "  torch.max_pool2d(torch.relu(n(z)), 2, 2).to_dense().sum().backward()\n"
    )
    environ = {**os.environ, "ONEDNN_VERBOSE": "profile_exec", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-P", "-c", script]
    log, folder = tmp_path / "step.log", tmp_path / "profile"
    log.write_bytes(subprocess.run(command, env=environ, capture_output=True, check=True).stdout)
    options = ("--project", "--time-limit", "240", "-o", str(folder))
    done = CliRunner().invoke(app, ["profile", "import", str(log), *options])
    assert done.exit_code == 0, done.exception
    rows = [row for row in read(folder).primitives if row.primitive != "reorder"]
    directions = {(row.primitive.split("_")[0], row.direction) for row in rows}
    assert {("convolution", way) for way in ("FWD_D", "BWD_D", "BWD_W")} < directions
    assert {(kind, "FWD_D") for kind in ("rnn", "batch", "eltwise", "pooling")} < directions
    assert [row.body for row in rows if row.replay is None] == []
    assert read(folder).summary.efficiency


def test_a_trace_and_a_limit_without_replays_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    log.write_bytes(log_of(CONVOLUTION, REORDER))
    alone = CliRunner().invoke(app, ["profile", "import", str(log), "--time-limit", "5"])
    assert isinstance(alone.exception, UserError)
    assert "Add --project" in str(alone.exception)
