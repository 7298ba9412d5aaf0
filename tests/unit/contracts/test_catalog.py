from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from pydantic import ValidationError

from controller.contracts import added_manifests
from controller.contracts import catalog as catalog_module
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.documents import load_yaml
from controller.contracts.errors import SweepInvalid
from controller.contracts.fitting import fits
from controller.contracts.manifests import Knob, ScenarioManifest, StackManifest, WorkloadManifest
from controller.contracts.unreadable import reason
from controller.scheduling.expansion import cells_of
from tests.support import builders

ROOT = Path(__file__).parents[3]
CATALOG = load_catalog()
MANIFESTS = (CATALOG.workloads, CATALOG.stacks, CATALOG.scenarios, CATALOG.launch)
KNOBS = [
    pytest.param(knob, id=f"{name}.{knob_name}")
    for manifests in MANIFESTS
    for name, manifest in manifests.items()
    for knob_name, knob in manifest.knobs.items()
]
FITTING = [
    (workload, stack)
    for workload, stack in product(CATALOG.workloads.values(), CATALOG.stacks.values())
    if fits(workload, stack)
]
PROGRAMS = sorted(stack.name for stack in CATALOG.stacks.values() if stack.command)
"""Stacks that are a user's own program, each with a scenario of its own."""


def scenarios_of(workload: WorkloadManifest, stack: StackManifest) -> list[str]:
    if stack.command:
        return [stack.name]
    return [name for name in workload.scenarios if name not in PROGRAMS]


def test_every_kind_of_manifest_is_there() -> None:
    assert all(MANIFESTS)


def test_no_name_is_given_twice() -> None:
    folders = {kind: (kind,) for kind in ("stacks", "scenarios", "launch")}
    for kind, places in {"workloads": ("workloads", "mobile"), **folders}.items():
        files = [path for place in places for path in catalog_module._manifest_files(place)]
        own = PROGRAMS if kind == "scenarios" else []
        assert sorted(getattr(CATALOG, kind)) == sorted([*own, *(path.stem for path in files)])


@pytest.mark.parametrize("knob", KNOBS)
def test_a_default_is_allowed(knob: Knob) -> None:
    assert knob.objection(knob.default) is None
    assert knob.description
    assert all(knob.objection(choice) is None for choice in knob.choices or ())


def test_no_knob_is_declared_by_two_that_can_meet_in_a_cell() -> None:
    for workload, stack in FITTING:
        for scenario in map(CATALOG.scenarios.__getitem__, scenarios_of(workload, stack)):
            parts = (workload.knobs, stack.knobs, scenario.knobs, CATALOG.launch_knobs(stack.name))
            declared = Counter(name for part in parts for name in part)
            assert max(declared.values()) == 1
            assert set(declared) == set(CATALOG.knobs_of(workload.name, stack.name, scenario.name))


def test_every_workload_can_be_swept_with_its_defaults() -> None:
    assert {workload.name for workload, _ in FITTING} == set(CATALOG.workloads)
    assert {stack.name for _, stack in FITTING} == set(CATALOG.stacks)
    for workload, stack in FITTING:
        names = scenarios_of(workload, stack)
        sweep = builders.sweep(workload=workload.name, stack=stack.name, scenario=names)
        assert len(cells_of(sweep, CATALOG)) == len(names) > 0


@pytest.mark.parametrize(
    "target",
    [
        *(workload.builder for workload in CATALOG.workloads.values() if workload.builder),
        *(
            dataset.writer
            for workload in CATALOG.workloads.values()
            if workload.on_device
            for dataset in workload.on_device.datasets.values()
            if dataset.writer
        ),
        *(stack.backend for stack in CATALOG.stacks.values() if stack.backend),
    ],
)
def test_what_a_manifest_names_is_there(target: str) -> None:
    module, _, name = target.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    source = ast.parse(Path(spec.origin).read_text())
    definitions = (ast.ClassDef, ast.FunctionDef)
    assert name in {node.name for node in source.body if isinstance(node, definitions)}


