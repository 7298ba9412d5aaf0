"""Annotations of images: what is kept, and one line with file and field for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.images.annotations import annotations_of
from models.images.errors import DataUnusable
from models.images.folder import LAYOUTS, Layout, data_folder, open_set
from tests.support.image_sets import Document, document, write

Change = Callable[[Document], object]


def test_boxes_have_edges_in_pixels_and_labels_are_the_ids_of_categories() -> None:
    found = annotations_of(document(2), 2, crowds=False)
    assert found.files == ("0.jpg", "1.jpg")
    assert found.sizes.tolist() == [[64, 48], [48, 64]]
    boxes, labels = found.of(1)
    assert boxes.tolist() == [[5, 8, 25, 18], [5, 8, 25, 19]]
    assert labels.tolist() == [0, 1]


def test_boxes_are_clipped_and_what_is_outside_is_left_out() -> None:
    told = document(1)
    told["annotations"][0]["bbox"] = [-10, 40, 100, 100]
    told["annotations"][1]["bbox"] = [64, 0, 10, 10]
    boxes, labels = annotations_of(told, 2, crowds=False).of(0)
    assert boxes.tolist() == [[0, 40, 64, 48]]
    assert labels.tolist() == [0]


def test_images_without_boxes_are_left_out_and_keep_their_place_for_errors() -> None:
    told = document(3)
    told["annotations"] = [a for a in told["annotations"] if a["image_id"] != 10]
    for annotation in told["annotations"][:2]:
        annotation["bbox"][2] = 1  # all boxes of the second image
    found = annotations_of(told, 2, crowds=False)
    assert found.files == ("2.jpg",)
    assert found.places == (2,)


@pytest.mark.parametrize(("crowds", "count"), [(True, 2), (False, 1)])
def test_boxes_around_a_crowd_count_for_openimages_alone(crowds: bool, count: int) -> None:
    told = document(1)
    told["annotations"][0]["iscrowd"] = 1
    assert len(annotations_of(told, 2, crowds=crowds).labels) == count


def _set(key: str, number: int, field: str, value: object) -> Change:
    return lambda told: told[key][number].update({field: value})


def _drop(key: str, number: int, field: str) -> Change:
    return lambda told: told[key][number].pop(field)


WRONG: dict[str, tuple[Change, str, str]] = {
    "no images": (lambda d: d.pop("images"), "images", "it is missing"),
    "no list": (lambda d: d.update(annotations={}), "annotations", "no list, or empty"),
    "empty": (lambda d: d.update(annotations=[]), "annotations", "no list, or empty"),
    "no boxes": (
        lambda d: [a.update(bbox=[0, 0, 1, 1]) for a in d["annotations"]],
        "annotations",
        "none of the 4 images has a box",
    ),
    "no object": (lambda d: d["images"].append(7), "images[4]", "no object"),
    "no id": (_drop("images", 1, "id"), "images[1].id", "missing"),
    "same id": (_set("images", 1, "id", 10), "images", "two of them have one id"),
    "other image": (_set("annotations", 3, "image_id", 99), "annotations[3].image_id", "99"),
    "no label": (_drop("annotations", 3, "category_id"), "annotations[3].category_id", "None"),
    "unknown label": (_set("annotations", 3, "category_id", 5), "annotations[3].category_id", "5"),
    "label of a text": (_set("annotations", 0, "category_id", "0"), "annotations[0].cat", "'0'"),
    "label too large": (
        lambda d: (d["categories"].append({"id": 2}), d["annotations"][2].update(category_id=2)),
        "annotations[2].category_id",
        "2 is not one of 0 to 1",
    ),
    "three sides": (_set("annotations", 0, "bbox", [1, 2, 3]), "annotations[0].bbox", "four"),
    "not finite": (
        _set("annotations", 0, "bbox", [1, 2, float("nan"), 3]),
        "annotations[0].bbox",
        "four finite numbers",
    ),
    "negative": (_set("annotations", 1, "bbox", [1, 2, -3, 3]), "annotations[1].bbox", "negative"),
    "no width": (_drop("images", 2, "width"), "images[2].width", "None"),
    "no height": (_set("images", 2, "height", 0), "images[2].height", "0"),
    "width beyond all images": (_set("images", 2, "width", 10**19), "images[2].width", "pixels"),
    "side beyond all floats": (
        _set("annotations", 0, "bbox", [10**400, 1, 9, 9]),
        "annotations[0].bbox",
        "four finite numbers",
    ),
    "half a character": (
        _set("images", 2, "file_name", "a\ud800.jpg"),
        "images[2].file_name",
        "no file name",
    ),
    "no name": (_set("images", 2, "file_name", ""), "images[2].file_name", "no file name"),
    "outside": (_set("images", 2, "file_name", "../x.jpg"), "images[2].file_name", "leads out"),
    "absolute": (_set("images", 2, "file_name", "/etc/passwd"), "images[2].file_name", "leads out"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_one_line_with_file_and_field(tmp_path: Path, kind: str) -> None:
    change, field, why = WRONG[kind]
    folder = write(tmp_path, change=change)
    with pytest.raises(DataUnusable) as raised:
        open_set("small", 2, tmp_path)
    line = str(raised.value)
    assert line.startswith(f"cannot read {folder}/annotations.json: {field}")
    assert why in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not JSON"),
        (b'{"images": [', "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[" * 100_000, "nested"),
        (b"[]", "the document is no object"),
    ],
)
def test_a_file_that_is_no_document_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    folder = write(tmp_path)
    (folder / "annotations.json").write_bytes(content)
    with pytest.raises(DataUnusable, match=why) as raised:
        open_set("small", 2, tmp_path)
    assert str(folder / "annotations.json") in str(raised.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "there is no such folder"),
        ("../small", "is no name of a data set"),
        ("small/../small", "is no name of a data set"),
        ("/etc", "is no name of a data set"),
        (".hidden", "is no name of a data set"),
        ("empty", "it has no annotations"),
        ("no-images", "there is no such folder"),
    ],
)
def test_a_wrong_path_names_the_knob(tmp_path: Path, name: str, why: str) -> None:
    write(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "no-images").mkdir()
    (tmp_path / "no-images" / "annotations.json").write_text("{}")
    with pytest.raises(DataUnusable, match=why) as raised:
        open_set(name, 2, tmp_path)
    assert ": knob data: " in str(raised.value)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.annotations)
def test_published_sets_are_read_where_they_are_unpacked(tmp_path: Path, layout: Layout) -> None:
    made = write(tmp_path, "made")
    folder = tmp_path / "deep" / "train"
    (folder / layout.annotations).parent.mkdir(parents=True, exist_ok=True)
    (made / "annotations.json").rename(folder / layout.annotations)
    (made / "images").rename(folder / layout.images)
    found = open_set("deep/train", 2, tmp_path)
    assert found.path(0).is_file()
    assert len(found.annotations.files) == 4
    assert len(found.sha256) == 64


def coco(root: Path, *unpacked: str) -> None:
    """Write COCO as it is published: annotations of both years' sets, and the unpacked images."""
    for name, images in (("train2017", 3), ("val2017", 2)):
        made = write(root, f"made-{name}", images=images)
        annotations = root / "coco" / "annotations"
        annotations.mkdir(parents=True, exist_ok=True)
        (made / "annotations.json").rename(annotations / f"instances_{name}.json")
        if name in unpacked:
            (made / "images").rename(root / "coco" / name)


