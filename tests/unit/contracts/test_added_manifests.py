"""Manifests that a user has added: one that is wrong is left out alone, and says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from controller.contracts.catalog import Catalog, all_left_out, load_catalog, manifests_digest
from controller.contracts.errors import SweepInvalid
from controller.contracts.plugins import LeftOut
from controller.scheduling.expansion import cells_of
from models.mobile import catalogue
from models.mobile.store import Store
from tests.support import builders
from tests.support.user_program import STACK

ROOT = Path(__file__).parents[3]
TASK = (ROOT / "models/manifests/workloads/shapes_classifier.yaml").read_text()
BASE = load_catalog()
PROGRAM = yaml.safe_load(STACK)
WORD = {"type": "str", "default": "a", "description": "d"}
REFUSING = {"type": "int", "default": 7, "min": 8, "description": "refuses its own default"}
MODEL: dict[str, object] = {"files": {}, "arguments": ["/bin/true", "{model}"]}
"""A command that runs every task's model, instead of the workload `program`."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of models, with the folders of its manifests."""
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "models"))
    for folder in ("tasks", "programs"):
        (tmp_path / "models" / folder).mkdir(parents=True)
    return tmp_path / "models"


def task(name: str = "mine", **knobs: object) -> str:
    """Return a task as the project's own, with further knobs."""
    said = yaml.safe_load(TASK)
    return yaml.safe_dump({**said, "name": name, "knobs": {**said["knobs"], **knobs}})


def program(
    name: str = "vendor-bench", command: dict[str, object] | None = None, **knobs: object
) -> str:
    """Return the program of docs/adding.md, with other keys of its command and further knobs."""
    changed = {**PROGRAM["command"], **(command or {})}
    return yaml.safe_dump(
        {**PROGRAM, "name": name, "command": changed, "knobs": {**PROGRAM["knobs"], **knobs}}
    )


def left_out(catalog: Catalog) -> LeftOut:
    """Return the only manifest that is left out; all of the project's are there."""
    for there, before in (
        (catalog.workloads, BASE.workloads),
        (catalog.stacks, BASE.stacks),
        (catalog.scenarios, BASE.scenarios),
    ):
        assert there.keys() >= before.keys()
    (one,) = catalog.left_out
    assert "\n" not in one.said
    assert one.remedy
    return one


