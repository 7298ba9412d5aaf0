"""Sweeps whose cells are paired comparisons."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind
from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Cell, PairedCandidate, Side, Sweep, side_labels
from controller.contracts.wire import TrainingProgram
from controller.scheduling.binding import runs_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.placement import objections
from controller.scheduling.program import candidate_of
from tests.support import builders


def paired_sweep(**changes: object) -> Sweep:
    keys: dict[str, object] = {
        "name": "demo",
        "workload": "resnet",
        "scenario": "training",
        "paired": {"a": "torch", "b": "torch:precision=bf16"},
    }
    return Sweep.model_validate(keys | changes)


def cells(**changes: object) -> list[Cell]:
    return cells_of(paired_sweep(**changes), builders.catalog())


def complaint(**changes: object) -> str:
    with pytest.raises(SweepInvalid) as caught:
        cells(**changes)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "stack", "knobs"),
    [
        ("torch", "torch", {}),
        ("torch:precision=bf16", "torch", {"precision": "bf16"}),
        ("ipex:a=1,b=0.5,c=true,d=word", "ipex", {"a": 1, "b": 0.5, "c": True, "d": "word"}),
    ],
)
def test_a_side_is_a_stack_and_its_knobs(text: str, stack: str, knobs: dict[str, object]) -> None:
    side = Side.model_validate(text)
    assert (side.stack, side.knobs) == (stack, knobs)
    assert Side.model_validate({"stack": stack, "knobs": knobs}) == side


@pytest.mark.parametrize(
    "text", ["", "torch:", "torch:precision", "torch:=1", "t:a=", "t:a=1,a=2", "t:a=[1", "t:a=[]"]
)
def test_what_is_no_side(text: str) -> None:
    with pytest.raises(ValidationError):
        Side.model_validate(text)


def test_a_pair_is_one_cell_with_the_defaults_of_both_sides_written_out() -> None:
    (cell,) = cells(knobs={"batch_size": 4})
    assert (cell.stack, cell.knobs["precision"], cell.knobs["batch_size"]) == ("torch", "fp32", 4)
    assert cell.versus
    assert (cell.versus.stack, cell.versus.knobs["precision"]) == ("torch", "bf16")
    assert cell.versus.knobs == {**cell.knobs, "precision": "bf16"}
    assert (cell.versus.width, cell.versus.time_limit_s) == (0.03, 600.0)


def test_every_point_of_the_axes_is_paired_with_each_side_b() -> None:
    found = cells(
        knobs={"batch_size": [2, 4]},
        paired={"a": "torch", "b": ["torch:fused=true", "torch:precision=bf16"], "width": 0.01},
        devices=["cores >= 2", "any"],
    )
    points = {(c.knobs["batch_size"], c.selector, str(c.versus and c.versus.knobs)) for c in found}
    assert len(found) == len(points) == 8
    for cell in found:
        assert cell.versus
        assert cell.versus.knobs["batch_size"] == cell.knobs["batch_size"]


def test_a_paired_cell_has_a_history_of_its_own_and_others_keep_theirs() -> None:
    (cell,) = cells()
    alone, candidate = cell.sides()
    assert len({cell.key, alone.key, candidate.key}) == 3
    assert alone.key == builders.cell().model_copy(update={"knobs": cell.knobs}).key
    assert "versus" not in builders.cell().model_dump(mode="json", exclude_none=True)
    assert runs_of(paired_sweep(), "s-1", [cell], 0.0)[0].cell.key == cell.key


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"stack": "torch"}, "key stack: it is not allowed beside paired"),
        ({"recipes": {"x": {"fused": True}}}, "key recipes: it is not allowed beside paired"),
        ({"baseline": {"precision": "fp32"}}, "key baseline: it is not allowed beside paired"),
        ({"paired": None}, "key stack: it is missing"),
        ({"paired": {"a": "jax", "b": "torch"}}, "key paired.a: there is no stack 'jax'"),
        ({"paired": {"a": "torch", "b": "jax"}}, "key paired.b: there is no stack 'jax'"),
        ({"paired": {"a": "torch", "b": "torch:colour=red"}}, "there is no knob 'colour'"),
        ({"paired": {"a": "torch", "b": "torch:precision=fp8"}}, "'fp8' is not allowed"),
        ({"knobs": {"precision": "fp32"}}, "key paired.b: it sets precision, which knobs sets too"),
        ({"deadline_s": 600}, "key deadline_s: 600 s is not longer than paired.time_limit_s"),
        ({"scenario": "nothing"}, "key scenario"),
    ],
)
def test_what_a_paired_sweep_can_not_say(changes: dict[str, object], expected: str) -> None:
    assert expected in complaint(**changes)


@pytest.mark.parametrize(
    ("knobs", "b"),
    [({"mode": "accuracy"}, "tflite"), ({}, "litert:mode=accuracy")],
)
def test_a_mode_that_measures_no_speed_is_not_paired(knobs: dict[str, str], b: str) -> None:
    given = {"workload": "shapes_classifier", "scenario": "offline", "knobs": knobs}
    a = "litert" if knobs else "litert:mode=submission"
    sweep = paired_sweep(**given, paired={"a": a, "b": b})
    with pytest.raises(
        SweepInvalid, match=r"key knobs\.mode: accuracy measures no speed to compare"
    ):
        cells_of(sweep, load_catalog())


def test_sides_that_measure_in_different_ways_can_not_meet() -> None:
    catalog = builders.catalog()
    bundled = catalog.stacks["litert"].model_copy(update={"backend": None, "bundle": "litert"})
    mixed = catalog.model_copy(update={"stacks": {**catalog.stacks, "litert": bundled}})
    sweep = paired_sweep(paired={"a": "torch", "b": "litert"})
    with pytest.raises(SweepInvalid):
        cells_of(sweep, mixed)


def test_both_sides_have_to_run_on_the_device() -> None:
    (cell,) = cells(paired={"a": "torch", "b": "litert"})
    said = objections(cell, builders.cpu(), builders.catalog())
    assert said == [f"stack litert (it runs on {DeviceKind.ANDROID})"]
    assert objections(cell, builders.phone(), builders.catalog())


def test_the_job_carries_the_rival() -> None:
    (cell,) = cells(paired={"a": "torch", "b": "torch:fused=true", "width": 0.01})
    candidate = candidate_of(cell, builders.catalog())
    assert candidate
    assert (candidate.stack, candidate.knobs["fused"], candidate.width) == ("torch", True, 0.01)
    assert candidate.metric == "step_time"
    assert isinstance(candidate.program, TrainingProgram)
    assert candidate_of(builders.cell(), builders.catalog()) is None


def test_labels_name_what_tells_the_sides_apart() -> None:
    a = Side(stack="torch", knobs={"fused": False, "n": 1, "precision": "fp32"})
    b = PairedCandidate(
        stack="ipex", knobs={"fused": True, "n": 1, "precision": "fp32", "extra": 2}
    )
    assert side_labels(a, b) == ("torch:fused=false", "ipex:extra=2,fused=true")
    assert side_labels(a, a) == ("torch", "torch")
