"""What `benchfarm models add PATH --as KEY` sees at once of a data set's part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from PIL import Image

from models.mobile import catalogue
from models.mobile.errors import DatasetUnusable
from models.mobile.store import Store

COUNT, SIDE = 3, 4
MANIFESTS = Path(catalogue.__file__).parents[1] / "manifests/mobile"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


def images(folder: Path, count: int = COUNT, mode: str = "RGB", first: int = 0) -> Path:
    folder.mkdir()
    for number in range(first, first + count):
        Image.new(mode, (SIDE, SIDE), number).save(folder / f"{number}.png")
    return folder


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def coco(path: Path, count: int) -> Path:
    names = [{"id": n, "file_name": f"{n}.png", "width": 4, "height": 4} for n in range(count)]
    return written(path, json.dumps({"images": names, "annotations": []}))


def add_task(store: Store, kind: str) -> str:
    """Have a task with a data set of a kind, whose parts nobody publishes; return its key."""
    task = yaml.safe_load((MANIFESTS / "mobilenet_edgetpu.yaml").read_text())
    task["name"] = f"mine_{kind}"
    on_device = task["on_device"]
    on_device["input"] |= {"height": SIDE, "width": SIDE}
    parts: dict[str, object] = {"samples": {}, "truth": {}}
    on_device["datasets"] = {"full": {"kind": kind, "samples": COUNT, "parts": parts}}
    task["knobs"]["dataset"] |= {"default": "full", "choices": ["full"]}
    file = store.folder.parent / f"{kind}.yaml"
    file.write_text(yaml.safe_dump(task))
    catalogue.add(store, file, None)
    return f"mine_{kind}/full"


Make = Callable[[Path], Path]
SAMPLES: dict[str, tuple[Make, str]] = {
    "too few": (lambda at: images(at / "few", COUNT - 1), f"it has {COUNT - 1} samples, not"),
    "too many": (lambda at: images(at / "many", COUNT + 1), f"it has {COUNT + 1} samples, not"),
    "none": (lambda at: images(at / "none", 0), "it has no image"),
    "text": (lambda at: written(at / "list.txt", "0\n1\n2\n"), "File is not a zip file"),
}
TRUTHS: dict[str, tuple[str, Make, Make, str]] = {
    "labels": (
        "imagenet",
        lambda at: written(at / "right", "0\n1.png 7\n\n2\n"),
        lambda at: written(at / "wrong", "0\ncat\n2\n"),
        "line 2 ends with 'cat', and not with a class number",
    ),
    "number of labels": (
        "imagenet",
        lambda at: written(at / "right", "0\n1\n2\n"),
        lambda at: written(at / "wrong", "0\n1\n"),
        "2 ",
    ),
    "boxes": (
        "coco",
        lambda at: coco(at / "right", COUNT),
        lambda at: written(at / "wrong", "0\n1\n2\n"),
        "ParseError",
    ),
    "number of boxes": (
        "coco",
        lambda at: coco(at / "right", COUNT),
        lambda at: coco(at / "wrong", COUNT - 1),
        "2",
    ),
    "classes of pixels": (
        "ade20k",
        lambda at: images(at / "right", mode="L"),
        lambda at: images(at / "wrong", COUNT - 1, mode="L"),
        "2",
    ),
    "large images": (
        "image_pairs",
        lambda at: images(at / "right"),
        lambda at: written(at / "wrong", "no images"),
        "File is not a zip file",
    ),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_what_can_not_be_the_samples_is_not_added(store: Store, tmp_path: Path, case: str) -> None:
    make, seen = SAMPLES[case]
    key = f"{add_task(store, 'imagenet')}/samples"
    with pytest.raises(DatasetUnusable, match=seen) as refused:
        catalogue.add(store, make(tmp_path), key)
    assert "\n" not in str(refused.value)
    assert store.pinned(key) is None
    catalogue.add(store, images(tmp_path / "right"), key)
    assert store.pinned(key)


@pytest.mark.parametrize("beside_samples", [False, True])
@pytest.mark.parametrize("case", TRUTHS)
def test_what_can_not_be_the_truth_is_not_added(
    store: Store, tmp_path: Path, case: str, *, beside_samples: bool
) -> None:
    kind, right, wrong, seen = TRUTHS[case]
    key = add_task(store, kind)
    if beside_samples:
        catalogue.add(store, images(tmp_path / "samples"), f"{key}/samples")
    with pytest.raises(DatasetUnusable, match=seen) as refused:
        catalogue.add(store, wrong(tmp_path), f"{key}/truth")
    assert "parts.truth" in str(refused.value)
    assert store.pinned(f"{key}/truth") is None
    catalogue.add(store, right(tmp_path), f"{key}/truth")
    assert store.pinned(f"{key}/truth")


OLD_AND_NEW = {"old.txt": "0.png 0\n1.png 1\n2.png 2\n", "new.txt": "1.png 1\n2.png 2\n3.png 3\n"}


def test_samples_and_truth_are_replaced_in_this_order(store: Store, tmp_path: Path) -> None:
    key = add_task(store, "imagenet")
    catalogue.add(store, images(tmp_path / "old"), f"{key}/samples")
    labels = [written(tmp_path / name, text) for name, text in OLD_AND_NEW.items()]
    catalogue.add(store, labels[0], f"{key}/truth")
    catalogue.add(store, images(tmp_path / "new", first=1), f"{key}/samples")
    with pytest.raises(DatasetUnusable, match=r"it has '0\.png' in the place of 1\.png"):
        catalogue.add(store, labels[0], f"{key}/truth")
    catalogue.add(store, labels[1], f"{key}/truth")
