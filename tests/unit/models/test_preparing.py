"""`models prepare`: ImageNet and COCO as they are published become the parts of tasks."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import loadmat, savemat

from controller.contracts.errors import UserError
from controller.contracts.models import Added, SetName
from models.mobile.preparing.imagenet import labels_of
from models.mobile.preparing.published import Published
from models.mobile.store import Store
from tests.support import published_sets
from tests.support.published_sets import prepared, samples_of
from tests.unit.models.test_mobile_unfit_files import DAMAGES, write_damaged

SIDE = 4
LABELS = [2, 0, 1]
WORDNET_IDS = [f"n{number:08d}" for number in (11, 22, 33)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return tmp_path / "set"


def add_tasks(store: Store, kind: SetName) -> list[str]:
    """Have two tasks with a data set of three samples; return the keys of those."""
    return published_sets.add_tasks(
        store, "mobilenet_edgetpu", 3, kind, height=SIDE, width=SIDE, fit="stretch", mean=0, std=1
    )


def imagenet(folder: Path, count: int = 3, tree: bool = False) -> Path:
    """Write images named as ILSVRC2012's, in a folder, or one for each class."""
    for number in range(count):
        below = WORDNET_IDS[LABELS[number]] if tree else ""
        at = folder / "val" / below / f"ILSVRC2012_val_{number + 1:08d}.JPEG"
        at.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6), (number, 0, 0)).save(at)
    return folder


def coco(folder: Path, zipped: bool = False) -> Path:
    """Write images and boxes as COCO has them, loose or in its archives."""
    names = [f"{number:012d}.jpg" for number in (139, 285, 632)]
    images = [
        {"id": n, "file_name": name, "width": 8 + n, "height": 6} for n, name in enumerate(names)
    ]
    box = {"image_id": 1, "category_id": 7, "bbox": [0, 0, 3, 3], "area": 9, "iscrowd": 0}
    boxes = json.dumps({"images": images, "annotations": [box]})
    for place, (n, name) in [("val2017", pair) for pair in enumerate(names)]:
        (folder / place).mkdir(exist_ok=True)
        Image.new("RGB", (8 + n, 6)).save(folder / place / name)
    (folder / "annotations").mkdir()
    (folder / "annotations/instances_val2017.json").write_text(boxes)
    if zipped:
        for archive, inside in (
            ("val2017", "val2017"),
            ("annotations_trainval2017", "annotations"),
        ):
            with zipfile.ZipFile(folder / f"{archive}.zip", "w") as zip_:
                for path in sorted((folder / inside).iterdir()):
                    zip_.write(path, f"{inside}/{path.name}")
                    path.unlink()
            (folder / inside).rmdir()
    return folder


def truths(store: Store, key: str) -> list[object]:
    """Return the truths of a prepared data set."""
    samples = samples_of(store, key)
    return [samples.truth(index) for index in range(len(samples))]


# ImageNet


def kit(folder: Path) -> None:
    """Write a development kit whose numbers run against the order of WordNet ids."""
    row = [("ILSVRC2012_ID", "f8"), ("WNID", "O"), ("words", "O"), ("num_children", "f8")]
    synsets = np.array(
        [(3 - n, word, "a, b", 0) for n, word in enumerate(WORDNET_IDS)]
        + [(4, "n00000001", "a group", 2)],
        dtype=row,
    )
    savemat(folder / "meta.mat", {"synsets": synsets})
    numbers = "".join(f"{3 - label}\n" for label in LABELS)
    (folder / "ILSVRC2012_validation_ground_truth.txt").write_text(numbers)


def numbered(folder: Path) -> None:
    lines = [f"ILSVRC2012_val_{n:08d}.JPEG {label}\n" for n, label in enumerate(LABELS, 1)]
    (folder / "val.txt").write_text("".join(lines))


def ids(folder: Path) -> None:
    lines = [f"{WORDNET_IDS[label]}\n" for label in LABELS]
    (folder / "imagenet_2012_validation_synset_labels.txt").write_text("".join(lines))


def solution(folder: Path) -> None:
    lines = [
        f"ILSVRC2012_val_{n:08d},{WORDNET_IDS[label]} 1 2 3 4 \n"
        for n, label in enumerate(LABELS, 1)
    ]
    text = "ImageId,PredictionString\n" + "".join(reversed(lines))
    (folder / "LOC_val_solution.csv").write_text(text)


