"""Images → a model's input, against TensorFlow Lite's own kernels and examples worked by hand."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from agents.inference.runner.model import TfliteModel
from agents.inference.runner.spec import RunSpec
from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import Dataset, DatasetPart, ImageInput, TensorType
from models.mobile.datasets.load import load_samples
from models.mobile.pixels import (
    crop_center,
    in_steps,
    normalised,
    padded,
    padded_classes,
    resize_bilinear,
    resize_nearest,
    resized_then_cropped,
)
from tests.support.resize_model import resize_model, resized

ROUNDING = 6e-5
"""Four units in the last place of 255: a machine may round products and sums at once."""
SIZES = [
    ((375, 500), (224, 224)),
    ((196, 196), (224, 224)),
    ((480, 640), (320, 320)),
    ((31, 57), (64, 20)),
    ((7, 7), (7, 7)),
    ((5, 1), (1, 9)),
    ((1, 1), (3, 2)),
]
DRAWN = 400
"""Images drawn for each mode."""
MODES = [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize(("align_corners", "half_pixel"), MODES)
@pytest.mark.parametrize(("source", "target"), SIZES)
def test_resizing_is_tensorflow_lite_s(
    source: tuple[int, int], target: tuple[int, int], *, align_corners: bool, half_pixel: bool
) -> None:
    image = np.random.default_rng(5).integers(0, 256, (*source, 3)).astype(np.uint8)
    model = resize_model(source, target, align_corners=align_corners, half_pixel=half_pixel)
    expected = resized(model, image.astype(np.float32))
    found = resize_bilinear(
        image, *target, align_corners=align_corners, half_pixel_centers=half_pixel
    )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(("source", "target"), SIZES)
def test_the_nearest_pixels_are_tensorflow_lite_s(
    source: tuple[int, int], target: tuple[int, int]
) -> None:
    classes = np.random.default_rng(6).integers(0, 32, source).astype(np.uint8)
    model = resize_model(source, target, align_corners=True, bilinear=False)
    expected = resized(model, np.stack([classes] * 3, -1).astype(np.float32))[..., 0]
    assert np.array_equal(resize_nearest(classes, *target), expected)


@pytest.mark.parametrize(("align_corners", "half_pixel"), MODES)
def test_drawn_images_have_tensorflow_lite_s_pixels(
    *, align_corners: bool, half_pixel: bool
) -> None:
    """No pixel of 400 images of all proportions is a step off once it is truncated.

    Images of one colour are among them: there, a sum's last bit alone decides about a whole step.
    """
    draw = np.random.default_rng(11)
    for number in range(DRAWN):
        height, width, *target = (int(2**n) for n in draw.uniform(0, 5.6, 4))
        image = draw.integers(0, 256, (height, width, 3)).astype(np.uint8)
        if number % 4 == 0:
            image[:] = image[0, 0]
        to = (target[0], target[1])
        model = resize_model(
            (height, width), to, align_corners=align_corners, half_pixel=half_pixel
        )
        expected = resized(model, image.astype(np.float32))
        found = resize_bilinear(
            image, *to, align_corners=align_corners, half_pixel_centers=half_pixel
        )
        for kind in ("uint8", "int8"):
            wrong = np.argwhere(in_steps(found, kind) != in_steps(expected, kind))
            assert len(wrong) == 0, f"image {number}, {image.shape} to {to}: {wrong[:3]}"


def test_corners_can_not_be_aligned_to_half_pixels() -> None:
    with pytest.raises(ValueError, match="half-pixel"):
        resize_bilinear(np.zeros((2, 2, 3)), 4, 4, align_corners=True, half_pixel_centers=True)


@pytest.mark.parametrize(
    ("size", "side", "top", "left"),
    [
        ((256, 256), 224, 16, 16),
        ((224, 224), 196, 14, 14),
        ((375, 500), 328, 24, 86),  # 328.125; 23.5 from the top
        ((500, 333), 291, 105, 21),  # 291.375; 104.5 from the top
        ((4, 6), 4, 0, 1),  # 3.5
        ((5, 5), 4, 1, 1),  # 4.375; 0.5
        ((1, 1), 1, 0, 0),
    ],
)
def test_the_crop_is_rounded_as_the_evaluation_stage_rounds_it(
    size: tuple[int, int], side: int, top: int, left: int
) -> None:
    image = np.arange(size[0] * size[1] * 3).reshape(*size, 3)
    expected = image[top : top + side, left : left + side]
    assert np.array_equal(crop_center(image, 0.875), expected)


@pytest.mark.parametrize(
    ("size", "covering", "top", "left"),
    [
        ((256, 256), (256, 256), 16, 16),
        ((375, 500), (256, 341), 16, 59),  # 341.33; 58.5 from the left
        ((500, 333), (384, 256), 80, 16),  # 384.38
        ((100, 30), (853, 256), 315, 16),  # 853.33; 314.5 from the top
        ((1, 1), (256, 256), 16, 16),
    ],
)
def test_up_to_v3_1_the_middle_of_the_resized_image_is_taken(
    size: tuple[int, int], covering: tuple[int, int], top: int, left: int
) -> None:
    """As the stage works out sizes with `aspect_preserving`, the app's first order of steps."""
    image = np.random.default_rng(8).integers(0, 256, (*size, 3)).astype(np.uint8)
    expected = resized(resize_model(size, covering), image.astype(np.float32))
    found = resized_then_cropped(image, 224, 224, 0.875)
    assert found.dtype == np.float32
    middle = expected[top : top + 224, left : left + 224]
    np.testing.assert_allclose(found, middle, rtol=0, atol=ROUNDING)


