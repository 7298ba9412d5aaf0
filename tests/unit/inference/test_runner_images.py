"""Images on a device: the pixels of the host, bit by bit; what can't be decoded is one fault."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.inference.image_spec import image_spec
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.images import read_dataset
from agents.inference.runner.spec import RunSpec
from controller.contracts.mobile import ImageInput, TensorType
from models.mobile import decoding
from models.mobile.decoding import ENDS, IMAGES, MOST_PIXELS
from models.mobile.errors import DatasetUnusable
from tests.support.image_kinds import (
    KINDS,
    SIZES,
    jpeg,
    noise,
    of_every_kind,
    of_folder,
    pushed,
    rotated_by_exif,
    saved,
    wanted,
)

FITS = [
    ("center_crop", "uint8"),
    ("center_crop", "int8"),
    ("center_crop", "float32"),
    ("resize_then_crop", "uint8"),
    ("resize_then_crop", "float32"),
    ("stretch", "uint8"),
    ("stretch", "float32"),
    ("pad", "int8"),
]


def spec(folder: Path, how: ImageInput) -> RunSpec:
    """Return a runner's spec with nothing of a task but its images."""
    needed: dict[str, Any] = {"model": "", "dataset": str(folder), "log_dir": "", "threads": 1}
    needed |= {"scenario": "offline", "mode": "accuracy", "delegate": "none", "batch_size": 1}
    needed |= {"min_query_count": 1, "min_duration_ms": 0, "performance_sample_count": 1}
    return RunSpec.of({**needed, **image_spec(how)})


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for name, content in of_every_kind():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("fit", "kind"), FITS)
def test_a_device_makes_of_every_image_what_the_host_makes(
    every_kind: Path, fit: str, kind: TensorType, tmp_path: Path
) -> None:
    how = wanted(fit)
    samples = of_folder(every_kind, how, kind)
    folder = pushed(samples, tmp_path)
    there = read_dataset(spec(folder, how), kind)
    assert len(there) == len(samples) == len(KINDS) * len(SIZES)
    for index, name in enumerate(samples.images.names):
        (found,), (expected,) = there[index], samples.inputs(index)
        assert found.dtype == expected.dtype, name
        assert found.tobytes() == expected.tobytes(), name
        assert found.shape == (48, 48, 3)


