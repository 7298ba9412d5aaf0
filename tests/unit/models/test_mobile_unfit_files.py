"""Files that don't fit their data set or each other: one line that names the file."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from controller.contracts.mobile import Dataset, DatasetPart, ImageInput, TokenInput
from models.mobile.datasets import messages
from models.mobile.datasets.load import load_samples
from models.mobile.errors import DatasetUnusable
from models.mobile.samples import write_samples

PADDED = ImageInput(height=8, width=8, fit="pad", mean=0, std=1)
CROPPED = ImageInput(height=8, width=8, fit="center_crop", mean=0, std=1)
SMALL = ImageInput(height=4, width=6, fit="as_is", mean=0, std=1)
TOKENS = TokenInput(length=2)


def images(folder: Path, mode: str = "RGB", **sizes: tuple[int, int]) -> Path:
    folder.mkdir()
    for name, size in sizes.items():
        Image.new(mode, size, 1).save(folder / f"{name}.png")
    return folder


def holding(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(folder: Path, kind: str, wanted: ImageInput | TokenInput, **parts: Path) -> None:
    """Write all samples and truths of a data set."""
    dataset = Dataset.model_validate({"kind": kind, "parts": dict.fromkeys(parts, DatasetPart())})
    samples = load_samples(dataset, parts, wanted, "x/tiny")
    write_samples(samples, folder / "in", folder / "out")


def refused(folder: Path, kind: str, wanted: ImageInput | TokenInput, **parts: Path) -> str:
    with pytest.raises(DatasetUnusable) as error:
        load(folder, kind, wanted, **parts)
    assert "\n" not in str(error.value)
    return str(error.value)


INPUTS: dict[str, list[Any]] = {n: [1, 2] for n in ("input_ids", "input_mask", "segment_ids")}
SAID: dict[str, list[Any]] = {
    "qas_id": [b"q"],
    "tokens": [b"[CLS]", b"[SEP]", b"word", b"[SEP]"],
    "token_to_orig_map": [0],
    "token_is_max_context": [1],
}
QUESTION = {"id": "q", "answers": [{"text": "word"}]}
QUESTIONS = json.dumps({"data": [{"paragraphs": [{"context": "word", "qas": [QUESTION]}]}]})


def serialised(**features: list[Any]) -> bytes:
    example = messages._class("Example")()
    for name, values in (INPUTS | SAID | features).items():
        feature = example.features.feature.add(key=name).value
        of_bytes = any(isinstance(value, bytes) for value in values)
        (feature.bytes_list if of_bytes else feature.int64_list).value.extend(values)
    content: bytes = example.SerializeToString()
    return content


def record(content: bytes, length: int | None = None, tail: int = 4) -> bytes:
    return struct.pack("<Q4x", len(content) if length is None else length) + content + bytes(tail)


FEATURE = serialised()
RECORDS: dict[str, tuple[bytes, str]] = {
    "a length beyond the file": (record(FEATURE, 2**63), "the record at byte 0 is cut off"),
    "a length of 1 too many": (record(FEATURE, len(FEATURE) + 1), "the record at byte 0 is cut"),
    "a length of 1 too few": (record(FEATURE, len(FEATURE) - 1), "DecodeError"),
    "a length of 0": (record(FEATURE, 0), "the record at byte 16 is cut off"),
    "no checksum": (record(FEATURE, tail=0), "the record at byte 0 is cut off"),
    "more after the end": (record(FEATURE) + b"abc", "is cut off, or its length is wrong"),
    "nothing": (b"", "it has no feature"),
    "half of what is compressed": (zlib.compress(record(FEATURE))[:-8], "incomplete"),
    "an id of 8 bytes": (record(serialised(input_ids=[2**40, 1])), "out of bounds for int32"),
    "ids of text": (record(serialised(input_ids=[b"a", b"b"])), "ValueError"),
    "too few ids": (record(serialised(input_ids=[1])), "input_ids of feature 0 has 1 ids"),
    "too few contexts": (record(serialised(token_is_max_context=[])), "1 words and 0 contexts"),
    "more words than tokens": (
        record(serialised(token_to_orig_map=[0] * 4, token_is_max_context=[1] * 4)),
        "feature 0 has 4 words and 4 contexts of 2 tokens",
    ),
    "a word below 0": (record(serialised(token_to_orig_map=[-1])), "a word below 0"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_damaged_features_are_refused(case: str, tmp_path: Path) -> None:
    content, seen = RECORDS[case]
    samples = holding(tmp_path / "eval.tfrecord", content)
    truth = holding(tmp_path / "dev.json", QUESTIONS)
    found = refused(tmp_path, "squad", TOKENS, samples=samples, truth=truth)
    assert found.startswith(f"cannot read {samples} (parts.samples): ")
    assert seen in found
    load(tmp_path, "squad", TOKENS, samples=holding(samples, record(FEATURE)), truth=truth)


def test_a_truth_of_other_features_is_refused(tmp_path: Path) -> None:
    samples = holding(tmp_path / "eval.tfrecord", record(FEATURE))
    other = holding(tmp_path / "dev.json", QUESTIONS.replace('"q"', '"p"'))
    found = refused(tmp_path, "squad", TOKENS, samples=samples, truth=other)
    assert found.startswith(f"cannot read {other} (parts.truth): it has no question q.")
    late = holding(samples, record(serialised(token_to_orig_map=[7])))
    truth = holding(other, QUESTIONS)
    found = refused(tmp_path, "squad", TOKENS, samples=late, truth=truth)
    assert "the text of question q has 1 words, and its samples word 7" in found


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("a.png", "image a.png: its 0 bytes are no image of format JPEG, PNG or BMP."),
        ("a.jpg", "image a.jpg: its 0 bytes are no image of format JPEG, PNG or BMP."),
        ("a.rgb8", "image a.rgb8: its 0 bytes are no image of 6x4."),
    ],
)
def test_an_image_of_0_bytes_is_refused(name: str, seen: str, tmp_path: Path) -> None:
    folder = holding(tmp_path / "images" / name, b"").parent
    found = refused(tmp_path, "imagenet", SMALL, samples=folder)
    assert found.startswith(f"cannot read {folder} (parts.samples): {seen}")


@pytest.mark.parametrize(
    ("labels", "seen"),
    [
        ("1\n", "it has 1 labels for 2 images"),
        ("1\n2\n3\n", "it has 3 labels for 2 images"),
        ("", "it has 0 labels for 2 images"),
        ("c.png 1\nd.png 2\n", "it has 'c.png' in the place of a.png"),
        ("b.png 1\na.png 2\n", "it has 'b.png' in the place of a.png"),
        ("a.png 1\n-2\n", "line 2 ends with '-2', and not with a class number"),
    ],
)
def test_labels_of_other_images_are_refused(labels: str, seen: str, tmp_path: Path) -> None:
    folder = images(tmp_path / "images", a=(8, 8), b=(8, 8))
    truth = holding(tmp_path / "labels.txt", labels)
    found = refused(tmp_path, "imagenet", CROPPED, samples=folder, truth=truth)
    assert found.startswith(f"cannot read {truth} (parts.truth): {seen}")
    right = holding(truth, "val/a.JPEG 1\nb 2\n")  # the image may have another form now
    load(tmp_path, "imagenet", CROPPED, samples=folder, truth=right)


@pytest.mark.parametrize(
    ("mode", "size", "seen"),
    [
        ("L", (12, 16), "image a.png: it is 12x16, and its image 16x12."),
        ("L", (8, 6), "image a.png: it is 8x6, and its image 16x12."),
        ("RGB", (16, 12), "image a.png: its mode is RGB, not a byte a pixel."),
        ("I;16", (16, 12), "image a.png: its mode is I;16, not a byte a pixel."),
    ],
)
def test_an_annotation_that_is_not_of_its_image_is_refused(
    mode: str, size: tuple[int, int], seen: str, tmp_path: Path
) -> None:
    folder = images(tmp_path / "images", a=(16, 12))
    truth = images(tmp_path / "annotations", mode, a=size)
    found = refused(tmp_path, "ade20k", PADDED, samples=folder, truth=truth)
    assert found.startswith(f"cannot read {truth} (parts.truth): {seen}")


def test_one_of_a_pair_may_have_been_brought_to_the_model_s_size(tmp_path: Path) -> None:
    for number, sizes in enumerate([((16, 12), (8, 8)), ((8, 8), (16, 12)), ((16, 12), (16, 12))]):
        folder = tmp_path / str(number)
        folder.mkdir()
        image, truth = images(folder / "a", a=sizes[0]), images(folder / "b", "L", a=sizes[1])
        load(folder, "ade20k", PADDED, samples=image, truth=truth)
        assert np.load(folder / "out/truth.npy").shape == (1, 8, 8)


@pytest.mark.parametrize("size", [(15, 10), (8, 12), (12, 9), (3, 2)])
def test_a_large_image_that_is_no_enlargement_is_refused(
    size: tuple[int, int], tmp_path: Path
) -> None:
    folder, truth = images(tmp_path / "small", a=(6, 4)), images(tmp_path / "large", a=size)
    found = refused(tmp_path, "image_pairs", SMALL, samples=folder, truth=truth)
    seen = f"image a.png: it is {size[0]}x{size[1]}, no enlargement of 6x4."
    assert found.startswith(f"cannot read {truth} (parts.truth): {seen}")


def test_large_images_are_of_one_size(tmp_path: Path) -> None:
    folder = images(tmp_path / "small", a=(6, 4), b=(6, 4))
    truth = images(tmp_path / "large", a=(12, 8), b=(18, 12))
    found = refused(tmp_path, "image_pairs", SMALL, samples=folder, truth=truth)
    assert "write sample 1: the first has shape (8, 12, 3), and this one (12, 18, 3)" in found


def test_two_true_images_of_one_sample_are_refused(tmp_path: Path) -> None:
    folder, truth = images(tmp_path / "small", a=(6, 4)), images(tmp_path / "large", a=(12, 8))
    (truth / "a.jpg").write_bytes((truth / "a.png").read_bytes())
    found = refused(tmp_path, "image_pairs", SMALL, samples=folder, truth=truth)
    assert "a.jpg and a.png are of one sample." in found


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda d: d["images"][0].update(file_name="c.png"), "it has nothing of image a.png"),
        (lambda d: d["images"][0].update(width=0), "ZeroDivisionError"),
        (lambda d: d["annotations"][0].update(category_id="cat"), "ValueError"),
        (lambda d: d["annotations"][0].update(bbox=[1, 2, 3]), "ValueError"),
    ],
)
def test_boxes_of_other_images_are_refused(change: Change, seen: str, tmp_path: Path) -> None:
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2], "area": 4, "iscrowd": 0}
    image = {"id": 1, "file_name": "a.png", "width": 8, "height": 8}
    document: dict[str, Any] = {"images": [image], "annotations": [box]}
    change(document)
    truth = holding(tmp_path / "instances.json", json.dumps(document))
    folder = images(tmp_path / "images", a=(8, 8))
    found = refused(tmp_path, "coco", CROPPED, samples=folder, truth=truth)
    assert found.startswith(f"cannot read {truth} (parts.truth): {seen}")


DAMAGES: dict[str, dict[int, bytes]] = {
    "a name that is no UTF-8": {8: b"\0\x08", 46: b"\xff"},  # its flags say that it is
    "a format of later": {6: b"\x63"},
    "a size beyond the file": {20: struct.pack("<II", 1000, 1000)},  # packed, and unpacked
}
"""Place in an entry of a zip's directory → what is there."""


