"""Layers rebuilt from oneDNN's description run the same primitives as the layers did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from pydantic import TypeAdapter

from agents.backends.ipex.input_shapes import NOTED, note_input_shapes
from agents.backends.torch_eager.backend import TorchEager
from agents.profiling.layers import KNOBS as OF_SINGLE_LAYERS
from agents.profiling.layers import LayerWorkload, layer_call
from controller.contracts.replay import LayerReplay, Replayed
from controller.profiles.assembling import primitive_rows
from controller.profiles.attribution import Spent
from controller.profiles.layers import layers_of
from controller.profiles.model import Place, PrimitiveRow, Profile
from controller.profiles.projecting import projected, replays_of, samples_of
from tests.support.profiled_model import KNOBS
from tests.unit.profiles.conftest import run_module

_REPLAYED = TypeAdapter(list[Replayed])


def unrecorded(profile: Profile) -> Profile:
    """Return a profile as it is where kernels don't tell their inputs."""
    rows = tuple(
        replace(row, place=replace(row.place, dims="", strides="", dtypes="", values=""))
        for row in profile.primitives
    )
    return replace(profile, kernels=(), primitives=rows)


def replayed(profile: Profile, folder: Path) -> Profile:
    tasks = replays_of(profile)
    assert all(isinstance(task, LayerReplay) for task in tasks)
    (folder / "replays.json").write_text(json.dumps([t.model_dump(mode="json") for t in tasks]))
    run_module("replay_kernels", folder)
    done = _REPLAYED.validate_json((folder / "replay-times.json").read_bytes())
    assert [one.refused for one in done] == [None] * len(tasks)
    with (folder / "verbose.log").open("rb") as log:
        return projected(profile, samples_of(log, done))


@pytest.mark.long
def test_every_convolution_is_replayed_by_its_description(profile: Profile, tmp_path: Path) -> None:
    found = replayed(unrecorded(profile), tmp_path)
    convolutions = [row for row in found.primitives if row.primitive == "convolution"]
    assert {row.direction for row in convolutions} == {"FWD_D", "BWD_D", "BWD_W"}
    assert len({row.problem for row in convolutions}) >= 9
    missing = [row.body for row in convolutions if row.replay is None]
    assert missing == []
    assert all(row.replay and row.replay.runs >= 11 for row in convolutions)
    assert found.summary.efficiency
    assert found.summary.replayed
    assert found.summary.replayed > 0.9


def test_layers_are_told_apart_by_what_has_a_gradient(profile: Profile) -> None:
    layers = layers_of(unrecorded(profile).primitives)
    assert len({layer.key for layer in layers}) == len(layers)
    stem = next(layer for layer in layers if layer.parameters["ic"] == 3)
    assert (stem.learns, stem.passes_back, stem.bias) == (True, False, True)
    grouped = [layer for layer in layers if layer.parameters.get("g") == 4]
    assert {(layer.learns, layer.passes_back) for layer in grouped} == {(True, True)}
    assert not any(layer.channels_last for layer in layers)


def test_recorded_inputs_come_first(profile: Profile) -> None:
    assert not any(isinstance(task, LayerReplay) for task in replays_of(profile))


def test_channels_last_and_types_are_taken_from_the_memory() -> None:
    body = (
        "cpu,convolution,brg_conv_fwd:avx512_core_bf16,forward_training,"
        "src:bf16::blocked:acdb::f0 wei:bf16:a:blocked:Acdb32a::f0 bia:undef::undef::: "
        "dst:bf16::blocked:acdb::f0,attr-scratchpad:user,alg:convolution_direct,"
        "g32mb2_ic64oc64_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1"
    )
    row = row_of(body)
    (layer,) = layers_of([row])
    assert (layer.dtype, layer.channels_last, layer.bias) == ("bf16", True, False)
    assert (layer.learns, layer.passes_back) == (False, False)
    assert layer.parameters["g"] == 32


