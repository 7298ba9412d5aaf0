"""Every YAML file that somebody writes: a key given twice is called that, with its place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.inference.bundle import recipe
from agents.virtual_phone import profiles
from controller.contracts import catalog, policy
from controller.contracts.documents import DocumentRefused, load_yaml
from controller.contracts.errors import BenchfarmError
from controller.contracts.manifests import StackManifest
from controller.contracts.sweep_file import parse_sweep
from controller.contracts.unreadable import reason
from models.mobile import catalogue
from models.mobile.store import Store

ROOT = Path(__file__).parents[3]
TASK = ROOT / "models/manifests/mobile/edsr_surrogate.yaml"
STACK = ROOT / "agents/manifests/stacks/litert.yaml"
SWEEP = ROOT / "sweeps/retinanet-precision.yaml"
COMMAND = "name: mine\ncommand: {}\n"


def _sweep(path: Path) -> object:
    return parse_sweep(path.read_bytes(), str(path))


def _task_or_stack(path: Path) -> object:
    return catalogue.add(Store(path.parent / "store"), path, None)


def _manifest(path: Path) -> object:
    return catalog._read(StackManifest, path)


def _profile(path: Path) -> object:
    return profiles.load(str(path))


def _recipe(path: Path) -> object:
    folder = shutil.copytree(recipe.FOLDER, path.parent / "recipes")
    shutil.copy(path, folder / recipe.COMMON)
    return recipe.recipe_named("litert-x86_64", folder)


def _policy(path: Path) -> object:
    return policy.load_policy(path.stem, path.parent)


DOORS = {
    "sweep": (_sweep, SWEEP.read_text()),
    "models add, a task": (_task_or_stack, TASK.read_text()),
    "models add, a stack": (_task_or_stack, COMMAND),
    "manifest, also of a user": (_manifest, STACK.read_text()),
    "profile of a virtual phone": (_profile, (profiles.FOLDER / "flagship.yaml").read_text()),
    "bundle recipe": (_recipe, (recipe.FOLDER / recipe.COMMON).read_text()),
    "policy": (_policy, (policy.FOLDER / "lab.yaml").read_text()),
}


@pytest.mark.parametrize(("open_door", "text"), DOORS.values(), ids=DOORS)
def test_a_key_given_twice_is_called_that(
    tmp_path: Path, open_door: Callable[[Path], object], text: str
) -> None:
    path = tmp_path / "mine.yaml"
    key = next(re.finditer(r"^(\w+):", text, re.MULTILINE))[1]
    path.write_text(f"{text}{key}: other\n")
    with pytest.raises((BenchfarmError, DocumentRefused)) as caught:
        open_door(path)
    said = str(caught.value)
    line = len(path.read_text().splitlines())
    assert f"line {line}, column 1: key '{key}' is given twice" in said
    assert "not YAML" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a:\n  b: 1\n  b: 2\n", "line 3, column 3: key 'b' is given twice"),
        ("{a: [{b: 1, 'b': 2}]}", "line 1, column 13: key 'b' is given twice"),
        ("true: 1\n1: 2\n", "line 2, column 1: key 1 is given twice"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", "line 4, column 3: key '<<' is given twice"),
    ],
)
def test_where_it_is_given_twice_is_said(text: str, what: str) -> None:
    with pytest.raises(DocumentRefused) as caught:
        load_yaml(text)
    assert reason(caught.value) == what


def test_a_key_that_overrides_a_merged_one_is_given_once() -> None:
    text = "a: &a {x: 2}\nouter: {inner: &b {<<: *a, x: 1}}\nc: {<<: *b}\n"
    assert load_yaml(text) == {"a": {"x": 2}, "outer": {"inner": {"x": 1}}, "c": {"x": 1}}


def test_no_other_door_reads_yaml() -> None:
    reads = re.compile(r"\byaml\.(safe_|full_|unsafe_)?load|\byaml import .*load|YAML\(")
    found = [str(path.relative_to(ROOT)) for path in _sources() if reads.search(path.read_text())]
    assert found == ["controller/contracts/documents.py"]


def _sources() -> Iterator[Path]:
    for package in ("controller", "agents", "kernels", "models", "deploy"):
        yield from sorted((ROOT / package).rglob("*.py"))