def test_real_pixels_are_truncated_after_what_the_model_s_type_subtracts() -> None:
    image = np.array([0.0, 0.5, 27.9, 127.5, 128.0, 128.9, 254.99, 255.0], np.float32)
    assert in_steps(image, "uint8").tolist() == [0, 0, 27, 127, 128, 128, 254, 255]
    stage = (image - np.float32(128)).astype(np.int8)  # as C converts real numbers
    assert in_steps(image, "int8").tolist() == (stage.astype(int) + 128).tolist()
    assert in_steps(image, "int8").tolist() == [0, 1, 28, 128, 128, 128, 254, 255]


def test_means_of_all_channels_or_of_each() -> None:
    image = np.array([[[0, 10, 255]]], np.uint8)
    assert normalised(image, 127.5, 127.5).ravel().tolist() == pytest.approx(
        [-1, -117.5 / 127.5, 1]
    )
    each = normalised(image, (1, 2, 3), 4)
    assert each.ravel().tolist() == [-0.25, 2, 63]


def test_padding_keeps_proportions_and_fills_with_deeplab_s_mean_pixel() -> None:
    """A row of two pixels, 0 and 30, becomes 4 by 8, with corners aligned: steps of 30 / 7."""
    image = np.stack([np.array([[0, 30]], np.uint8)] * 3, -1).repeat(1, 0)
    found = padded(image, 8, 8)
    assert (found.dtype, found.shape) == (np.dtype(np.uint8), (8, 8, 3))
    assert found[:4, :, 0].tolist() == [[0, 4, 8, 12, 17, 21, 25, 30]] * 4
    assert np.all(found[4:] == (123, 115, 103))
    classes = padded_classes(np.array([[3, 9]], np.uint8), 8, 8)
    assert classes[:4].tolist() == [[3, 3, 3, 3, 9, 9, 9, 9]] * 4
    assert np.all(classes[4:] == 255)


@pytest.mark.parametrize(
    ("size", "inner"),
    [
        ((375, 500), (385, 512)),  # 375 * 1.024 is just above 384 in float32, as TensorFlow has it
        ((500, 333), (512, 341)),
        ((683, 512), (512, 384)),
        ((9, 9), (512, 512)),
    ],
)
def test_sides_of_what_is_padded_are_rounded_up(
    size: tuple[int, int], inner: tuple[int, int]
) -> None:
    known = padded_classes(np.ones(size, np.uint8), 512, 512) == 1
    assert (known.any(1).sum(), known.any(0).sum()) == inner


