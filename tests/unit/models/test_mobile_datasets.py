"""Data sets as they are published: images with labels, boxes, class maps; and what is refused."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from controller.contracts.mobile import Dataset, DatasetPart, ImageInput, TokenInput
from models.mobile.datasets import messages, squad
from models.mobile.datasets.coco import read_truths as read_boxes
from models.mobile.datasets.images import ImageFiles
from models.mobile.datasets.load import load_samples
from models.mobile.errors import DatasetUnusable
from models.mobile.samples import read_truths, write_samples


def images(folder: Path, *names: str, size: tuple[int, int] = (6, 4)) -> Path:
    folder.mkdir()
    for number, name in enumerate(names):
        pixels = np.full((size[1], size[0], 3), number * 10, np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


WANTED = ImageInput(height=4, width=6, fit="as_is", mean=0, std=1)


def test_images_with_labels_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = images(tmp_path / "images", "b.png", "a.png")
    labels = tmp_path / "labels.txt"
    labels.write_text("a.png 7\n5\n")
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart(), "truth": DatasetPart()})
    samples = load_samples(dataset, {"samples": folder, "truth": labels}, WANTED, "x/tiny")
    write_samples(samples, tmp_path / "in", tmp_path / "out")
    assert np.load(tmp_path / "in/input_0.npy")[:, 0, 0, 0].tolist() == [10, 0]
    assert read_truths(tmp_path / "out") == [7, 5]
    labels.write_text("5\n")
    with pytest.raises(DatasetUnusable, match=r"labels\.txt .*it has 1 labels for 2 images"):
        load_samples(dataset, {"samples": folder, "truth": labels}, WANTED, "x/tiny")


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    folder = images(tmp_path / "images", "a.png", "b.png")
    content = (folder / "b.png").read_bytes()
    (folder / "b.png").write_bytes(content[: len(content) // 2])
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart()})
    samples = load_samples(dataset, {"samples": folder}, WANTED, "x/tiny")
    with pytest.raises(DatasetUnusable, match=r"images \(parts\.samples\): image b\.png: "):
        write_samples(samples, tmp_path / "in", tmp_path / "out")


def test_an_image_of_another_size_is_refused_where_it_may_not_be_changed(tmp_path: Path) -> None:
    folder = images(tmp_path / "images", "a.png", size=(8, 8))
    dataset = Dataset(kind="image_pairs", parts={"samples": DatasetPart()})
    samples = load_samples(dataset, {"samples": folder}, WANTED, "x/tiny")
    with pytest.raises(DatasetUnusable, match=r"image a\.png: it is 8x8, not 6x4"):
        samples.inputs(0)


def test_coco_s_json_and_the_suite_s_text_say_the_same(tmp_path: Path) -> None:
    original = tmp_path / "instances.json"
    box = {"image_id": 4, "category_id": 18, "bbox": [10, 20, 30, 40], "area": 900, "iscrowd": 0}
    image = {"id": 4, "file_name": "4.jpg", "width": 100, "height": 200}
    original.write_text(json.dumps({"images": [image], "annotations": [box]}))
    text = tmp_path / "truth.pbtxt"
    text.write_text(
        "detection_results { image_name: '4.jpg' image_id: 4 objects { class_id: 18 bounding_box {"
        " normalized_top: 0.1 normalized_bottom: 0.3 normalized_left: 0.1 normalized_right: 0.4"
        " } } }"
    )
    a, b = read_boxes(original)["4.jpg"], read_boxes(text)["4.jpg"]
    assert (a["image_id"], a["categories"]) == (b["image_id"], b["categories"]) == (4, [18])
    assert np.allclose(a["boxes"], b["boxes"])


def test_class_maps_are_found_by_name_and_brought_to_size(tmp_path: Path) -> None:
    folder = images(tmp_path / "images", "a.png")
    maps = tmp_path / "maps"
    maps.mkdir()
    Image.fromarray(np.array([[1, 2], [3, 4]], np.uint8)).resize((12, 8), 0).save(maps / "a.png")
    dataset = Dataset(kind="ade20k", parts={"samples": DatasetPart(), "truth": DatasetPart()})
    samples = load_samples(dataset, {"samples": folder, "truth": maps}, WANTED, "x/tiny")
    truth = samples.truth(0)
    assert truth is not None
    assert truth.shape == (4, 6)
    assert set(np.unique(truth)) == {1, 2, 3, 4}


def test_classes_without_a_header_are_read_in_the_model_s_size(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    (maps / "a.raw").write_bytes(bytes(range(24)))
    dataset = Dataset(kind="ade20k", parts={"samples": DatasetPart(), "truth": DatasetPart()})
    parts = {"samples": images(tmp_path / "images", "a.png"), "truth": maps}
    truth = load_samples(dataset, parts, WANTED, "x/tiny").truth(0)
    assert np.array_equal(np.asarray(truth), np.arange(24).reshape(4, 6))
    (maps / "a.raw").write_bytes(bytes(23))
    seen = r"maps \(parts\.truth\): image a\.raw: its 23 bytes are no classes of 6x4 pixels"
    with pytest.raises(DatasetUnusable, match=seen):
        load_samples(dataset, parts, WANTED, "x/tiny").truth(0)


def raw_images(folder: Path, height: int, width: int) -> Path:
    folder.mkdir()
    (folder / "a.rgb8").write_bytes(np.arange(height * width * 3, dtype=np.uint8).tobytes())
    return folder


@pytest.mark.parametrize("times", [1, 2, 4])
def test_images_without_a_header_are_read_in_the_task_s_size(times: int, tmp_path: Path) -> None:
    dataset = Dataset(kind="image_pairs", parts={"samples": DatasetPart(), "truth": DatasetPart()})
    small, large = (
        raw_images(tmp_path / "a", 4, 6),
        raw_images(tmp_path / "b", 4 * times, 6 * times),
    )
    samples = load_samples(dataset, {"samples": small, "truth": large}, WANTED, "x/tiny")
    (pixels,), truth = samples.inputs(0), np.asarray(samples.truth(0))
    assert (pixels.shape, truth.shape) == ((4, 6, 3), (4 * times, 6 * times, 3))
    assert (pixels.ravel()[:9].tolist(), truth.ravel()[5]) == (list(range(9)), 5)


def test_images_without_a_header_of_another_size_are_refused(tmp_path: Path) -> None:
    dataset = Dataset(kind="image_pairs", parts={"samples": DatasetPart(), "truth": DatasetPart()})
    parts = {
        "samples": raw_images(tmp_path / "a", 4, 5),
        "truth": raw_images(tmp_path / "b", 8, 11),
    }
    samples = load_samples(dataset, parts, WANTED, "x/tiny")
    seen = r"a \(parts\.samples\): image a\.rgb8: its 60 bytes are no image of 6x4\."
    with pytest.raises(DatasetUnusable, match=seen):
        samples.inputs(0)
    seen = (
        r"b \(parts\.truth\): image a\.rgb8: its 264 bytes are no image of 6x4 or its enlargement"
    )
    with pytest.raises(DatasetUnusable, match=seen):
        samples.truth(0)


HIDDEN = ("._a.png", "__MACOSX/._a.png", "__MACOSX/images/a.png", ".cache/a.png", "images/._a.rgb8")


@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_the_system_are_no_images(tmp_path: Path, *, zipped: bool) -> None:
    folder = images(tmp_path / ".images", "b.png")
    for name in HIDDEN:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(b"\0\5\x16\7")
    source = tmp_path / "images.zip" if zipped else folder
    if zipped:
        with zipfile.ZipFile(source, "w") as archive:
            for file in folder.rglob("*"):
                archive.write(file, file.relative_to(folder))
    assert ImageFiles.of(source).names == ("b.png",)


@pytest.mark.parametrize("kind", ["ade20k", "image_pairs"])
def test_a_true_image_that_is_broken_or_missing_is_of_the_truth(kind: str, tmp_path: Path) -> None:
    parts = {"samples": images(tmp_path / "images", "a.png"), "truth": tmp_path / "true"}
    parts["truth"].mkdir()
    named = rf"cannot read {parts['truth']} \(parts\.truth\): "
    dataset = Dataset.model_validate({"kind": kind, "parts": dict.fromkeys(parts, DatasetPart())})
    with pytest.raises(DatasetUnusable, match=f"{named}it has no image"):
        load_samples(dataset, parts, WANTED, "x/tiny")
    (parts["truth"] / "b.png").touch()
    with pytest.raises(DatasetUnusable, match=rf"{named}it has no .*a\.png"):
        load_samples(dataset, parts, WANTED, "x/tiny").truth(0)
    (parts["truth"] / "a.png").touch()
    with pytest.raises(DatasetUnusable, match=rf"{named}image a\.png: its 0 bytes are no image"):
        load_samples(dataset, parts, WANTED, "x/tiny").truth(0)


def test_a_zip_is_opened_once_however_many_images_it_has(tmp_path: Path) -> None:
    folder, file = images(tmp_path / "images", "a.png", "b.png", "c.png"), tmp_path / "images.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for image in folder.iterdir():
            archive.write(image, image.name)
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart()})
    samples = load_samples(dataset, {"samples": file}, WANTED, "x/tiny")
    file.unlink()  # nobody can open it again
    write_samples(samples, tmp_path / "in", tmp_path / "out")
    assert np.load(tmp_path / "in/input_0.npy")[:, 0, 0, 0].tolist() == [0, 10, 20]


def test_a_damaged_entry_of_a_zip_is_named(tmp_path: Path) -> None:
    file = tmp_path / "images.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(1000))
    content = bytearray(file.read_bytes())
    content[35:38] = b"\xff\xff\xff"  # the first bytes of what is compressed
    file.write_bytes(content)
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart()})
    samples = load_samples(dataset, {"samples": file}, WANTED, "x/tiny")
    with pytest.raises(DatasetUnusable, match=r"images\.zip \(parts\.samples\): image a\.png: "):
        samples.inputs(0)


def tfrecord(file: Path, **features: list[int] | list[bytes]) -> Path:
    """Write a tfrecord of one `tf.train.Example`."""
    example = messages._class("Example")()
    for name, values in features.items():
        feature = example.features.feature.add(key=name).value
        of_bytes = any(isinstance(value, bytes) for value in values)
        (feature.bytes_list if of_bytes else feature.int64_list).value.extend(values)
    record = example.SerializeToString()
    file.write_bytes(struct.pack("<Q4x", len(record)) + record + bytes(4))
    return file


INPUTS = {name: [1, 2] for name in ("input_ids", "input_mask", "segment_ids")}
ASKED: dict[str, list[int] | list[bytes]] = {
    "qas_id": [b"q1"],
    "tokens": [b"[SEP]", b"words"],
    "token_to_orig_map": [0],
    "token_is_max_context": [1],
}


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ({}, "KeyError"),
        (ASKED | {"qas_id": []}, "IndexError"),
        (ASKED | {"qas_id": [7]}, "AttributeError"),
        (ASKED | {"tokens": [b"words"]}, "SEP"),
        ({n: v for n, v in ASKED.items() if n != "token_to_orig_map"}, "token_to_orig_map"),
    ],
)
def test_a_tfrecord_without_what_the_truth_needs_is_refused(
    said: dict[str, list[int] | list[bytes]], seen: str, tmp_path: Path
) -> None:
    truth = tmp_path / "dev.json"
    question = {"id": "q1", "answers": [{"text": "words"}]}
    paragraph = {"context": "words", "qas": [question]}
    truth.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    wanted = TokenInput(length=2)
    whole = tfrecord(tmp_path / "whole.tfrecord", **INPUTS, **ASKED)
    assert squad.load(whole, truth, wanted).truth(0) == {
        "id": "q1",
        "tokens": ["[SEP]", "words"],
        "words": ["words"],
        "first": 1,
        "word_of": [0],
        "best_context": [1],
        "answers": ["words"],
    }
    recorded = tfrecord(
        tmp_path / "truth.tfrecord", qas_id=[b"q1"], words=[b"words"], answers=[b"words"]
    )
    assert squad.load(whole, recorded, wanted).truth(0) == squad.load(whole, truth, wanted).truth(0)
    broken = tfrecord(tmp_path / "broken.tfrecord", **INPUTS, **said)
    with pytest.raises(DatasetUnusable, match=rf"broken\.tfrecord \(parts\.samples\): .*{seen}"):
        squad.load(broken, truth, wanted)
    assert len(squad.load(broken, None, wanted)) == 1, "without a truth it need not say"


def test_words_are_parted_where_the_suite_s_features_part_them(tmp_path: Path) -> None:
    truth = tmp_path / "dev.json"
    paragraph = {"context": " a\xa0b\tc\u202fd\n e ", "qas": [{"id": "q", "answers": []}]}
    truth.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    assert squad.read_questions(truth)["q"].words == ["a\xa0b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"0\n1\n", "not"),
        (b"x\x9c", "decompressing"),
        (bytes(16), "KeyError"),
        (b"\x10" + bytes(7), ""),
    ],
)
def test_a_file_of_neither_kind_is_no_truth_of_squad(
    content: bytes, seen: str, tmp_path: Path
) -> None:
    (tmp_path / "truth").write_bytes(content)
    with pytest.raises(DatasetUnusable, match=rf"truth \(parts\.truth\): .*{seen}"):
        squad.read_questions(tmp_path / "truth")
