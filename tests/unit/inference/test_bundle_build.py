"""A bundle that two of a user's processes want at once is built once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.inference.bundle import build
from agents.inference.bundle.recipe import Recipe, recipe_named
from controller.platform.locks import exclusive_in_thread, exclusive_now


@pytest.fixture
def recipe() -> Recipe:
    return recipe_named("litert-arm64-v8a")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that a bundle was assembled in; it is one small file."""
    folders: list[Path] = []

    def assemble(recipe: Recipe, packages: Path, bundle: Path, scratch: Path) -> None:
        lock = scratch.parent / f"{recipe.name}.lock"
        with exclusive_now(lock) as is_free:
            assert not is_free, "who comes now has to wait"
        bundle.mkdir()
        (bundle / "run").write_text("echo")
        folders.append(bundle)

    monkeypatch.setattr(build, "fetched", lambda *_: Path())
    monkeypatch.setattr(build, "assemble", assemble)
    return folders


def test_what_another_process_has_built_while_this_one_waited_is_taken(
    recipe: Recipe, built: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[build.Bundle] = []

    @contextmanager
    def waits_for_another(file: Path) -> Iterator[None]:
        monkeypatch.setattr(build, "exclusive_in_thread", exclusive_in_thread)
        theirs.append(build.build_bundle(tmp_path, recipe))
        with exclusive_in_thread(file):
            yield

    monkeypatch.setattr(build, "exclusive_in_thread", waits_for_another)
    assert [build.build_bundle(tmp_path, recipe)] == theirs
    assert len(built) == 1


def test_a_refresh_builds_again_and_finds_the_same(
    recipe: Recipe, built: list[Path], tmp_path: Path
) -> None:
    first = build.build_bundle(tmp_path, recipe)
    assert build.build_bundle(tmp_path, recipe) == first
    assert build.build_bundle(tmp_path, recipe, refresh=True) == first
    assert len(built) == 2