def test_a_layer_of_several_sizes_has_its_weights_packed_for_the_largest() -> None:
    """A convolution of two levels, and another module's of a larger one."""
    body = (
        "cpu,convolution,jit:avx2,forward_training,src:f32::blocked:abcd::f0 "
        "wei:f32:a:blocked:ABcd8b8a::f0 bia:undef::undef::: dst:f32::blocked:aBcd8b::f0,,"
        "alg:convolution_direct,mb2_ic4oc6_ih{0}oh{0}kh3sh1dh0ph1_iw{1}ow{1}kw3sw1dw0pw1"
    )
    rows = [row_of(body.format(*sizes)) for sizes in ((8, 8), (4, 32), (2, 2))]
    elsewhere = row_of(body.format(64, 64))
    rows.append(replace(elsewhere, place=replace(elsewhere.place, module="n")))
    layers = layers_of(rows)
    largest = {"mb": 2, "ih": 4, "iw": 32}
    assert [layer.largest for layer in layers] == [largest, {}, largest, {}]
    other = replace(rows[1], parameters={**rows[1].parameters, "ic": 8})
    assert [layer.largest for layer in layers_of([rows[0], other])] == [{}, {}], "two layers"
    workload = LayerWorkload(layers[0])
    assert [workload.batch(step).shape for step in range(3)] == [
        (2, 4, 4, 32),
        *[(2, 4, 8, 8)] * 2,
    ]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_shape_is_noted_in_the_layer_s_own_precision(dtype: str) -> None:
    """In bf16, the layer's weights are in fp32, and autocast is on as in a step."""
    workload = LayerWorkload(layer("convolution", dtype=dtype))
    model = workload.build_model()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
        note_input_shapes(workload, model)
    (convolution,) = (m for m in model.modules() if isinstance(m, torch.nn.Conv2d))
    assert getattr(convolution, NOTED) == (2, 4, 5, 5)


def row_of(body: str) -> PrimitiveRow:
    place = Place(phase="forward", module="m", op="o", kernel="ipex::conv")
    rows, strange = primitive_rows({(place, body): Spent(1, 1.0, 1.0, 1.0)}, 1)
    assert strange.calls == 0
    return rows[0]


def layer(kind: Literal["convolution", "inner_product"], **given: bool | str) -> LayerReplay:
    sizes = {"mb": 2, "ic": 4, "oc": 6, "ih": 5, "iw": 5}
    if kind == "convolution":
        sizes |= {"g": 2, "kh": 3, "kw": 3, "sh": 2, "sw": 2, "ph": 1, "pw": 1, "dh": 0, "dw": 0}
    plain = {"dtype": "f32", "channels_last": False, "bias": True, "learns": True}
    return LayerReplay(
        key="k", kind=kind, parameters=sizes, **{"passes_back": True, **plain, **given}
    )


def test_a_layer_trains_alone_without_what_takes_a_whole_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    knobs = {**KNOBS, "precision": "bf16", "master_weights": True, **OF_SINGLE_LAYERS}
    call = layer_call(layer("inner_product", dtype="bf16"), TorchEager(knobs))
    assert call() == pytest.approx(call(), rel=1e-2)  # its weights hardly learn


@pytest.mark.parametrize(
    ("task", "shape"),
    [
        (layer("inner_product"), (2, 6)),
        (layer("inner_product", dtype="bf16", bias=False, passes_back=False), (2, 6)),
        (layer("convolution", channels_last=True), (2, 6, 3, 3)),
        (layer("convolution", learns=False, passes_back=False), (2, 6, 3, 3)),
    ],
    ids=("linear", "bf16 linear", "channels last", "frozen"),
)
def test_a_layer_trains_alone(
    task: LayerReplay, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    workload = LayerWorkload(task)
    model, given = workload.build_model(), workload.batch(0)
    if task.kind == "convolution":
        is_last = given.is_contiguous(memory_format=torch.channels_last)
        assert is_last == task.channels_last
    backend = TorchEager({**KNOBS, "precision": "bf16" if task.dtype == "bf16" else "fp32"})
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task.dtype == "bf16"):
        found, _ = workload.forward(model, given)
    assert found.shape == shape
    weights = [p for name, p in model.named_parameters() if name.startswith("layer.")]
    assert len(weights) == 1 + task.bias
    assert {p.requires_grad for p in weights} == {task.learns}
    call = layer_call(task, backend)
    assert call() == pytest.approx(call(), rel=1e-2)  # its weights hardly learn
