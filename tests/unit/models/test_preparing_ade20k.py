"""`models prepare ade20k`: the challenge's validation images and annotations, as published."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from controller.contracts.errors import UserError
from controller.contracts.mobile import ClassMap
from models.mobile.metrics import score
from models.mobile.pixels import UNKNOWN, padded, padded_classes
from models.mobile.preparing.ade20k import ARCHIVE
from models.mobile.store import Store
from tests.support.published_sets import add_tasks, prepared, samples_of

SIDE = 16
SIZES = [(24, 12), (10, 20), (16, 16)]
"""Width and height of each image."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The archive, unpacked: its validation part, and one image of the other part."""
    top = tmp_path / "set/ADEChallengeData2016"
    draw = np.random.default_rng(0)
    for number, (width, height) in enumerate(SIZES, 1):
        name = f"validation/ADE_val_{number:08d}"
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), np.uint8))
        save(image, top / f"images/{name}.jpg")
        classes = draw.choice(np.array([0, 1, 31, 32, 150], np.uint8), (height, width))
        save(Image.fromarray(classes), top / f"annotations/{name}.png")
    save(Image.new("RGB", (8, 8)), top / "images/training/ADE_train_00000001.jpg")
    save(Image.new("L", (8, 8)), top / "annotations/training/ADE_train_00000001.png")
    return tmp_path / "set"


def save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def add(store: Store) -> list[str]:
    return add_tasks(store, "mosaic", 3, height=SIDE, width=SIDE)


def image_of(folder: Path, number: int) -> Path:
    name = f"validation/ADE_val_{number:08d}"
    return folder / f"ADEChallengeData2016/images/{name}.jpg"


def annotation_of(folder: Path, number: int) -> Path:
    name = f"validation/ADE_val_{number:08d}"
    return folder / f"ADEChallengeData2016/annotations/{name}.png"


def pack(folder: Path) -> None:
    """Have the archive in place of what is in it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
            path.unlink()


@pytest.mark.parametrize("packed", [False, True])
def test_images_and_annotations_are_of_the_model_s_size(
    store: Store, folder: Path, *, packed: bool
) -> None:
    keys = add(store)
    images = [np.asarray(Image.open(image_of(folder, n))) for n in (1, 2, 3)]
    classes = [np.asarray(Image.open(annotation_of(folder, n))) for n in (1, 2, 3)]
    if packed:
        pack(folder)
    samples, truth = prepared(store, "ade20k", folder)
    assert samples.keys == tuple(f"{key}/samples" for key in keys)
    assert truth.keys == tuple(f"{key}/truth" for key in keys)
    for key in keys:
        found = samples_of(store, key)
        assert len(found) == 3
        for index in range(3):
            expected = padded(images[index], SIDE, SIDE)
            assert np.array_equal(found.inputs(index)[0], expected)
            expected = padded_classes(classes[index], SIDE, SIDE)
            assert np.array_equal(np.asarray(found.truth(index)), expected)


@pytest.mark.parametrize("climbs", [False, True])
def test_no_name_in_an_archive_leaves_the_store(
    store: Store, folder: Path, tmp_path: Path, *, climbs: bool
) -> None:
    """Only a name's last part is used; one with `..` is taken for a hidden file."""
    (key, _) = add(store)
    place = "../../.." if climbs else str(tmp_path)
    pack(folder)
    with zipfile.ZipFile(folder / ARCHIVE) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        for name, image in content.items():
            archive.writestr(f"{place}/{Path(name).name}" if "_val_" in name else name, image)

    def others() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if store.folder not in path.parents}

    before = others()
    if climbs:
        with pytest.raises(UserError, match="has no images ADE_val_"):
            prepared(store, "ade20k", folder)
    else:
        prepared(store, "ade20k", folder)
        assert len(samples_of(store, key)) == 3
    assert others() == before