def kaggle(folder: Path) -> None:
    """Write the lists of Kaggle's archive, one of which numbers the images."""
    solution(folder)
    lines = [f"ILSVRC2012_val_{n:08d} {n}\n" for n in range(1, 4)]
    (folder / "ILSVRC/ImageSets/CLS-LOC").mkdir(parents=True)
    (folder / "ILSVRC/ImageSets/CLS-LOC/val.txt").write_text("".join(lines))


@pytest.mark.parametrize("write", [kit, numbered, ids, solution, kaggle])
def test_every_list_of_labels_gives_the_same_class_numbers(
    folder: Path, write: Callable[[Path], None]
) -> None:
    write(folder)
    labels = labels_of(Published("imagenet", folder), [], classes=3)
    assert labels == {f"ILSVRC2012_val_{n:08d}": label for n, label in enumerate(LABELS, 1)}


def test_folders_of_wordnet_ids_are_labels(folder: Path) -> None:
    names = [f"{WORDNET_IDS[label]}/{n}.JPEG" for n, label in enumerate(LABELS)]
    labels = labels_of(Published("imagenet", folder), names, classes=3)
    assert labels == {str(n): label for n, label in enumerate(LABELS)}


def test_imagenet_is_added_for_every_task_of_it(store: Store, folder: Path) -> None:
    keys = add_tasks(store, "imagenet")
    numbered(imagenet(folder))
    (folder / "train").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "train/n01440764_18.JPEG")
    samples, truth = prepared(store, "imagenet", folder)
    assert samples == Added(path=str(folder / "val"), keys=tuple(f"{k}/samples" for k in keys))
    assert truth.note.endswith("Nobody has published a checksum of it.")
    assert truth.keys == tuple(f"{k}/truth" for k in keys)
    assert [truths(store, key) for key in keys] == [LABELS, LABELS]
    assert [path.name for path in store.folder.iterdir() if path.name.startswith(".")] == []


def test_labels_follow_the_images_where_folders_order_them_otherwise(
    store: Store, folder: Path
) -> None:
    (key, _) = add_tasks(store, "imagenet")
    numbered(imagenet(folder, tree=True))
    prepared(store, "imagenet", folder)
    assert truths(store, key) == sorted(LABELS), "folders are in the order of classes"


def damaged(folder: Path) -> None:
    numbered(imagenet(folder))
    file = folder / "val/ILSVRC2012_val_00000002.JPEG"
    file.write_bytes(file.read_bytes()[:200])


def one_image_less(folder: Path) -> None:
    numbered(imagenet(folder, count=2))


def one_label_less(folder: Path) -> None:
    numbered(imagenet(folder))
    file = folder / "val.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))


def other_count(folder: Path) -> None:
    one_image_less(folder)
    one_label_less_of = folder / "val.txt"
    lines = one_label_less_of.read_text().splitlines(keepends=True)
    one_label_less_of.write_text("".join(lines[:2]))


def kit_without_meta(folder: Path) -> None:
    kit(imagenet(folder))
    (folder / "meta.mat").unlink()


def broken_meta(folder: Path) -> None:
    kit(imagenet(folder))
    (folder / "meta.mat").write_bytes(b"no MATLAB file" * 20)


def damaged_meta(folder: Path) -> None:
    kit(imagenet(folder))
    synsets = loadmat(folder / "meta.mat")["synsets"]
    savemat(folder / "meta.mat", {"synsets": synsets}, do_compression=True)
    content = bytearray((folder / "meta.mat").read_bytes())
    content[140:160] = b"\xff" * 20  # after the header of what zlib packed
    (folder / "meta.mat").write_bytes(content)


def cut_solution(folder: Path) -> None:
    solution(imagenet(folder))
    file = folder / "LOC_val_solution.csv"
    file.write_text(file.read_text().rpartition(",")[0])


def solution_without_end_of_a_field(folder: Path) -> None:
    solution(imagenet(folder))
    with (folder / "LOC_val_solution.csv").open("a") as file:
        file.write('x,"' + "n" * 200_000)


def solution_without_a_class(folder: Path) -> None:
    solution(imagenet(folder))
    with (folder / "LOC_val_solution.csv").open("a") as file:
        file.write("x,\n")


