"""Each kind of task has oneDNN of this host run the very primitive that it is for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from controller.contracts.replay import REPLAY_LOG, LogReplays
from controller.profiles import log_replays
from controller.profiles.primitive import Primitive, primitive_of
from controller.profiles.projecting import replayed_primitives, samples_of
from controller.runtime.log_replay import run_log_replays
from tests.unit.profiles import test_fused_replays as fused
from tests.unit.profiles import test_opaque_replays as opaque

IN_F32 = [
    *(
        body.format(post_op).replace("bf16", "f32")
        for post_op in fused.ACTIVATIONS
        for body in (fused.INNER, fused.CONVOLUTION, fused.DECONVOLUTION)
    ),
    *(
        fused.CONVOLUTION.format(post_ops)
        for post_ops in (
            "sum",
            "sum+eltwise_relu",
            "binary_mul:f32:15:acdb",
            "binary_add:f32:15:acdb+eltwise_relu",
            "binary_sub:f32:2",
        )
    ),
    fused.INNER.format("binary_add:f32:3:ab").replace("bf16", "f32"),
    fused.INNER.format("binary_add:f32:2").replace("bf16", "f32"),
    opaque.SCALED,
    opaque.PRELU,
    opaque.PRELU.replace("forward_training", "backward").replace(
        ",,,", " diff:f32::blocked:abcd::f0 diff_wei:f32:a:blocked:abcd::f0,,,"
    ),
    opaque.LAYERS,
    opaque.VOLUMES,
]
IN_BF16 = [
    fused.LINEAR,
    fused.BATCHES,
    fused.BATCHES.replace("3x64x48:3x48x32", "1x64x48:1x48x32"),
    fused.BATCHES.replace("dst:bf16::blocked:abc", "dst:bf16::blocked:bac"),
    fused.ATTENTION,
    fused.ATTENTION.replace("attr-post-ops:sum", ""),
    fused.ATTENTION.replace("attr-scales:src0:0:f32", ""),
    fused.LINEAR.replace("attr-post-ops:sum", ""),
    fused.INNER.format("binary_add:bf16:3:ab"),
]


HAS_BF16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
LAYOUTS = [
    body.replace("abcd", chosen)
    for body in (opaque.RELU, opaque.RELU.replace("forward_training", "backward_data"))
    for chosen in ("aBcd8b", "aBcd16b")
]


def primitives_of(bodies: Sequence[str]) -> list[Primitive]:
    return [primitive for body in bodies if (primitive := primitive_of(body))]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[Primitive]:
    """What oneDNN logged of the replays of all of them."""
    bodies = [*IN_F32, *LAYOUTS, *(IN_BF16 if HAS_BF16 else ())]
    tasks = {task.key: task for task in map(log_replays.task_of, primitives_of(bodies))}
    folder = tmp_path_factory.mktemp("replays")
    done = run_log_replays(
        LogReplays(
            tasks=tuple(tasks.values()),
            folder=str(folder),
            threads=2,
            time_limit_s=600.0,
            rounds=2,  # as few calls as there can be: what ran counts here, not its time
        )
    )
    assert [one.refused for one in done.replayed if one.refused] == []
    with (folder / REPLAY_LOG).open("rb") as log:
        return [one for one, _ in replayed_primitives(samples_of(log, done.replayed))]


def missing(bodies: Sequence[str], ran: Sequence[Primitive]) -> list[str]:
    """Return the bodies that no replay ran."""
    likes = {log_replays.likeness(one) for one in ran}
    return [body for body in bodies if log_replays.likeness(primitives_of([body])[0]) not in likes]


def test_what_is_fused_and_what_torch_gives_to_onednn(ran: list[Primitive]) -> None:
    assert missing(IN_F32, ran) == []


def test_products_in_bf16(ran: list[Primitive]) -> None:
    """Those of parts of tensors have the same strides, too."""
    if not HAS_BF16:
        pytest.skip("this CPU has no bf16: torch does not multiply it by oneDNN")
    assert missing(IN_BF16, ran) == []
    (attention,) = primitives_of([fused.ATTENTION])
    alike = [one for one in ran if log_replays.likeness(one) == log_replays.likeness(attention)]
    assert attention.memory in [one.memory for one in alike]


def test_layouts_that_onednn_chooses(ran: list[Primitive]) -> None:
    """Which one it is depends on the CPU; the other is not counted."""
    relu = [one for one in ran if one.algorithm.startswith("eltwise_relu")]
    assert {one.direction for one in relu} == {"FWD_D", "BWD_D"}
    tags = {m.tag for one in relu for m in one.memory}
    assert len(tags) == 1
    assert tags < {"aBcd8b", "aBcd16b"}
