"""A task that a user has added names no code: nothing of theirs is imported, let alone called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from controller.contracts.catalog import load_catalog, registered_writers
from controller.contracts.errors import SweepInvalid
from controller.contracts.mobile import Dataset, RandomInput
from models.mobile import catalogue
from models.mobile.datasets.load import load_samples
from models.mobile.errors import DatasetUnusable
from models.mobile.store import Store

OURS = Path(__file__).parents[2] / "models/manifests/workloads/shapes_classifier.yaml"
CHECKSUM = "sha256:" + "0" * 64


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plant a module, even where Python finds it; return what is there once it is imported."""
    note = tmp_path / "imported"
    (tmp_path / "planted").mkdir()
    code = f"open({str(note)!r}, 'w').close()\n\ndef made(*_, **__): ...\n"
    (tmp_path / "planted" / "planted_code.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path / "planted"))
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "models"))
    return note


def task(writer: str | None = None, builder: str | None = None) -> str:
    """Return our own task under another name, with other code."""
    said = yaml.safe_load(OURS.read_text())
    said["name"] = "mine"
    if writer:
        (dataset,) = said["on_device"]["datasets"].values()
        dataset["writer"] = writer
    return yaml.safe_dump(said | ({"builder": builder} if builder else {}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (task(writer="planted_code:made"), "writer 'planted_code:made' is not one"),
        (task(writer="os:getpid"), "writer 'os:getpid' is not one"),
        (task(writer="models.mobile.classifier.shapes:__loader__"), "is not one that"),
        (task(builder="planted_code:made"), "key builder: 'planted_code:made' is code"),
        (
            task(builder="models.resnet:Resnet50Training"),
            "is code, which a user's task must not name",
        ),
    ],
)
@pytest.mark.parametrize("how", ["added", "put there"])
def test_a_task_that_names_code_is_refused(
    tmp_path: Path, note: Path, text: str, said: str, how: str
) -> None:
    if how == "added":
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        with pytest.raises(SweepInvalid, match=said):
            catalogue.add(Store(tmp_path / "models"), path, None)
    else:
        path = tmp_path / "models" / "tasks" / "mine.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        (left_out,) = load_catalog().left_out
        assert said in left_out.said
        assert str(path) in left_out.said
    assert "mine" not in load_catalog().workloads
    assert not note.exists()
    assert "planted_code" not in sys.modules


def test_an_order_that_names_other_code_is_refused_where_it_would_be_called(note: Path) -> None:
    dataset = Dataset(kind="written", writer="planted_code:made", checksum=CHECKSUM)
    with pytest.raises(DatasetUnusable, match="is not a writer of a built-in task"):
        load_samples(dataset, {}, RandomInput(), "datasets.full")
    assert not note.exists()


def test_a_task_may_use_a_writer_of_ours(tmp_path: Path, note: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(task())
    (added,) = catalogue.add(Store(tmp_path / "models"), path, None)
    assert added.workload == "mine"
    writers = {d.writer for d in load_catalog().workloads["mine"].on_device.datasets.values()}  # type: ignore[union-attr]
    assert writers <= registered_writers()
    assert not note.exists()
