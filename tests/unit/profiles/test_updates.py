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
from controller.profiles.assembling import under_roofline
from controller.profiles.budget import budget_of
from controller.profiles.importing import import_trace
from controller.profiles.updates import ACCUMULATED, is_update, parameter_bytes, update_bytes
from tests.support.planted_profile import kernel, profile

COPY_S, UPDATE_S = 1e10, 2e10
PEAKS = Peaks(gemm_flops={"f32": 1e12}, copy_bytes=COPY_S)
KNOWN = PEAKS.model_copy(update={"update_bytes": UPDATE_S})
TENSORS = [[100, 50], [7]]
ELEMENTS = 5007


@pytest.mark.parametrize(
    ("dims", "moved"),
    [
        pytest.param([TENSORS, TENSORS, []], 3, id="sgd"),
        pytest.param([TENSORS, TENSORS, TENSORS, [], []], 5, id="sgd with momentum"),
        pytest.param([TENSORS] * 4, 7, id="adam"),
        pytest.param([TENSORS] * 5, 9, id="amsgrad"),
    ],
)
def test_all_lists_are_read_and_all_but_the_gradients_written(
    dims: list[object], moved: int
) -> None:
    assert update_bytes(json.dumps(dims), 4) == 4 * moved * ELEMENTS


@pytest.mark.parametrize(
    ("dims", "size"), [("", 4), ("[]", 4), ("[[], []]", 4), (json.dumps([TENSORS] * 4), None)]
)
def test_nothing_is_told_of_tensors_without_sizes_or_types(dims: str, size: int | None) -> None:
    assert update_bytes(dims, size) is None


@pytest.mark.parametrize(
    ("types", "size"),
    [
        (('["float"]',), 4),
        (('["c10::BFloat16"]',), 2),
        (('["float"]', '["c10::BFloat16"]'), None),
        (('["of another"]',), None),
        (("",), None),
        ((), None),
    ],
)
def test_a_parameter_has_the_type_of_its_gradient(types: tuple[str, ...], size: int | None) -> None:
    kernels = [(ACCUMULATED, dtypes) for dtypes in types]
    assert parameter_bytes([*kernels, ("aten::add", '["double"]')]) == size


@pytest.mark.parametrize(
    ("name", "so"),
    [
        *((f"aten::_fused_{of}_", True) for of in ("sgd", "adam", "adamw", "adagrad")),
        *((name, False) for name in ("aten::_fused_sdp_choice", "aten::add_", "")),
    ],
)
def test_only_torchs_fused_optimizers_are_updates(name: str, so: bool) -> None:
    assert is_update(name) is so


def test_an_update_is_under_its_own_roof_and_never_under_a_copys() -> None:
    row = replace(kernel("aten::_fused_adam_", 0.02, phase="optimizer"), bytes=1e8)
    step = profile([row])
    below_copy = budget_of(under_roofline(step, PEAKS)).phases
    assert [(line.no_roof_s, line.at_peak_s) for line in below_copy] == [(0.02, 0.0)]
    (line,) = budget_of(under_roofline(step, KNOWN)).phases
    at_peak_s = 1e8 / UPDATE_S
    assert line.at_peak_s == pytest.approx(at_peak_s)
    assert line.above_roof_s == pytest.approx(0.02 - at_peak_s)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trace_of_torch_tells_what_its_update_moves(tmp_path: Path, dtype: torch.dtype) -> None:
    model = nn.Linear(64, 32).to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        model(torch.ones(2, 64, dtype=dtype)).float().sum().backward()
        optimizer.step()

    step()
    with torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True) as watched:
        step()
    path = tmp_path / "trace.json"
    watched.export_chrome_trace(str(path))
    (row,) = [one for one in import_trace(path, 1).kernels if is_update(one.place.kernel)]
    moved = 7 * (64 * 32 + 32) * dtype.itemsize
    counts = 3 * dtype.itemsize * 2  # Adam counts its steps in a tensor for each parameter.
    assert row.bytes is not None
    assert moved <= row.bytes <= moved + counts