def label_of_another_numbering(folder: Path) -> None:
    numbered(imagenet(folder))
    file = folder / "val.txt"
    file.write_text(file.read_text().replace(" 2\n", " 1000\n"))


def other_images(folder: Path) -> None:
    numbered(imagenet(folder))
    Image.new("RGB", (8, 8)).save(folder / "val/cat.jpg")


WRONG: dict[Callable[[Path], object], str] = {
    damaged: r"image ILSVRC2012_val_00000002.JPEG: (?i:.*truncated).*Get this image again",
    one_image_less: "the folder lacks, but the list of labels has, image ILSVRC2012_val_00000003",
    one_label_less: "the list of labels has nothing of image ILSVRC2012_val_00000003",
    other_count: "it has 2 samples, not .*3 of one/full",
    kit_without_meta: "meta.mat, which explains them, is missing",
    broken_meta: r"its labels: meta\.mat can't be read: ",
    damaged_meta: r"its labels: meta\.mat can't be read: ",
    cut_solution: r"its labels: line 4 of LOC_val_solution\.csv is damaged",
    solution_without_end_of_a_field: r"its labels: line 5 of LOC_val_solution\.csv is damaged",
    solution_without_a_class: r"its labels: line 5 of LOC_val_solution\.csv is damaged",
    label_of_another_numbering: "the label 1000 of ILSVRC2012_val_00000001 is not one of 0 to 999",
    other_images: r"has other images than .* such as cat\.jpg",
    imagenet: "it has no list of labels",
    numbered: "it has no images ILSVRC2012_val_",
}


@pytest.mark.parametrize("write", WRONG, ids=lambda write: write.__name__)
def test_a_set_with_anything_wrong_is_refused_and_nothing_added(
    store: Store, folder: Path, write: Callable[[Path], object]
) -> None:
    add_tasks(store, "imagenet")
    write(folder)
    before = store.contents()
    with pytest.raises(UserError, match=WRONG[write]) as caught:
        prepared(store, "imagenet", folder)
    assert str(caught.value).startswith("cannot prepare imagenet from ")
    assert store.contents() == before


# COCO


@pytest.mark.parametrize("zipped", [False, True])
def test_coco_is_added_as_folders_or_as_its_archives(
    store: Store, folder: Path, *, zipped: bool
) -> None:
    keys = add_tasks(store, "coco")
    samples, truth = prepared(store, "coco", coco(folder, zipped))
    assert (len(samples.keys), len(truth.keys)) == (2, 2)
    for key in keys:
        read = truths(store, key)
        assert [truth["categories"] for truth in read if isinstance(truth, dict)] == [[], [7], []]


def swapped(folder: Path) -> None:
    first, second, _ = sorted((folder / "val2017").iterdir())
    first.write_bytes(second.read_bytes())


COCO_WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "an image of another size": (swapped, "000000000139.jpg: it is 9x6, and .* says 8x6"),
    "no boxes": (
        lambda at: (at / "annotations/instances_val2017.json").unlink(),
        "it has no instances_val2017.json",
    ),
    "broken boxes": (
        lambda at: (at / "annotations/instances_val2017.json").write_text("{"),
        "instances_val2017.json: ",
    ),
    "an image less": (
        lambda at: (at / "val2017/000000000285.jpg").unlink(),
        "the folder lacks, but instances_val2017.json has, image 000000000285.jpg",
    ),
}


@pytest.mark.parametrize("wrong", COCO_WRONG)
def test_coco_with_anything_wrong_is_refused(store: Store, folder: Path, wrong: str) -> None:
    add_tasks(store, "coco")
    spoil, said = COCO_WRONG[wrong]
    spoil(coco(folder))
    with pytest.raises(UserError, match=said):
        prepared(store, "coco", folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_zip_beside_the_set_is_passed_over(
    store: Store, folder: Path, damage: str
) -> None:
    add_tasks(store, "coco")
    write_damaged(folder / "another.zip", damage)
    assert len(prepared(store, "coco", coco(folder, zipped=True))) == 2


@pytest.mark.parametrize(
    ("name", "seen"), [("nothing", "it is no folder"), ("x" * 300, "File name too long")]
)
def test_a_path_that_is_no_folder_is_refused(
    store: Store, tmp_path: Path, name: str, seen: str
) -> None:
    with pytest.raises(UserError, match=seen):
        prepared(store, "coco", tmp_path / name)
    assert not store.folder.exists()