OTHER_FACT = STACK.replace("the clock mode that the program reports", "something else")
BROKEN: dict[str, tuple[str, bytes, str]] = {
    "empty": ("tasks/mine.yaml", b"", "it is not a mapping"),
    "not YAML": ("tasks/mine.yaml", b"name: [", "not YAML: line 1"),
    "not UTF-8": ("tasks/mine.yaml", b"\xff\xfe", "UTF-8"),
    "its own default": ("tasks/mine.yaml", task(x=REFUSING).encode(), "7 is not allowed"),
    "taken": ("tasks/mine.yaml", task("resnet50").encode(), "a workload 'resnet50' exists already"),
    "not YAML, program": ("programs/mine.yaml", b"name: [", "not YAML: line 1"),
    "its own default, program": (
        *("programs/vendor-bench.yaml", program(x=REFUSING).encode()),
        "7 is not allowed",
    ),
    "taken, program": (
        *("programs/mine.yaml", program("litert").encode()),
        "a stack or a scenario 'litert' exists already",
    ),
    "no program": ("programs/x.yaml", b"name: x\ntitle: t\ndevice_kinds: [android]", "exactly one"),
    "a knob of a stack": (
        *("tasks/mine.yaml", task(xnnpack=WORD).encode()),
        "workload mine and stack litert both declare the knob xnnpack",
    ),
    "a knob of a scenario": (
        *("tasks/mine.yaml", task(length=WORD).encode()),
        "workload mine and scenario multi_stream both declare the knob length",
    ),
    "a knob of its own scenario": (
        *("programs/vendor-bench.yaml", program(policy=WORD).encode()),
        "stack vendor-bench and scenario vendor-bench both declare the knob policy",
    ),
    "a workload's knob, without a model": (
        *("programs/x.yaml", program("x", {**MODEL, "arguments": ["x", "{numerics}"]}).encode()),
        "{numerics} is not a knob of the stack",
    ),
    "a knob of the workloads": (
        *("programs/vendor-bench.yaml", program(command=MODEL, numerics=WORD).encode()),
        "stack vendor-bench and workload shapes_classifier both declare the knob numerics",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_manifest_of_a_user_is_left_out_alone(store: Path, broken: str) -> None:
    """It ended every command of everyone who uses the home."""
    name, content, said = BROKEN[broken]
    (store / name).write_bytes(content)
    (store / "tasks" / "other.yaml").write_text(task("other"))
    (store / "programs" / "other-bench.yaml").write_text(program("other-bench"))
    catalog = load_catalog()
    one = left_out(catalog)
    assert one.what == f"manifest {store / name}"
    assert said in one.seen
    assert all_left_out() == (one,)
    assert "other" in catalog.workloads
    assert "other-bench" in catalog.scenarios
    assert Catalog.model_validate_json(catalog.model_dump_json()) == catalog


def test_without_a_broken_manifest_nothing_is_left_out(store: Path) -> None:
    assert all_left_out() == ()
    (store / "tasks" / "mine.yaml").write_text(task(own=WORD))
    (store / "programs" / "vendor-bench.yaml").write_text(program(numerics=WORD))
    catalog = load_catalog()
    assert catalog.left_out == all_left_out() == ()
    told: dict[str, object] = {"files": {}, "arguments": ["/bin/true", "{model}", "{numerics}"]}
    (store / "programs" / "model-bench.yaml").write_text(program("model-bench", told))
    assert load_catalog().left_out == ()
    assert "own" in catalog.workloads["mine"].knobs
    # Of a program that takes no model, no workload has this knob.
    assert "numerics" in catalog.stacks["vendor-bench"].knobs


@pytest.mark.parametrize("odd", ["a folder", "a link to nothing", "no UTF-8 in its name"])
def test_an_odd_file_among_a_user_s_manifests_ends_nothing(store: Path, odd: str) -> None:
    before, path = manifests_digest(), store / "tasks" / "odd.yaml"
    if odd == "a folder":
        path.mkdir()
    elif odd == "a link to nothing":
        path.symlink_to(store / "gone")
    else:
        path = store / "tasks" / os.fsdecode(b"odd-\xff.yaml")
        path.write_text("name: [")
    catalog = load_catalog()
    assert left_out(catalog).what.startswith(f"manifest {store}/tasks/odd")
    assert Catalog.model_validate_json(catalog.model_dump_json()) == catalog
    assert manifests_digest() == manifests_digest() != before


@pytest.mark.parametrize(
    ("folder", "content"), [("tasks", task("twice")), ("programs", program("twice"))]
)
def test_a_name_of_two_files_is_neither_s(store: Path, folder: str, content: str) -> None:
    for name in ("a", "b"):
        (store / folder / f"{name}.yaml").write_text(content)
    catalog = load_catalog()
    assert {"twice"}.isdisjoint(catalog.workloads.keys() | catalog.stacks.keys())
    a, b = catalog.left_out
    assert a.seen == b.seen == "another file of its folder has the name 'twice', too"
    assert (a.name, a.what) == ("twice", f"manifest {store / folder / 'a.yaml'}")


def test_a_fact_that_means_something_else_leaves_one_program_out(store: Path) -> None:
    (store / "programs" / "a.yaml").write_text(program("a"))
    other = OTHER_FACT.replace("name: vendor-bench", "name: b")
    (store / "programs" / "b.yaml").write_text(other)
    catalog = load_catalog()
    one = left_out(catalog)
    assert (one.name, "a" in catalog.stacks) == ("b", True)
    assert one.seen == "a declares the fact mode_used in another way"


def test_a_task_goes_before_a_program_that_has_a_knob_of_it(store: Path) -> None:
    (store / "tasks" / "mine.yaml").write_text(task(own=WORD))
    (store / "programs" / "vendor-bench.yaml").write_text(program(command=MODEL, own=WORD))
    catalog = load_catalog()
    assert "mine" in catalog.workloads
    assert left_out(catalog).seen == (
        "stack vendor-bench and workload mine both declare the knob own"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            program(command=MODEL, numerics=WORD),
            "stack vendor-bench and workload shapes_classifier",
        ),
        (program(policy=WORD), "stack vendor-bench and scenario vendor-bench both declare"),
        (task(xnnpack=WORD), "workload mine and stack litert both declare the knob xnnpack"),
        (task(length=WORD), "workload mine and scenario multi_stream both declare the knob"),
        (task(own=WORD), "workload mine and stack takes-own both declare the knob own"),
        (OTHER_FACT, "takes-own declares the fact mode_used in another way"),
    ],
)
def test_what_would_be_left_out_is_not_added(
    store: Path, tmp_path: Path, content: str, said: str
) -> None:
    own = store / "programs" / "takes-own.yaml"
    own.write_text(program("takes-own", command=MODEL, own=WORD))
    file = tmp_path / "new.yaml"
    file.write_text(content)
    with pytest.raises(SweepInvalid) as refused:
        catalogue.add(Store(store), file, None)
    assert said in refused.value.seen
    assert [path for path in store.glob("*/*.yaml") if path != own] == []


def test_a_sweep_that_names_it_says_what_is_wrong_with_the_file(store: Path) -> None:
    path = store / "tasks" / "mine.yaml"
    path.write_text(task(x=REFUSING))
    (store / "programs" / "bench.yaml").write_text("name: [")
    catalog = load_catalog()
    cells = {"workload": "shapes_classifier", "stack": "litert", "scenario": "offline"}
    assert len(cells_of(builders.sweep(**cells), catalog)) == 1
    paired = {"stack": (), "paired": {"a": "litert", "b": "bench"}}
    recipes: dict[str, object] = {"recipes": {"r": {"stack": "bench"}}}
    for changes, name in (
        ({"workload": "mine"}, "mine"),
        ({"stack": "bench"}, "bench"),
        (paired, "bench"),
        (recipes, "bench"),
    ):
        with pytest.raises(SweepInvalid) as refused:
            cells_of(builders.sweep(**{**cells, **changes}), catalog)
        assert refused.value.tried == f"use {name}"
        assert refused.value.remedy == "Correct the file, or remove it."
    with pytest.raises(SweepInvalid, match=r"cannot use mine: manifest .*/tasks/mine.yaml is left"):
        cells_of(builders.sweep(**{**cells, "workload": "mine"}), catalog)
    with pytest.raises(SweepInvalid, match="there is no workload 'other'"):
        cells_of(builders.sweep(**{**cells, "workload": "other"}), catalog)


def test_a_task_that_is_corrected_is_there_again(store: Path, tmp_path: Path) -> None:
    (store / "tasks" / "mine.yaml").write_text(task(x=REFUSING))
    assert "mine" not in load_catalog().workloads
    file = tmp_path / "mine.yaml"
    file.write_text(task())
    catalogue.add(Store(store), file, None)
    catalog = load_catalog()
    assert (catalog.left_out, "mine" in catalog.workloads) == ((), True)