def test_images_are_pushed_as_they_were_published(every_kind: Path, tmp_path: Path) -> None:
    samples = of_folder(every_kind, wanted())
    folder = pushed(samples, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [IMAGES, ENDS]
    files = [(every_kind / name).read_bytes() for name in samples.images.names]
    assert (folder / IMAGES).read_bytes() == b"".join(files)
    assert np.diff(np.load(folder / ENDS), prepend=0).tolist() == [len(file) for file in files]


@pytest.mark.parametrize(("count", "length"), [(0, 5), (2, 2), (5, 5), (9, 5)])
def test_a_reference_takes_the_first_samples(tmp_path: Path, count: int, length: int) -> None:
    for number in range(5):
        (tmp_path / f"{number}.png").write_bytes(saved(noise(48, 48 + number), "PNG"))
    how = wanted()
    images = read_dataset(spec(pushed(of_folder(tmp_path, how), tmp_path / "p"), how), "uint8")
    np.save(tmp_path / "input_0.npy", np.arange(5))
    for whole in (images, Dataset.read(tmp_path)):
        first = whole.first(count)
        assert len(first) == length
        assert first[length - 1][0].tobytes() == whole[length - 1][0].tobytes()


def test_orientation_and_transparency_are_ignored(tmp_path: Path) -> None:
    image = noise(40, 30)
    (tmp_path / "a.jpg").write_bytes(rotated_by_exif(image))
    (tmp_path / "b.jpg").write_bytes(jpeg(image))
    (tmp_path / "c.png").write_bytes(saved(image, "PNG"))
    clear = image.convert("RGBA")
    clear.putalpha(0)
    (tmp_path / "d.png").write_bytes(saved(clear, "PNG"))
    samples = of_folder(tmp_path, wanted("as_is", 30, 40))
    turned, straight, opaque, transparent = (samples.inputs(n)[0] for n in range(4))
    assert np.array_equal(turned, straight)
    assert np.array_equal(opaque, transparent)


def test_a_set_with_an_image_without_a_header_is_written_as_pixels(tmp_path: Path) -> None:
    source = tmp_path / "images"
    source.mkdir()
    (source / "a.png").write_bytes(saved(noise(6, 4), "PNG"))
    (source / "b.rgb8").write_bytes(bytes(range(72)))
    samples = of_folder(source, wanted("as_is", 4, 6))
    folder = pushed(samples, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["input_0.npy"]
    there = read_dataset(spec(folder, samples.wanted), "uint8")
    assert np.array_equal(there[1][0], samples.inputs(1)[0])


def header_of(width: int, height: int) -> bytes:
    """Return a PNG of this size, with few of its pixels."""
    fields = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", fields), (b"IDAT", zlib.compress(bytes(9))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


WHOLE = jpeg(noise(97, 96))
BROKEN = {
    "cut": (WHOLE[: len(WHOLE) // 2], "image file is truncated"),
    "empty": (b"", "bytes are no image of format JPEG, PNG or BMP"),
    "text": (b"no image at all", "bytes are no image of format JPEG, PNG or BMP"),
    "another format": (saved(noise(8, 8), "GIF"), "bytes are no image of format JPEG, PNG or BMP"),
    "a header alone": (header_of(8, 8), "image file is truncated"),
    "huge": (header_of(9000, 9000), f"its 9000x9000 pixels are more than {MOST_PIXELS}"),
    "a bomb": (header_of(60000, 60000), "exceeds limit"),
    "no size": (header_of(0, 8), "."),
}
"""What is wrong → the file, and what is said of it."""


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_image_in_the_middle_of_a_set_is_named_at_preparation(
    what: str, tmp_path: Path
) -> None:
    source = tmp_path / "images"
    source.mkdir()
    for number in range(5):
        (source / f"{number}.jpg").write_bytes(WHOLE)
    content, words = BROKEN[what]
    (source / "2.jpg").write_bytes(content)
    with pytest.raises(
        DatasetUnusable, match=rf"images \(parts\.samples\): image 2\.jpg: .*{words}"
    ):
        pushed(of_folder(source, wanted()), tmp_path)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_image_on_a_device_is_one_fault(what: str, tmp_path: Path) -> None:
    content, words = BROKEN[what]
    (tmp_path / IMAGES).write_bytes(WHOLE + content + WHOLE)
    np.save(tmp_path / ENDS, np.cumsum([len(WHOLE), len(content), len(WHOLE)]).astype(np.uint64))
    there = read_dataset(spec(tmp_path, wanted()), "uint8")
    assert there[0][0].tobytes() == there[2][0].tobytes()
    with pytest.raises(RunnerFault, match=rf"images\.bin, image 1: .*{words}") as caught:
        there[1]
    assert (caught.value.kind, caught.value.blame) == ("dataset_unusable", "workload")
    assert "\n" not in caught.value.message


def test_an_image_of_another_size_is_refused_where_it_may_not_be_changed(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(saved(noise(8, 9), "PNG"))
    with pytest.raises(DatasetUnusable, match=r"image a\.png: it is 8x9, not 6x4"):
        pushed(of_folder(tmp_path, wanted("as_is", 4, 6)), tmp_path)


ENDS_OF = {
    "too few bytes": ([10, len(WHOLE) + 1], "are not those of"),
    "too many bytes": ([10], "are not those of"),
    "none": ([], "are not those of"),
    "backwards": ([10, 5, len(WHOLE)], "are not those of"),
}


@pytest.mark.parametrize("what", ENDS_OF)
def test_a_folder_whose_files_do_not_fit_is_a_fault(what: str, tmp_path: Path) -> None:
    ends, words = ENDS_OF[what]
    (tmp_path / IMAGES).write_bytes(WHOLE)
    np.save(tmp_path / ENDS, np.array(ends, np.uint64))
    with pytest.raises(RunnerFault, match=words):
        read_dataset(spec(tmp_path, wanted()), "uint8")


def test_whatever_a_damaged_file_makes_the_decoder_raise_is_a_value_error() -> None:
    """Bytes changed at random: each file is decoded, or refused with words."""
    source = np.random.default_rng(1)
    files = [written(noise(33, 21)) for _, written in KINDS.values()]
    refused = []
    for _ in range(600):
        content = bytearray(files[source.integers(len(files))])
        for place in source.integers(0, len(content), source.integers(1, 12)):
            content[place] = source.integers(256)
        try:
            decoding.pixels_of(bytes(content))
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert all(refused)
