"""Recipes are put together from what a runtime and an architecture say."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from agents.inference.bundle.recipe import (
    FOLDER,
    RUNTIMES,
    BundleUnbuildable,
    load_recipe,
    recipe_named,
    recipe_names,
)

LOADGEN = "mlcommons-loadgen"
NAMES = ["litert-arm64-v8a", "litert-x86_64", "tflite-arm64-v8a", "tflite-x86_64"]


def test_every_runtime_has_a_recipe_on_every_architecture() -> None:
    assert recipe_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_one_loadgen_and_its_architectures_own_files(name: str) -> None:
    recipe = recipe_named(name)
    assert recipe.name == name
    assert (LOADGEN in recipe.wheels.packages) is (recipe.compiled is None)
    assert recipe.of_pypi[LOADGEN].version == "6.0.16"
    assert recipe.libraries[0] == recipe.loader
    assert "numpy" in recipe.wheels.packages
    assert recipe.of_pypi["pillow"].version == version("pillow"), "both decode to the same bits"


def test_architectures_differ_in_files_and_not_in_versions() -> None:
    one, other = load_recipe("litert", "x86_64"), load_recipe("litert", "arm64-v8a")
    for name, pin in one.wheels.packages.items():
        assert other.of_pypi[name].version == pin.version
        assert other.of_pypi[name].sha256 != pin.sha256
    assert one.debian.packages == other.debian.packages
    assert (one.debian.arch, other.debian.arch) == ("amd64", "arm64")
    assert other.page_bytes == 16384


def test_what_is_compiled_and_its_compiler_are_pinned() -> None:
    packages = load_recipe("tflite", "arm64-v8a").of_pypi
    assert {LOADGEN, "pybind11", "ziglang"} <= set(packages)
    assert all(len(pin.sha256) == 64 for pin in packages.values())
    assert "libpython3.11-dev" in load_recipe("tflite", "arm64-v8a").of_debian


@pytest.mark.parametrize("name", ["litert-vax", "litert", "onnx-x86_64", "../litert-x86_64", ""])
def test_an_unknown_one_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(BundleUnbuildable, match=r"there is no recipe for it.*litert-arm64-v8a"):
        recipe_named(name)


def test_a_wheel_that_is_not_pinned_for_an_architecture_is_named(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "recipes")
    file = folder / RUNTIMES / "litert.yaml"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "arm64-v8a: 0ab0" not in line))
    assert load_recipe("litert", "x86_64", folder).name == "litert-x86_64"
    with pytest.raises(BundleUnbuildable, match=r"no wheel of numpy is pinned for it"):
        load_recipe("litert", "arm64-v8a", folder)
