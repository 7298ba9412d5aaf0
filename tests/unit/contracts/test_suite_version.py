"""The knob `suite_version`: its choices come from the rules, and another version is other work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.manifests import defaults_of
from controller.contracts.mobile import ImageInput
from controller.contracts.suite_rules import load_suites
from controller.contracts.suite_version import (
    SUITE_VERSION,
    quality_target,
    rules_of,
    target_unknown,
)
from controller.contracts.sweep import Sweep
from controller.contracts.wire import OnDeviceProgram
from controller.contracts.work import work_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import program_of

CATALOG = load_catalog()
MANIFESTS = Path(__file__).parents[3] / "models" / "manifests" / "mobile"
TASKS = sorted({name for rules in load_suites() for name in rules.tasks})
SURROGATES = sorted(name for name in CATALOG.workloads if name.endswith("_surrogate"))


def versions_of(task: str) -> list[str]:
    return [rules.version for rules in load_suites() if task in rules.tasks]


def knobs_of(workload: str, **given: Scalar) -> dict[str, Scalar]:
    return defaults_of(CATALOG.workloads[workload].knobs) | given


def sweep(*workload: str, **knobs: tuple[Scalar, ...]) -> Sweep:
    return Sweep(
        name="s", workload=workload, stack=("litert",), scenario=("single_stream",), knobs=knobs
    )


@pytest.mark.parametrize("workload", [*TASKS, *SURROGATES])
def test_a_task_and_its_surrogate_may_run_by_each_version_that_has_it(workload: str) -> None:
    knob = CATALOG.workloads[workload].knobs[SUITE_VERSION]
    task = workload.removesuffix("_surrogate")
    assert knob.choices == tuple(r.version for r in load_suites() if task in r.tasks)
    assert knob.default == knob.choices[-1], "the newest"
    for version in knob.choices:
        rules = rules_of(workload, {SUITE_VERSION: version})
        assert rules
        assert rules.version == version


def test_nothing_else_has_the_knob() -> None:
    having = {name for name, w in CATALOG.workloads.items() if SUITE_VERSION in w.knobs}
    assert having == {*TASKS, *SURROGATES}
    assert rules_of("resnet50", {}) is None


@pytest.mark.parametrize("workload", [*TASKS, *SURROGATES, "resnet50"])
def test_a_cell_has_a_target_or_says_that_its_version_prints_none(workload: str) -> None:
    for version in versions_of(workload.removesuffix("_surrogate")) or [""]:
        knobs = knobs_of(workload) | {SUITE_VERSION: version} if version else {}
        none = f"MLPerf Mobile {version} prints none for this task"
        expected = none if workload == "mobilenet_v4" else None
        assert target_unknown(workload, knobs) == expected
        if workload in TASKS:
            has_one = quality_target(CATALOG.workloads[workload], knobs) is not None
            assert has_one == (expected is None)


def test_no_manifest_lists_versions() -> None:
    for path in MANIFESTS.glob("*.yaml"):
        manifest = yaml.safe_load(path.read_text())
        assert SUITE_VERSION not in manifest.get("knobs", {})
        assert manifest["name"] not in TASKS or "quality_target" not in manifest


@pytest.mark.parametrize(
    ("workload", "knobs", "target"),
    [
        ("mobilebert", {SUITE_VERSION: "v6.0"}, 0.83142),
        ("mobilebert", {SUITE_VERSION: "v5.0"}, 0.83142),
        ("mobilebert", {SUITE_VERSION: "v5.0", "dataset": "lite"}, 0.84165),
        ("mobilebert", {SUITE_VERSION: "v0.7"}, 0.874014),
        ("edsr", {SUITE_VERSION: "v3.0", "numerics": "fp32"}, 33.58),
        ("edsr", {SUITE_VERSION: "v6.0", "numerics": "int8"}, 33.0),
        ("mobilenet_v4", {SUITE_VERSION: "v5.0"}, None),
        ("mobilenet_edgetpu", {SUITE_VERSION: "v4.0"}, 0.746662),
        ("mobilebert_surrogate", {SUITE_VERSION: "v1.1"}, 0.799242),
    ],
)
def test_a_run_passes_by_the_target_of_its_version(
    workload: str, knobs: Mapping[str, Scalar], target: float | None
) -> None:
    chosen = {name: (value,) for name, value in knobs.items()}
    (cell,) = cells_of(sweep(workload, **chosen), CATALOG)
    program = program_of(cell, CATALOG)
    assert isinstance(program, OnDeviceProgram)
    asked = program.quality_target
    assert (asked.value if asked else None) == target


def test_a_catalogue_shows_the_target_of_the_defaults() -> None:
    shown = {name: CATALOG.workloads[name].quality_target for name in TASKS}
    assert {name: target.value if target else None for name, target in shown.items()} == {
        "deeplabv3_plus": 0.53156,
        "edsr": 33.0,
        "mobilebert": 0.83142,
        "mobiledet": 0.27075,
        "mobilenet_edgetpu": 0.746662,
        "mobilenet_v4": None,
        "mosaic": 0.57408,
        "ssd_mobilenet_v2": 0.227,
    }


def test_a_cell_that_is_older_than_the_knob_has_no_known_rules_nor_target() -> None:
    old = {"numerics": "int8", "dataset": "full"}
    assert rules_of("mobilebert", old) is None
    assert quality_target(CATALOG.workloads["mobilebert"], old) is None
    works = [
        work_of(CATALOG, "mobilebert", "single_stream", "litert", knobs)
        for knobs in (old, knobs_of("mobilebert"))
    ]
    assert works[0] != works[1], "nobody knows by which rules it ran"


def test_another_version_is_other_work() -> None:
    works = {
        work_of(CATALOG, "mosaic", "single_stream", "litert", knobs_of("mosaic", **given))
        for given in ({}, {SUITE_VERSION: "v6.0"}, {SUITE_VERSION: "v5.0"})
    }
    assert sorted(work.title(CATALOG) for work in works) == [
        "mosaic single_stream",
        "mosaic single_stream suite_version=v5.0",
    ]


@pytest.mark.parametrize("version", ["v9.9", "v3.0", "4.0", "newest"])
def test_a_version_without_the_task_is_refused_with_those_that_have_it(version: str) -> None:
    refused = f"cannot read the sweep: key knobs.suite_version: '{version}' is not allowed"
    known = "Give one of: v4.0, v4.1, v5.0, v6.0."
    with pytest.raises(SweepInvalid) as caught:
        cells_of(sweep("mobilenet_v4", suite_version=(version,)), CATALOG)
    assert str(caught.value) == f"{refused}. {known}"
    with pytest.raises(SweepInvalid) as caught:
        cells_of(sweep("mobilenet_v4", "edsr", suite_version=(version,)), CATALOG)
    assert str(caught.value) == f"{refused} for workload mobilenet_v4. {known}"


def test_a_target_of_ones_own_needs_one_to_replace() -> None:
    assert cells_of(sweep("mobilebert", quality_target=(0.5,), suite_version=("v6.0",)), CATALOG)
    with pytest.raises(SweepInvalid, match="has no quality target to override"):
        cells_of(sweep("mobilenet_v4", quality_target=(0.5,)), CATALOG)


@pytest.mark.parametrize("stack", ["litert", "tflite"])
@pytest.mark.parametrize("version", versions_of("mobilenet_edgetpu"))
def test_images_are_fitted_as_the_version_s_app_does_it(version: str, stack: str) -> None:
    asked = sweep("mobilenet_edgetpu", suite_version=(version,)).model_copy(
        update={"stack": (stack,)}
    )
    (cell,) = cells_of(asked, CATALOG)
    program = program_of(cell, CATALOG)
    assert isinstance(program, OnDeviceProgram)
    assert isinstance(program.workload.input, ImageInput)
    newer = float(version[1:]) >= 4
    assert program.workload.input.fit == ("center_crop" if newer else "resize_then_crop")
    rest = {"input"}
    of_manifest = CATALOG.workloads["mobilenet_edgetpu"].on_device
    assert of_manifest
    assert program.workload.model_dump(exclude=rest) == of_manifest.model_dump(exclude=rest)
