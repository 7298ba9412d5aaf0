"""What a fused update moves, and its roof."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

from controller.contracts.peaks import Peaks
from controller.profiles.assembling import kernel_rows, under_roofline
from controller.profiles.attribution import Attribution, Spent
from controller.profiles.budget import budget_of
from controller.profiles.importing import import_trace
from controller.profiles.model import Place
from controller.profiles.updates import (
    ACCUMULATED,
    Accumulated,
    Learning,
    is_update,
    parameters,
    update_bytes,
)
from tests.support.planted_profile import kernel, profile

COPY_S, UPDATE_S = 1e10, 2e10
PEAKS = Peaks(gemm_flops={"f32": 1e12}, copy_bytes=COPY_S)
KNOWN = PEAKS.model_copy(update={"update_bytes": UPDATE_S})
MEGABYTES = 8e6
LEARNING = Learning(numbers=2e6, bytes_of_one=4)


def accumulated(size: object, kind: object, calls: float = 1.0) -> Accumulated:
    return Accumulated(json.dumps([size]), json.dumps([kind]), calls)


@pytest.mark.parametrize(
    ("kernel", "values", "passes"),
    [
        pytest.param("aten::_fused_sgd_", ["", "", "", "0.", "0.", "0.1"], 3, id="sgd"),
        pytest.param("aten::_fused_sgd_", ["", "", "", "0.", "0.9", "0.1"], 5, id="momentum"),
        pytest.param("aten::_fused_adam_", [*[""] * 11, "False", "False"], 7, id="adam"),
        pytest.param("aten::_fused_adamw_", [*[""] * 11, "True", "False"], 9, id="amsgrad"),
        pytest.param("aten::_fused_adagrad_", [], 5, id="adagrad"),
        pytest.param("benchfarm::adam_step", [], 7, id="of masters"),
    ],
)
def test_all_is_read_and_all_but_the_gradients_written(
    kernel: str, values: list[str], passes: int
) -> None:
    assert update_bytes(kernel, json.dumps(values), LEARNING) == passes * MEGABYTES


def test_nothing_is_told_without_parameters_or_momentum() -> None:
    assert update_bytes("aten::_fused_adagrad_", "[]", None) is None
    assert update_bytes("aten::_fused_sgd_", "", LEARNING) is None


@pytest.mark.parametrize("size", [2, 4, None], ids=["bf16", "fp32", "some of both"])
def test_an_update_of_masters_moves_as_much_of_any_weights(size: int | None) -> None:
    learning = Learning(2e6, size)
    assert update_bytes("benchfarm::adam_step", "[]", learning) == 7 * MEGABYTES
    told = update_bytes("aten::_fused_adagrad_", "[]", learning)
    assert told == (5 * 2e6 * size if size else None)


@pytest.mark.parametrize(
    ("found", "learning"),
    [
        ((accumulated([10, 5], "float", 3.0), accumulated([7], "float")), Learning(157, 4)),
        ((accumulated([10, 5], "c10::BFloat16"),), Learning(50, 2)),
        ((accumulated([], "float"),), Learning(1, 4)),
        ((accumulated([8], "float"), accumulated([8], "c10::BFloat16")), Learning(16, None)),
        ((accumulated([8], "of another"),), None),
        ((), None),
    ],
)
def test_parameters_have_the_sizes_and_the_type_of_their_gradients(
    found: tuple[Accumulated, ...], learning: Learning | None
) -> None:
    assert parameters(found) == learning


@pytest.mark.parametrize("size", [["a"], [None], [-4], [1e9], [2**40, 2**40, 2**40], 5, {"a": 1}])
@pytest.mark.parametrize("kind", ["float", 5, ["float"], {}, None])
def test_a_hostile_trace_tells_nothing(size: object, kind: object) -> None:
    assert parameters([accumulated(size, kind)]) in (None, Learning(1, 4))
    assert parameters([Accumulated("5", "5", 1.0)]) is None


@pytest.mark.parametrize(
    ("name", "so"),
    [
        *((f"aten::_fused_{of}_", True) for of in ("sgd", "adam", "adamw", "adagrad")),
        ("benchfarm::adam_step", True),
        *((name, False) for name in ("aten::_fused_sdp_choice", "aten::add_", "")),
    ],
)
def test_only_fused_optimizers_are_updates(name: str, so: bool) -> None:
    assert is_update(name) is so


@pytest.mark.parametrize(
    ("calls", "moved"),
    [
        pytest.param({"0.1": 2}, [3 * MEGABYTES], id="one group"),
        pytest.param({"0.1": 4}, [3 * MEGABYTES / 2], id="two groups alike"),
        pytest.param({"0.1": 2, "0.": 2}, [None, None], id="only one group decays"),
        pytest.param({"0.1": 1, "0.2": 1}, [None, None], id="another learning rate each step"),
    ],
)
def test_groups_of_parameters_do_not_each_move_all_of_them(
    calls: dict[str, int], moved: list[float | None]
) -> None:
    """Torch updates each group by a call of its own; a trace doesn't tell what is in it."""
    stored = Place("backward", "", ACCUMULATED, ACCUMULATED, "[[2000000]]", "", '["float"]')
    name = "aten::_fused_sgd_"
    groups = {
        Place("optimizer", "", name, name, values=json.dumps(["", "", "", "0.", "0.", said])): count
        for said, count in calls.items()
    }
    kernels = {
        place: Spent(calls=count, self_s=1.0, total_s=1.0)
        for place, count in {stored: 2, **groups}.items()
    }
    rows = kernel_rows(Attribution(steps=[1.0, 1.0], kernels=kernels), steps=2)
    assert [row.bytes for row in rows if is_update(row.place.kernel)] == moved


def test_an_update_is_under_its_own_roof_and_never_under_a_copys() -> None:
    row = replace(kernel("aten::_fused_adam_", 0.02, phase="optimizer"), bytes=1e8)
    step = profile([row])
    below_copy = budget_of(under_roofline(step, PEAKS)).phases
    assert [(line.no_roof_s, line.at_peak_s) for line in below_copy] == [(0.02, 0.0)]
    (line,) = budget_of(under_roofline(step, KNOWN)).phases
    at_peak_s = 1e8 / UPDATE_S
    assert line.at_peak_s == pytest.approx(at_peak_s)
    assert line.above_roof_s == pytest.approx(0.02 - at_peak_s)


@pytest.mark.parametrize("layers", [1, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trace_of_torch_tells_what_its_update_moves(
    tmp_path: Path, dtype: torch.dtype, layers: int
) -> None:
    """Of more than 30 tensors, it omits the sizes in the update's own lists."""
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(layers))).to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 32, dtype=dtype)).float().sum().backward()
        optimizer.step()

    step()
    with torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True) as watched:
        step()
    path = tmp_path / "trace.json"
    watched.export_chrome_trace(str(path))
    (row,) = [one for one in import_trace(path, 1).kernels if is_update(one.place.kernel)]
    assert row.bytes == 7 * layers * (32 * 32 + 32) * dtype.itemsize
