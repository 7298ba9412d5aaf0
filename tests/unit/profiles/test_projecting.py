"""Kernels without oneDNN: which are replayed, and what their replays are compared with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.contracts.replay import KernelReplay, Replayed
from controller.profiles.assembling import kernel_rows, nested, under_roofline
from controller.profiles.attribution import Attribution, Spent
from controller.profiles.model import Place, Profile
from controller.profiles.projecting import (
    body_key,
    projected,
    refused_told,
    replay_key,
    replays_of,
)
from controller.profiles.validity import unlikely
from controller.reports.profile_lines import op_lines
from tests.support.planted_profile import Rows, convolution, primitive
from tests.support.planted_profile import kernel as planted_kernel
from tests.support.planted_profile import profile as planted

IMAGE, WEIGHTS = [2, 8, 16, 16], [4, 8, 1, 1]
OUTPUT = [2, 4, 16, 16]
FLOPS = 2.0 * 2 * 16 * 16 * 4 * 8


def place(kernel: str, dims: list[list[int]], values: list[str] | None = None) -> Place:
    dtypes = json.dumps(["float"] * len(dims))
    return Place(
        "backward", "conv", kernel, kernel, json.dumps(dims), "", dtypes, json.dumps(values)
    )


BACKWARD = place("aten::convolution_backward", [OUTPUT, IMAGE, WEIGHTS], ["[True, True, False]"])
"""As torch does it with one thread: it hands on what it is given."""
INNER = place("aten::_slow_conv2d_backward", [OUTPUT, IMAGE, WEIGHTS], ["[True, True, False]"])
FORWARD = place(
    "aten::_slow_conv2d_forward",
    [IMAGE, WEIGHTS, [], [], [], []],
    ["", "", "[1, 1]", "", "[1, 1]", "[0, 0]"],
)
PRODUCT = place("aten::addmm", [[5], [2, 3], [3, 5]])
"""It copies its bias by an operation of its own."""


@pytest.fixture
def profile() -> Profile:
    times = {BACKWARD: (0.1, 7.6), INNER: (7.5, 7.5), FORWARD: (4.0, 4.0), PRODUCT: (2.0, 3.0)}
    kernels = {
        place: Spent(calls=1, self_s=self_s, total_s=total_s)
        for place, (self_s, total_s) in times.items()
    }
    rows = kernel_rows(Attribution(steps=[15.0], kernels=kernels))
    return Profile(ProfileSummary(steps=1), tuple(rows), ())


def test_a_convolution_is_replayed_as_a_whole(profile: Profile) -> None:
    kernels = {task.key for task in replays_of(profile)}
    assert kernels == {replay_key(place) for place in (BACKWARD, FORWARD, PRODUCT)}


def test_a_replay_is_compared_with_all_that_it_repeats(profile: Profile) -> None:
    samples = {replay_key(FORWARD): [2.0], replay_key(PRODUCT): [3.0], replay_key(BACKWARD): [7.6]}
    found = projected(profile, samples)
    assert found.summary.efficiency == pytest.approx((2.0 + 3.0 + 7.6) / (4.0 + 3.0 + 7.6))
    assert found.summary.replayed == 1
    efficiency = {line.key[1]: line.efficiency for line in op_lines(found).lines}
    assert efficiency == {
        "aten::_slow_conv2d_forward": 0.5,
        "aten::addmm": 1,
        "aten::convolution_backward": 1,
        "aten::_slow_conv2d_backward": None,
    }


def test_a_primitive_that_was_cut_off_is_compared_with_as_much_of_its_replays() -> None:
    """Threads that call one at once, as attention's, take longer in all than their kernel."""
    attention = Place("forward", op="attention", kernel="attention")
    row = planted_kernel("attention", 0.006)
    inside = replace(primitive(attention, "matmul", 0.048, calls=4800.0), body=FUSED)
    kernels, primitives, cut_s = nested([replace(row, place=attention)], [inside])
    assert cut_s == pytest.approx(0.042)
    made = planted([*kernels, *primitives])
    found = projected(made, {FUSED: [1e-5] * 11})
    assert found.summary.efficiency == pytest.approx(1.0)
    assert [top.efficiency for top in found.summary.top] == pytest.approx([1.0])
    assert [line.efficiency for line in op_lines(found).lines] == pytest.approx([1.0])
    assert not any(unlikely(found.summary))


