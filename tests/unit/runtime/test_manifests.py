"""Whether a farm works with the manifests of now."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.catalog import manifests_digest
from controller.platform.atomic import write_private
from controller.runtime.home import Endpoint, Home
from controller.runtime.manifests import have_changed


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def read_by_the_controller(home: Home, digest: str) -> None:
    endpoint = Endpoint(url="http://127.0.0.1:3", version="0.2.0", pid=7, manifests=digest)
    write_private(home.endpoint_file, endpoint.model_dump_json())


def unreadable() -> str:
    raise PermissionError


def test_without_a_controller_nothing_has_changed(home: Home) -> None:
    assert not have_changed(home, lambda: "a")


def test_a_controller_that_says_nothing_of_them_is_not_doubted(home: Home) -> None:
    read_by_the_controller(home, "")
    assert not have_changed(home, lambda: "a")


def test_a_change_is_noticed(home: Home) -> None:
    read_by_the_controller(home, "a")
    assert not have_changed(home, lambda: "a")
    assert have_changed(home, lambda: "b")
    assert have_changed(home, unreadable)


def test_a_task_of_the_user_changes_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path))
    before = manifests_digest()
    assert manifests_digest() == before
    task = tmp_path / "tasks" / "mine.yaml"
    task.parent.mkdir()
    task.write_text("name: mine")
    added = manifests_digest()
    task.write_text("name: mine2")
    assert len({before, added, manifests_digest()}) == 3