def test_an_image_of_the_input_s_size_is_not_changed_by_padding() -> None:
    image = np.random.default_rng(1).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    assert np.array_equal(padded(image, 16, 16), image)


FITS = [
    ("stretch", "uint8", np.uint8),
    ("center_crop", "int8", np.uint8),
    ("center_crop", "float32", np.float32),
    ("resize_then_crop", "uint8", np.uint8),
    ("resize_then_crop", "float32", np.float32),
    ("pad", "float32", np.uint8),
]


@pytest.mark.parametrize(("fit", "model_type", "stored"), FITS)
def test_samples_are_what_the_model_s_type_needs(
    fit: str, model_type: TensorType, stored: type, tmp_path: Path
) -> None:
    source = np.random.default_rng(2).integers(0, 256, (30, 50, 3)).astype(np.uint8)
    Image.fromarray(source).save(tmp_path / "a.png")
    wanted = ImageInput.model_validate(
        {"height": 20, "width": 20, "fit": fit, "mean": [1, 2, 3], "std": 4}
    )
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart()})
    samples = load_samples(dataset, {"samples": tmp_path}, wanted, "x/tiny", model_type)
    (found,) = samples.inputs(0)
    fits: dict[str, NDArray[Any]] = {
        "stretch": resize_bilinear(source, 20, 20),
        "center_crop": resize_bilinear(source[2:28, 12:38], 20, 20),
        "resize_then_crop": resize_bilinear(source, 22, 37)[1:21, 9:29],
        "pad": padded(source, 20, 20),
    }
    real = fits[fit]
    expected: dict[str, NDArray[Any]] = {
        "float32": normalised(real, (1, 2, 3), 4),
        "uint8": real.astype(np.uint8),
        "int8": in_steps(real, "int8"),
    }
    assert found.dtype == stored
    assert np.array_equal(found, padded(source, 20, 20) if fit == "pad" else expected[model_type])


@pytest.fixture(scope="module")
def suite() -> Path:
    folder = os.environ.get("BENCHFARM_TEST_DATA")
    if not folder or not (Path(folder) / "mobile/imagenet_tiny.zip").exists():
        pytest.skip("no files of the suite: set BENCHFARM_TEST_DATA to a folder with mobile/")
    return Path(folder) / "mobile"


def test_the_suite_s_classifier_answers_as_with_the_reference_processing(suite: Path) -> None:
    """The reference: the middle 196 of 224 pixels, TensorFlow Lite's kernel, truncation."""
    workload = load_catalog().workloads["mobilenet_edgetpu"].on_device
    assert workload
    assert isinstance(workload.input, ImageInput)
    file = suite / "mobilenet_edgetpu_224_1.0_uint8.tflite"
    spec = {"model": str(file), "dataset": "", "log_dir": "", "scenario": "offline"}
    spec |= {"mode": "accuracy", "delegate": "none", "answer": "top1"}
    numbers = {"min_query_count": 1, "min_duration_ms": 0, "performance_sample_count": 1}
    numbers |= {"batch_size": 1, "first_class": 1, "threads": 1}
    model = TfliteModel(RunSpec.of({**spec, **numbers}))
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart()})
    images = suite / "imagenet_tiny.zip"
    samples = load_samples(dataset, {"samples": images}, workload.input, "x/tiny", "uint8")
    kernel = resize_model((196, 196), (224, 224))
    ids, expected = [], []
    with zipfile.ZipFile(images) as archive:
        for number, name in enumerate(sorted(archive.namelist())):
            with Image.open(io.BytesIO(archive.read(name))) as image:
                middle = np.asarray(image.convert("RGB"))[14:210, 14:210]
            reference = resized(kernel, middle.astype(np.float32)).astype(np.uint8)
            ids.append(int(model.answer(model.prepare(samples.inputs(number)))[0]))
            expected.append(int(model.answer((reference[np.newaxis],))[0]))
    assert ids == expected
    assert ids == [389, 591, 963, 848, 595, 907, 595, 765, 414, 929]