FUSED = (
    "cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0 "
    "wei:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0,attr-scratchpad:user,,64x32:32x64"
)


def test_convolutions_outside_onednn_are_under_the_roofline_once(profile: Profile) -> None:
    flops = {row.place: row.flops for row in profile.kernels}
    assert (flops[FORWARD], flops[INNER]) == (FLOPS, 2 * FLOPS)
    of_two = Profile(
        profile.summary, tuple(row for row in profile.kernels if row.place != PRODUCT), ()
    )
    found = under_roofline(of_two, Peaks(gemm_flops={"f32": FLOPS}, copy_bytes=1e12))
    assert found.summary.headroom_s == pytest.approx((4.0 - 1) + (7.5 - 2))


TRAINED = convolution("body.0", 0.3, direction="FWD_D")
FROZEN = convolution("body.1", 0.1, direction="FWD_I")
REORDER = primitive(TRAINED[1].place, "reorder", 0.1, direction="")
BESIDE = primitive(TRAINED[1].place, "convolution", 0.1, direction="FWD_I")
"""The trained module's, called without gradients as well: a teacher's pass, or an evaluation."""


@pytest.mark.parametrize(
    "rows",
    [
        [*TRAINED, *FROZEN, REORDER],
        [*FROZEN, REORDER, *TRAINED],
        [TRAINED[0], BESIDE, REORDER, TRAINED[1]],
        [*TRAINED, REORDER, BESIDE],
    ],
)
def test_a_kernel_in_training_and_in_inference_is_replayed_as_each(rows: Rows) -> None:
    """Torch has oneDNN train only with gradients on, whatever the inputs are."""
    of_both = planted(rows)
    tasks = [task for task in replays_of(of_both) if isinstance(task, KernelReplay)]
    training, inference = sorted(tasks, key=lambda task: not task.trains)
    assert (training.trains, inference.trains) == (True, False)
    bodies = {row.direction: row.body for row in of_both.primitives}
    samples = {
        body_key(training.key, bodies["FWD_D"]): [0.2],
        body_key(training.key, bodies[""]): [0.05],
        body_key(inference.key, bodies["FWD_I"]): [0.04],
    }
    found = projected(of_both, samples)
    seconds = {row.direction: row.replay.seconds for row in found.primitives if row.replay}
    assert seconds == {"FWD_D": 0.2, "": 0.05, "FWD_I": 0.04}
    refused = [Replayed(key=inference.key, refused="no")]
    only = projected(of_both, dict(list(samples.items())[:2]))
    told = "not replayed, 20.0% of the time: aten::conv2d: no"
    assert list(refused_told(only, refused)) == [told]


@pytest.mark.parametrize(
    ("share", "runs", "is_unlikely"),
    [
        pytest.param(1.5, [[15.0]], False, id="a single step has no interval"),
        pytest.param(1.05, [[15.0]], False, id="within what medians differ by"),
        pytest.param(0.9, [[15.0]], False, id="alone is faster"),
        pytest.param(1.5, [[15.0, 15.0]], True, id="wholly above the step"),
        pytest.param(1.5, [[15.0, 15.0, 30.0]], False, id="may be below the step"),
        pytest.param(1.5, [], False, id="a log's steps are not known"),
    ],
)
def test_replays_that_take_longer_than_the_step_are_told(
    profile: Profile, share: float, runs: list[list[float]], is_unlikely: bool
) -> None:
    """By the validity of a profile, and by a note where no interval tells of it."""
    found = projected(profile, {replay_key(FORWARD): [4.0 * share]}, *runs).summary
    assert found.efficiency == pytest.approx(share)
    assert bool(list(unlikely(found))) is is_unlikely
    told = any("one of both was disturbed" in note for note in found.notes)
    assert told is (share > 1.1 and not is_unlikely)


def test_attention_outside_onednn_is_not_replayed() -> None:
    op = "aten::_scaled_dot_product_flash_attention_for_cpu"
    row = replace(planted_kernel(op, 0.1), flops=1e9)
    assert replays_of(planted([row])) == []