def test_scenarios_that_cannot_take_turns_say_what_to_do_instead() -> None:
    folder = Path(__file__).parents[3] / "agents" / "scenarios"
    modules = sorted(path for path in folder.glob("[a-z]*.py") if path.stem != "protocol")
    assert modules
    for path in modules:
        body = ast.parse(path.read_text()).body
        functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        said = CATALOG.scenarios[path.stem].instead_of_pairing
        assert bool(said) == ("run_batches" not in functions), path.stem


@pytest.mark.parametrize(
    ("knob", "value", "objection"),
    [
        (Knob(type="int", default=1, description=""), 3, None),
        (Knob(type="int", default=1, description=""), 3.0, "Give a value of type int."),
        (Knob(type="int", default=1, description=""), True, "Give a value of type int."),
        (Knob(type="int", default=1, description=""), "3", "Give a value of type int."),
        (Knob(type="float", default=1.0, description=""), 3, None),
        (Knob(type="float", default=1.0, description=""), 3.5, None),
        (Knob(type="float", default=1.0, description=""), 10**400, "Give a smaller number."),
        (Knob(type="float", default=1.0, description=""), -(10**400), "Give a smaller number."),
        (Knob(type="float", default=1.0, description=""), False, "Give a value of type float."),
        (Knob(type="bool", default=True, description=""), False, None),
        (Knob(type="bool", default=True, description=""), 0, "Give a value of type bool."),
        (Knob(type="str", default="", description=""), "true", None),
        (Knob(type="str", default="", description=""), True, "Give a value of type str."),
        (Knob(type="int", default=8, description="", min=8, max=16), 8, None),
        (Knob(type="int", default=8, description="", min=8, max=16), 7, "Give at least 8."),
        (Knob(type="int", default=8, description="", min=8, max=16), 17, "Give at most 16."),
        (Knob(type="int", default=0, description="", max=0), 1, "Give at most 0."),
        (
            Knob(type="int", default=0, description="", multiple_of=32),
            48,
            "Give a multiple of 32.",
        ),
        (Knob(type="int", default=0, description="", multiple_of=32), 64, None),
        (
            Knob(type="str", default="a", description="", choices=("a", "b")),
            "c",
            "Give one of: a, b.",
        ),
        (Knob(type="str", default="a", description="", choices=("a", "b")), "b", None),
        (Knob(type="int", default=1, description="", choices=(1, 2)), 3, "Give one of: 1, 2."),
    ],
)
def test_a_knob_objects(knob: Knob, value: Scalar, objection: str | None) -> None:
    assert knob.objection(value) == objection


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"multiple_of": 0}, "multiple_of: it is not a number above 0"),
        ({"multiple_of": -32}, "multiple_of: it is not a number above 0"),
        ({"default": 48, "multiple_of": 32}, "default: 48 is not allowed. Give a multiple of 32"),
        ({"default": 7, "min": 8}, "default: 7 is not allowed. Give at least 8"),
        ({"default": 17, "max": 16}, "default: 17 is not allowed. Give at most 16"),
        ({"default": "8"}, "default: '8' is not allowed. Give a value of type int"),
        ({"type": "float", "default": "fast"}, "'fast' is not allowed. Give a value of type float"),
        ({"default": 8, "choices": (1, 2)}, "default: 8 is not allowed. Give one of: 1, 2"),
        (
            {"type": "str", "default": "../x", "folder_name": True},
            "'../x' is not allowed. Give the name of a folder: no path that leads out of it",
        ),
    ],
)
def test_a_knob_that_refuses_its_own_default_is_none(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Knob.model_validate({"type": "int", "default": 0, "description": ""} | wrong)
    assert said in reason(refused.value)


def test_a_manifest_with_such_a_knob_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read, and a sweep of it ended with a traceback."""
    ours = next(p for p in catalog_module._manifest_files("scenarios") if p.stem == "training")
    path = tmp_path / "own_parts" / "manifests" / "scenarios" / "mine.yaml"
    path.parent.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    text = ours.read_text()
    assert "    default: 10\n" in text
    path.write_text(text.replace("    default: 10\n", "    default: 10\n    multiple_of: 0\n"))
    with pytest.raises(SweepInvalid) as caught:
        catalog_module._by_name(ScenarioManifest, "scenarios", ("own_parts",))
    assert str(path) in caught.value.tried
    assert "knobs.steps.multiple_of: it is not a number above 0" in caught.value.seen


def test_a_catalogue_crosses_as_json() -> None:
    assert Catalog.model_validate_json(CATALOG.model_dump_json()) == CATALOG


@pytest.mark.parametrize(
    "content", [b"", b"name: [", b"name: x\nsurprise: 1", b"\xff\xfe", b"[]", b"- name"]
)
def test_a_broken_manifest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (tmp_path / "broken_parts" / "manifests" / "stacks").mkdir(parents=True)
    path = tmp_path / "broken_parts" / "manifests" / "stacks" / "x.yaml"
    path.write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SweepInvalid) as caught:
        catalog_module._by_name(StackManifest, "stacks", ("broken_parts",))
    assert str(path) in caught.value.tried


def test_a_knob_of_the_project_chooses_among_the_modules_of_a_folder() -> None:
    there = {path.stem for path in (ROOT / "kernels/ops").glob("*.py")} - {"__init__"}
    assert set(CATALOG.workloads["kernels"].knobs["op"].choices or ()) == there
    assert "nms" in there


@pytest.mark.parametrize("folder", ["kernels/nothing", "nothing", "", "kernels/csrc"])
def test_a_folder_without_modules_is_named(tmp_path: Path, folder: str) -> None:
    manifest = (ROOT / "models/manifests/workloads/kernels.yaml").read_text()
    broken = tmp_path / "broken.yaml"
    broken.write_text(manifest.replace("choices_in: kernels/ops", f"choices_in: '{folder}'"))
    with pytest.raises(SweepInvalid, match=f"choices_in: '{folder}' has no modules"):
        catalog_module._read(WorkloadManifest, broken)


def test_a_users_task_lists_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path))
    task = (ROOT / "models/manifests/workloads/shapes_classifier.yaml").read_text()
    (tmp_path / "tasks").mkdir()
    listing = task.replace("name: shapes_classifier", "name: listing")
    (tmp_path / "tasks/listing.yaml").write_text(
        listing.replace("choices: [int8, fp32]", "choices_in: kernels/ops")
    )
    found = load_catalog()
    (left_out,) = found.left_out
    assert (left_out.name, "listing" in found.workloads) == ("listing", False)
    assert "choices_in" in left_out.seen


def test_the_project_s_manifests_are_parsed_once_and_a_user_s_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = list[bytes]()

    def counted(raw: bytes) -> object:
        parsed.append(raw)
        return load_yaml(raw)

    for module in (catalog_module, added_manifests):
        monkeypatch.setattr(module, "load_yaml", counted)
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path))
    ours = (ROOT / "models/manifests/workloads/shapes_classifier.yaml").read_text()
    task = tmp_path / "tasks/mine.yaml"
    task.parent.mkdir()
    first = load_catalog()
    for title in ("One", "Another"):
        named = ours.replace("name: shapes_classifier", "name: mine")
        lines = (f"title: {title}" if x.startswith("title:") else x for x in named.splitlines())
        task.write_text("\n".join(lines))
        parsed.clear()
        found = load_catalog()
        assert parsed == [task.read_bytes()]
        assert found.workloads["mine"].title == title
        assert found.workloads["shapes_classifier"] == first.workloads["shapes_classifier"]


def test_a_manifest_of_the_project_that_has_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other_parts" / "manifests" / "scenarios" / "training.yaml"
    path.parent.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    ours = next(p for p in catalog_module._manifest_files("scenarios") if p.name == path.name)
    for title in ("One", "Another"):
        lines = ours.read_text().splitlines()
        path.write_text("\n".join(f"title: {title}" if "title:" in x else x for x in lines))
        (found,) = catalog_module._by_name(ScenarioManifest, "scenarios", ("other_parts",)).values()
        assert found.title == title


def test_a_scenario_of_a_workload_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = catalog_module._by_name

    def planted(kind: type[ScenarioManifest], folder: str) -> dict[str, ScenarioManifest]:
        found = read(kind, folder)
        if folder == "scenarios":
            found["training"] = found["training"].model_copy(update={"workloads": ("resnet5",)})
        return found

    monkeypatch.setattr(catalog_module, "_by_name", planted)
    with pytest.raises(SweepInvalid, match=r"training: key workloads: .* 'resnet5'"):
        load_catalog()