@pytest.mark.parametrize(
    ("unpacked", "scored", "read"),
    [
        (("train2017", "val2017"), False, "train2017"),
        (("train2017", "val2017"), True, "val2017"),
        (("val2017",), False, "val2017"),
        (("val2017",), True, "val2017"),
        (("train2017",), True, "train2017"),
    ],
)
def test_coco_is_scored_with_its_validation_images(
    tmp_path: Path, unpacked: tuple[str, ...], scored: bool, read: str
) -> None:
    coco(tmp_path, *unpacked)
    found = open_set("coco", 2, tmp_path, scored=scored)
    assert found.folder.name == read
    assert found.source.name == f"instances_{read}.json"
    assert len(found.annotations.files) == {"train2017": 3, "val2017": 2}[read]


def test_coco_without_images_names_where_they_go(tmp_path: Path) -> None:
    coco(tmp_path)
    with pytest.raises(DataUnusable, match="coco/train2017: knob data: there is no such folder"):
        open_set("coco", 2, tmp_path)


def test_the_hosts_folder_of_data_is_that_of_its_home_or_another() -> None:
    assert data_folder({"BENCHFARM_HOME": "/farm"}) == Path("/farm/data")
    assert data_folder({"BENCHFARM_HOME": "/farm", "BENCHFARM_DATA": "/disk"}) == Path("/disk")
    assert data_folder({}) == Path.home() / ".benchfarm" / "data"


def test_flat_arrays_hold_what_the_file_says(tmp_path: Path) -> None:
    write(tmp_path, images=9)
    found = open_set("small", 2, tmp_path).annotations
    told = json.loads((tmp_path / "small" / "annotations.json").read_text())
    for number, image in enumerate(told["images"]):
        own = [a["bbox"] for a in told["annotations"] if a["image_id"] == image["id"]]
        edges = np.array([[x, y, x + w, y + h] for x, y, w, h in own])
        assert np.array_equal(found.of(number)[0], edges)
