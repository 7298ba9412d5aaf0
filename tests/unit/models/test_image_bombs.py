"""Images that would fill the memory: each is refused in one line, before it is unpacked."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from controller.contracts.errors import UserError
from models.mobile.datasets.images import MAX_IMAGE_BYTES, ImageFiles
from models.mobile.datasets.squad import records
from models.mobile.errors import DatasetUnusable
from models.mobile.preparing.ade20k import ARCHIVE
from models.mobile.preparing.coco import make as make_coco
from models.mobile.preparing.published import Published
from models.mobile.preparing.squad import features
from models.mobile.preparing.tfrecord import write_records
from models.mobile.preparing.word_pieces import Vocabulary

MEGABYTE = 1 << 20
_BOXES = "annotations/instances_val2017.json"


def bomb(path: Path, name: str, megabytes: int) -> Path:
    """Write a zip with a file of zeros."""
    packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as archive, archive.open(name, "w") as file:
        for _ in range(megabytes):
            file.write(bytes(MEGABYTE))
    return path


def test_a_file_that_unpacks_to_more_than_an_image_has(tmp_path: Path) -> None:
    path = bomb(tmp_path / "images.zip", "a.png", (MAX_IMAGE_BYTES >> 20) + 1)
    assert path.stat().st_size < 4 * MEGABYTE
    tracemalloc.start()
    with pytest.raises(DatasetUnusable, match=r"image a\.png: unpacked, it would have \d+ bytes"):
        ImageFiles.of(path).image("a.png")
    assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    tracemalloc.stop()


def test_an_image_file_without_end(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    with (tmp_path / "a.png").open("r+b") as file:
        file.truncate(MAX_IMAGE_BYTES + 1)
    with pytest.raises(DatasetUnusable, match=r"image a\.png: it has more than \d+ bytes"):
        ImageFiles.of(tmp_path).image("a.png")


def test_an_image_of_too_many_pixels(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    chunk = struct.pack(">I", len(header)) + b"IHDR" + header + checksum
    pixels = struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + pixels)
    with pytest.raises(DatasetUnusable, match=r"image a\.png: .*3600000000 pixels"):
        ImageFiles.of(tmp_path).image("a.png")


def test_features_that_unpack_without_end() -> None:
    packed = zlib.compress(bytes(MEGABYTE))
    with pytest.raises(ValueError, match=r"unpacked, it would have more than 1000 bytes"):
        next(records(packed, most=1000))


def test_boxes_that_unpack_without_end(tmp_path: Path) -> None:
    """The archive says more than it has, which is enough to be refused."""
    path = bomb(tmp_path / "annotations_trainval2017.zip", _BOXES, 1)
    content = path.read_bytes()
    at = content.rindex(b"PK\x01\x02") + 24
    path.write_bytes(content[:at] + struct.pack("<I", 0xFFFF_FFF0) + content[at + 4 :])
    with pytest.raises(UserError, match=r"unpacked, instances_val2017\.json would have 42\d+ byt"):
        make_coco(Published("coco", tmp_path), tmp_path, lambda _: None)


# Sets take no more memory the larger they are


def memory_for_archive(folder: Path, count: int) -> int:
    """Return the peak of copying so many images out of an archive."""
    draw = np.random.default_rng(0)
    image = folder / "one.png"
    Image.fromarray(draw.integers(0, 256, (300, 300, 3), np.uint8)).save(image)
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        for number in range(count):
            archive.write(image, f"validation/{number}.png")
    published = Published("ade20k", folder)
    tracemalloc.start()
    published.repacked(folder / ARCHIVE, lambda _: True, "images", folder / "made.zip")
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_an_archive_of_four_times_the_images_takes_the_same_memory(tmp_path: Path) -> None:
    few, many = (memory_for_archive(tmp_path, count) for count in (10, 40))
    assert many < few + 270_000, "less than one more image of 270 kB"


def memory_for_questions(folder: Path, count: int) -> int:
    """Return the peak of writing the features of so many questions."""
    vocabulary = Vocabulary(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\ncat\n")
    asked = [{"id": str(number), "question": "cat"} for number in range(count)]
    document = {"data": [{"paragraphs": [{"context": "cat " * 300, "qas": asked}]}]}
    tracemalloc.start()
    records = (repr(feature).encode() for feature in features(document, vocabulary))
    assert write_records(folder / "file", records) == count
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_four_times_the_questions_take_the_same_memory(tmp_path: Path) -> None:
    memory_for_questions(tmp_path, 1)  # what is loaded once
    few, many = (memory_for_questions(tmp_path, count) for count in (20, 80))
    assert many < 1.2 * few, "one feature is held at a time"
