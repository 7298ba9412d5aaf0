"""What is the same work, and what is not."""

from __future__ import annotations

import pytest

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.command import Command, Figure
from controller.contracts.device import DeviceKind
from controller.contracts.manifests import Knob, StackManifest
from controller.contracts.sweep import Side
from controller.contracts.units import Unit
from controller.contracts.work import other_work, work_of
from tests.support import builders

CATALOG = load_catalog()
RETINANET: dict[str, Scalar] = {
    name: knob.default for name, knob in CATALOG.workloads["retinanet_resnext50"].knobs.items()
}


def key(knobs: dict[str, Scalar], scenario: str = "training", stack: str = "torch") -> str:
    return work_of(CATALOG, "retinanet_resnext50", scenario, stack, knobs).key


@pytest.mark.parametrize(
    "planted",
    [
        {"num_classes": 8},
        {"batch_size": 4},
        {"image_size": 512},
        {"optimizer": "sgd"},
        {"trainable_stages": 5},
        {"focal_loss": "fused"},
    ],
)
def test_a_knob_of_the_workload_is_work(planted: dict[str, Scalar]) -> None:
    assert key({**RETINANET, **planted}) != key(RETINANET)


@pytest.mark.parametrize(
    "planted",
    [
        {"precision": "bf16"},
        {"numerics": "int8"},
        {"memory_format": "channels_last"},
        {"threads": 4},
        {"steps": 100, "warmup_steps": 0},
        {"policy": "lab"},
    ],
)
def test_how_it_is_run_is_no_work(planted: dict[str, Scalar]) -> None:
    assert key({**RETINANET, **planted}) == key(RETINANET)
    assert key({**RETINANET, **planted}, stack="ipex") == key(RETINANET)


@pytest.mark.parametrize(
    ("scenario", "planted"),
    [
        ("multi_stream", {"samples_per_query": 4}),
        ("server", {"target_qps": 20.0}),
        ("server", {"target_latency_ms": 50.0}),
    ],
)
def test_what_a_scenario_issues_is_work(scenario: str, planted: dict[str, Scalar]) -> None:
    knobs = {name: knob.default for name, knob in CATALOG.scenarios[scenario].knobs.items()}
    works = {
        work_of(CATALOG, "shapes_classifier", scenario, "litert", {"numerics": "int8", **given})
        for given in (knobs, knobs | planted, knobs | {"length": "normal"})
    }
    assert len(works) == 2


def test_scenario_and_workload_are_work() -> None:
    works = [
        work_of(CATALOG, workload, scenario, "litert", {})
        for workload in ("shapes_classifier", "mobilenet_v4")
        for scenario in ("single_stream", "offline")
    ]
    assert len({work.key for work in works}) == 4


def test_a_float_that_is_given_as_an_int_is_the_same() -> None:
    one, other = (
        work_of(builders.catalog(), "resnet", "training", "torch", {"rate": rate})
        for rate in (1, 1.0)
    )
    assert one.key == other.key


def test_every_knob_counts_of_a_workload_that_the_catalogue_no_longer_has() -> None:
    few, many = (
        work_of(CATALOG, "gone", "training", "torch", {"precision": precision, "size": size})
        for precision, size in (("fp32", 1), ("bf16", 2))
    )
    assert few.problem == (("size", 1),)
    assert few.key != many.key


def with_program() -> Catalog:
    known = builders.catalog()
    command = Command(
        arguments=("tool", "{tokens}"),
        timeout_s=60,
        figures={"rate": Figure(unit=Unit.SAMPLES_PER_SECOND, pattern="rate (?P<value>[0-9]+)")},
        result="rate",
        rules="its own",
    )
    knobs = {
        "tokens": Knob(type="int", default=128, description=""),
        "threads": Knob(type="int", default=1, description="", work=False),
    }
    stack = StackManifest(
        name="own", title="", device_kinds=(DeviceKind.CPU_HOST,), command=command, knobs=knobs
    )
    return known.model_copy(update={"stacks": {**known.stacks, "own": stack}})


def test_the_knobs_of_a_users_program_are_work_unless_it_says_they_are_not() -> None:
    works = [
        work_of(with_program(), "resnet", "own", "own", {"tokens": tokens, "threads": threads})
        for tokens, threads in ((128, 1), (128, 4), (512, 1))
    ]
    assert works[0] == works[1] != works[2]


def test_a_title_names_what_is_not_at_its_default() -> None:
    work = work_of(CATALOG, "retinanet_resnext50", "training", "torch", RETINANET)
    assert work.title(CATALOG) == "retinanet_resnext50 training"
    small = RETINANET | {"num_classes": 8, "precision": "bf16"}
    title = work_of(CATALOG, "retinanet_resnext50", "training", "torch", small).title(CATALOG)
    assert title == "retinanet_resnext50 training num_classes=8"


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        ("torch:image_size=128", "torch:image_size=256", {"image_size": (128, 256)}),
        ("torch:batch_size=2", "torch:batch_size=4", {}),
        ("torch:skip_frozen=false,precision=fp32", "torch:skip_frozen=true,precision=bf16", {}),
        ("torch:norm_eps=0", "ipex:norm_eps=0.0,ipex_optimize=true", {}),
        ("torch:seed=1", "torch", {}),
    ],
)
def test_sides_do_other_work_by_the_knobs_that_are_neither_switches_nor_the_batch(
    a: str, b: str, differ: dict[str, tuple[Scalar, Scalar]]
) -> None:
    sides = Side.model_validate(a), Side.model_validate(b)
    assert other_work(CATALOG, "retinanet_resnext50", "training", *sides) == differ
    assert other_work(CATALOG, "gone", "training", *sides) == {}


@pytest.mark.parametrize(
    ("workload", "scenario", "a", "b"),
    [
        ("kernels", "kernel", "torch:variant=avx2", "torch:variant=scalar"),
        ("kernels", "kernel", "torch:dtype=fp32", "torch:dtype=bf16"),
        ("retinanet_images", "training", "torch:loader_workers=0", "torch:loader_workers=2"),
        ("retinanet_images", "training", "torch:matching=reference", "torch:matching=fused"),
    ],
)
def test_how_work_is_done_is_no_other_work(workload: str, scenario: str, a: str, b: str) -> None:
    sides = Side.model_validate(a), Side.model_validate(b)
    assert other_work(CATALOG, workload, scenario, *sides) == {}


def test_what_a_scenario_or_a_users_program_issues_is_other_work() -> None:
    few, many = (Side(stack="litert", knobs={"samples_per_query": n}) for n in (4, 8))
    found = other_work(CATALOG, "shapes_classifier", "multi_stream", few, many)
    assert found == {"samples_per_query": (4, 8)}
    one, other = (Side(stack="own", knobs={"tokens": n, "threads": n}) for n in (128, 512))
    assert other_work(with_program(), "resnet", "own", one, other) == {"tokens": (128, 512)}
