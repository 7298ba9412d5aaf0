"""Links to folders: no search follows one, and an error that may be due to it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from models.mobile import catalogue
from models.mobile.datasets.images import ImageFiles
from models.mobile.links import not_followed
from models.mobile.store import Store
from tests.support.published_sets import add_tasks, prepared
from tests.unit.models import test_fetching as made

SAID = r" \(links to folders, such as link, are not followed\)"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with nothing but a link to one that has files."""
    (tmp_path / "elsewhere").mkdir()
    for name in ("a.png", "images.zip", "instances_val2017.json"):
        (tmp_path / "elsewhere" / name).touch()
    (tmp_path / "set/sub").mkdir(parents=True)
    (tmp_path / "set/sub/link").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "set"


def test_links_to_files_and_to_nothing_are_not_spoken_of(folder: Path) -> None:
    (folder / "sub/link").unlink()
    (folder / "file").symlink_to(folder.parent / "elsewhere/a.png")
    (folder / "nothing").symlink_to(folder / "nowhere")
    assert not_followed(folder) == ""


def test_a_search_says_that_a_link_was_not_followed(store: Store, folder: Path) -> None:
    with pytest.raises(UserError, match=f"it has no image{SAID}"):
        ImageFiles.of(folder)
    with pytest.raises(UserError, match=f"no manifest names a file in this folder{SAID}"):
        catalogue.add(store, folder, None)
    add_tasks(store, "mobilenet_edgetpu", 3, "coco")
    with pytest.raises(UserError, match=f"it has no instances_val2017.json{SAID}. Put it"):
        prepared(store, "coco", folder)
    made.add_task(store, "https://example.com" + made.PATH)
    with pytest.raises(UserError, match=f"it is not there{SAID}. Copy images.zip"):
        made.fetched(store, mirror=str(folder))
