"""What is pinned is read from every lock, or refused in a line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from packaging.version import Version

from deploy.supply.pins import BUNDLES, LOCK, PROJECT, ROOT, LockUnreadable, pins_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a lock to write."""
    shutil.copy(ROOT / PROJECT, tmp_path / PROJECT)
    (tmp_path / LOCK).parent.mkdir()
    return tmp_path


def test_all_that_the_repository_pins_is_named_with_its_places() -> None:
    pins = {(pin.name, str(pin.version)): pin.places for pin in pins_of()}
    lines = (ROOT / LOCK).read_text().splitlines()
    assert len([place for places in pins.values() for place in places if place == str(LOCK)]) == (
        len([line for line in lines if not line.startswith("#")])
    )
    assert pins["torch", "2.13.0"] == ("pyproject.toml",)
    assert pins["torch", "2.8.0"] == ("agents/stacks/locks/ipex.txt",)
    assert pins["hatchling", "1.33.0"] == ("pyproject.toml",)
    bundles = "agents/inference/bundle"
    assert pins["numpy", "2.4.6"][:2] == (str(LOCK), "agents/stacks/locks/ipex.txt")
    assert f"{bundles}/runtimes/litert.yaml" in pins["numpy", "2.4.6"]
    for pinned in (("numpy", "1.26.4"), ("tflite-runtime", "2.14.0")):
        assert f"{bundles}/runtimes/tflite.yaml" in pins[pinned], "what goes to phones"
    for tool in (("ziglang", "0.17.1"), ("pybind11", "2.11.1")):
        assert f"{bundles}/common.yaml" in pins[tool], "what compiles for phones"
    assert all(len({*places}) == len(places) for places in pins.values())


def test_a_recipe_of_a_bundle_that_cannot_be_read_is_refused(root: Path) -> None:
    (root / LOCK).write_text("")
    shutil.copytree(ROOT / BUNDLES, root / BUNDLES)
    (root / BUNDLES / "common.yaml").write_text("wheels: 1\n")
    with pytest.raises(LockUnreadable, match=r"common\.yaml"):
        pins_of(root)


def test_what_the_build_requires_has_to_be_pinned(root: Path) -> None:
    (root / LOCK).write_text("")
    project = (root / PROJECT).read_text()
    (root / PROJECT).write_text(re.sub(r'"hatchling==[^"]*"', '"hatchling>=1"', project))
    with pytest.raises(LockUnreadable, match=r"cannot read pyproject.toml: .*'hatchling>=1'"):
        pins_of(root)


def test_names_are_in_pypis_normal_form(root: Path) -> None:
    (root / LOCK).write_text("# made\nGrafana_Foundation.SDK==1!2.0rc1  # why\n\n")
    pin, _, torch = pins_of(root)
    assert (pin.name, pin.version) == ("grafana-foundation-sdk", Version("1!2.0rc1"))
    assert torch.name == "torch"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("good==1\nnumpy>=2\n", "line 2, 'numpy>=2', is no NAME==VERSION: >=2 is no exact version"),
        ("numpy\n", "line 1, 'numpy', is no NAME==VERSION"),
        ("numpy==1.*\n", "line 1, 'numpy==1.*', is no NAME==VERSION"),
        ("numpy==1,==2\n", "line 1"),
        ("-r other.txt\n", "line 1, '-r other.txt', is no NAME==VERSION"),
        ("\x1b[31m==1\n", r"line 1, '\x1b[31m==1', is no NAME==VERSION"),
    ],
)
def test_what_is_no_pin_is_refused_by_its_line(root: Path, text: str, seen: str) -> None:
    (root / LOCK).write_text(text)
    with pytest.raises(LockUnreadable) as caught:
        pins_of(root)
    assert seen in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lock_that_is_not_there_or_no_text_is_refused(root: Path) -> None:
    with pytest.raises(LockUnreadable, match=r"cannot read requirements/lock\.txt: .*make lock"):
        pins_of(root)
    (root / LOCK).write_bytes(b"\xff\xfe")
    with pytest.raises(LockUnreadable, match=r"cannot read requirements/lock\.txt: "):
        pins_of(root)