def write_damaged(path: Path, damage: str) -> Path:
    """Write a zip of one image with a damaged directory."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.png", b"")
    content = bytearray(path.read_bytes())
    begin = content.index(b"PK\1\2")
    for place, changed in DAMAGES[damage].items():
        content[begin + place : begin + place + len(changed)] = changed
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_zip_with_a_damaged_directory_is_refused(damage: str, tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "images.zip", damage)
    seen = {
        "a name that is no UTF-8": "'utf-8' codec",
        "a format of later": "zip file version 9.9",
        "a size beyond the file": "image a.png: ",
    }
    found = refused(tmp_path, "imagenet", SMALL, samples=path)
    assert found.startswith(f"cannot read {path} (parts.samples): {seen[damage]}")


@pytest.mark.parametrize("name", ["a.rgb8", "a.jpeg"])
def test_boxes_are_found_by_the_original_s_name(name: str, tmp_path: Path) -> None:
    """The suite's truths name `.jpg` files; the app looks up any other image as one."""
    folder = tmp_path / "images"
    folder.mkdir()
    pixels = np.zeros((8, 8, 3), np.uint8)
    if name.endswith("rgb8"):
        holding(folder / name, pixels.tobytes())
    else:
        Image.fromarray(pixels).save(folder / name)
    truth = holding(tmp_path / "truth.pbtxt", 'detection_results { image_name: "a.jpg" }')
    load(tmp_path, "coco", CROPPED, samples=folder, truth=truth)
    assert len(json.loads((tmp_path / "out/truth.json").read_text())) == 1