def test_classes_from_32_on_do_not_count(store: Store, folder: Path) -> None:
    """As in the suite's own evaluation, which sets them to 0 (everything else) beforehand."""
    (key, _) = add(store)
    prepared(store, "ade20k", folder)
    found = samples_of(store, key)
    truths = [np.asarray(found.truth(index)) for index in range(3)]
    assert {150, 32, 31} <= set(np.unique(truths).tolist())
    draw = np.random.default_rng(1)
    answers = {n: draw.choice(np.array([0, 1, 31], np.uint8), SIDE * SIDE) for n in range(3)}
    output = ClassMap(classes=32, first=1)
    given = {n: answer.tobytes() for n, answer in answers.items()}
    without = [np.where((truth >= 32) & (truth < UNKNOWN), 0, truth) for truth in truths]
    assert score(output, given, truths) == score(output, given, without)


def full_set(folder: Path) -> None:
    save(Image.new("RGB", (24, 12)), image_of(folder, 1).with_name("ADE_val_00000001_seg.png"))


def colours(folder: Path) -> None:
    save(Image.new("RGB", SIZES[1]), annotation_of(folder, 2))


def other_classes(folder: Path) -> None:
    save(Image.new("L", SIZES[1], 151), annotation_of(folder, 2))


def other_size(folder: Path) -> None:
    save(Image.new("L", (20, 10)), annotation_of(folder, 2))


def damaged_annotation(folder: Path) -> None:
    path = annotation_of(folder, 2)
    path.write_bytes(path.read_bytes()[:60])


def damaged_image(folder: Path) -> None:
    path = image_of(folder, 2)
    path.write_bytes(path.read_bytes()[:300])


def annotation_less(folder: Path) -> None:
    annotation_of(folder, 2).unlink()


def image_less(folder: Path) -> None:
    image_of(folder, 2).unlink()


def half(folder: Path) -> None:
    annotation_less(folder)
    image_less(folder)


def no_annotations(folder: Path) -> None:
    for number in (1, 2, 3):
        annotation_of(folder, number).unlink()


def training_only(folder: Path) -> None:
    no_annotations(folder)
    for number in (1, 2, 3):
        image_of(folder, number).unlink()


def twice(folder: Path) -> None:
    path = image_of(folder, 1)
    save(Image.new("RGB", (8, 8)), path.parent / "small" / path.name)


def archive_of_training_only(folder: Path) -> None:
    training_only(folder)
    pack(folder)


def damaged_archive(folder: Path) -> None:
    pack(folder)
    content = (folder / ARCHIVE).read_bytes()
    (folder / ARCHIVE).write_bytes(content[: len(content) // 2])


WRONG: dict[Callable[[Path], None], str] = {
    full_set: r"ADE_val_00000001_seg\.png is of the full ADE20K.*ADEChallengeData2016\.zip",
    colours: "image ADE_val_00000002.png: its pixels are of mode RGB, not class numbers",
    other_classes: "ADE_val_00000002.png: it has class 151, and the challenge's are 0 to 150",
    other_size: "ADE_val_00000002.png: it is 20x10, and its image 10x20",
    damaged_annotation: r"image ADE_val_00000002\.png: .*Get this image again",
    damaged_image: r"image ADE_val_00000002\.jpg: (?i:.*truncated).*Get this image again",
    annotation_less: "the folder of annotations has nothing of image ADE_val_00000002",
    image_less: "the folder lacks, but the folder of annotations has, image ADE_val_00000002",
    half: "it has 2 samples, not .*3 of one/full, 3 of two/full",
    no_annotations: "it has no annotations ADE_val_",
    training_only: "it has no images ADE_val_",
    twice: r"an image twice: ADE_val_00000001\.jpg and small/ADE_val_00000001\.jpg",
    archive_of_training_only: r"ADEChallengeData2016\.zip has no images ADE_val_",
    damaged_archive: r"ADEChallengeData2016\.zip .*File is not a zip file",
}


@pytest.mark.parametrize("spoil", WRONG, ids=lambda spoil: spoil.__name__)
def test_a_set_with_anything_wrong_is_refused_and_nothing_added(
    store: Store, folder: Path, spoil: Callable[[Path], None]
) -> None:
    add(store)
    spoil(folder)
    before = store.contents()
    with pytest.raises(UserError, match=WRONG[spoil]) as caught:
        prepared(store, "ade20k", folder)
    assert "\n" not in str(caught.value)
    assert store.contents() == before
    assert [path.name for path in store.folder.iterdir() if path.name.startswith(".")] == []
