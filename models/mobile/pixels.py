"""Images → a model's input, as TensorFlow Lite's evaluation stage and DeepLab's preprocessing make
them. Needs numpy only, since it is a part of the bundle for devices, too.

The stage (`ImagePreprocessingStage`, which MLPerf Mobile's app uses) crops and resizes in the order
it is told, in real numbers, by `RESIZE_BILINEAR`, then truncates them to the model's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]
PADDING: Final = (123.15, 115.90, 103.06)
"""DeepLab's default mean pixel, by which the suite's images are padded: mlcommons/mobile_open,
vision/deeplab/ade20k_512x512_dataset_on_device/README.md."""
UNKNOWN: Final = 255
"""The class of pixels without an annotation, such as those of the padding."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """How an image comes to a model's input; the fields are those of a task's ImageInput."""

    height: int
    width: int
    fit: str
    crop: float
    mean: float | Sequence[float]
    std: float


def fitted(image: NDArray[Any], to: Fitting) -> NDArray[Any]:
    """Return an image (h, w, 3) in the model's input size: uint8, or float32 if it was resized.

    Raises ValueError if the size must not change.
    """
    if to.fit == "as_is":
        if image.shape[:2] != (to.height, to.width):
            size = f"{image.shape[1]}x{image.shape[0]}"
            raise ValueError(f"it is {size}, not {to.width}x{to.height}")
        return image
    if to.fit == "pad":
        return padded(image, to.height, to.width)
    if to.fit == "resize_then_crop":
        return resized_then_cropped(image, to.height, to.width, to.crop)
    if to.fit == "center_crop":
        image = crop_center(image, to.crop)
    return resize_bilinear(image, to.height, to.width)


def typed(image: NDArray[Any], to: Fitting, kind: str) -> NDArray[Any]:
    """Return a fitted image as pixels (uint8); as what a float model takes if it can be resized,
    since pixels would lose the fractions.

    kind: the type of the model's input.
    """
    if to.fit in ("as_is", "pad"):
        return image
    return normalised(image, to.mean, to.std) if kind == "float32" else in_steps(image, kind)


def resize_bilinear(
    image: NDArray[Any],
    height: int,
    width: int,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Real:
    """Return (height, width, channels) float32 of an image (h, w, channels): TFLite's kernel.

    Each output pixel is a weighted sum of four, without antialiasing. Raises ValueError if both
    options are set.
    """
    if align_corners and half_pixel_centers:
        raise ValueError("corners of pixels with half-pixel centres can't be aligned")
    rows = _neighbours(image.shape[0], height, align_corners, half_pixel_centers)
    columns = _neighbours(image.shape[1], width, align_corners, half_pixel_centers)
    (top, bottom, y), (left, right, x) = rows, columns
    y = y[:, np.newaxis, np.newaxis]
    x = x[:, np.newaxis]
    above, below = image[top].astype(np.float32), image[bottom].astype(np.float32)
    # The products and sums are in the kernel's order, since truncation shows the last bit.
    found: Real = above[:, left] * (1 - y) * (1 - x)
    found += below[:, left] * y * (1 - x)
    found += above[:, right] * (1 - y) * x
    found += below[:, right] * y * x
    return found


def _neighbours(
    source: int, target: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp], Real]:
    """Return the pixels before and after each output pixel, and its distance from the former."""
    aligned = align_corners and target > 1
    scale = np.float32(source - 1) / np.float32(target - 1) if aligned else _ratio(source, target)
    half = np.float32(0.5 if half_pixel_centers else 0)
    places = (np.arange(target, dtype=np.float32) + half) * scale - half
    before = np.maximum(np.floor(places).astype(np.intp), 0)
    after = np.minimum(np.ceil(places).astype(np.intp), source - 1)
    return before, after, places - before.astype(np.float32)


def _ratio(source: int, target: int) -> np.float32:
    return np.float32(source) / np.float32(target)


def resize_nearest(classes: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Return (height, width) of a map (h, w), corners aligned: TensorFlow's kernel."""

    def nearest(source: int, target: int) -> NDArray[np.intp]:
        scale = np.float32(source - 1) / np.float32(target - 1) if target > 1 else np.float32(0)
        places = np.floor(np.arange(target, dtype=np.float32) * scale + np.float32(0.5))
        found: NDArray[np.intp] = np.minimum(places.astype(np.intp), source - 1)
        return found

    rows, columns = nearest(classes.shape[0], height), nearest(classes.shape[1], width)
    found: NDArray[Any] = classes[rows][:, columns]
    return found


def crop_center(image: NDArray[Any], fraction: float) -> NDArray[Any]:
    """Return the square in the middle whose side is a fraction of the shorter side, rounded."""
    side = min(_rounded(fraction * edge) for edge in image.shape[:2])
    return _middle(image, side, side)


def resized_then_cropped(image: NDArray[Any], height: int, width: int, fraction: float) -> Real:
    """Return the middle (height, width) of an image resized in its proportions, so that it covers
    what height and width are a fraction of: the app's steps up to MLPerf Mobile v3.1."""
    least = tuple(int(edge / fraction) for edge in (height, width))
    ratio = max(_ratio(most, edge) for most, edge in zip(least, image.shape[:2], strict=True))
    covering = (
        max(_rounded(float(np.float32(edge) * ratio)), most)
        for most, edge in zip(least, image.shape[:2], strict=True)
    )
    return _middle(resize_bilinear(image, *covering), height, width)


def _middle(image: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    top = _rounded((image.shape[0] - height) / 2)
    left = _rounded((image.shape[1] - width) / 2)
    return image[top : top + height, left : left + width]


def _rounded(value: float) -> int:
    return int(value + 0.5)  # halves upwards, as C's round does for positive numbers


def padded(image: NDArray[Any], height: int, width: int) -> NDArray[np.uint8]:
    """Return (height, width, 3): the image resized to fit within, corners aligned, at the top left
    of PADDING."""
    inner = _fit_within(image.shape[:2], (height, width))
    found = np.full((height, width, 3), PADDING, np.float32)
    found[: inner[0], : inner[1]] = resize_bilinear(image, *inner, align_corners=True)
    return found.astype(np.uint8)


def padded_classes(classes: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return (height, width): the map (h, w) where `padded` has its image, else UNKNOWN."""
    inner = _fit_within(classes.shape[:2], (height, width))
    found = np.full((height, width), UNKNOWN, np.uint8)
    found[: inner[0], : inner[1]] = resize_nearest(classes, *inner)
    return found


def _fit_within(size: tuple[int, ...], target: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of the same proportions within the target, rounded up."""
    scale = min(
        np.float32(most) / np.float32(side) for side, most in zip(size, target, strict=True)
    )
    height, width = (
        min(int(np.ceil(np.float32(side) * scale)), most)
        for side, most in zip(size, target, strict=True)
    )
    return height, width


def in_steps(image: NDArray[Any], kind: str) -> NDArray[np.uint8]:
    """Return the pixels (uint8) that an integer model takes of real ones, truncated as the stage
    does it.

    A uint8 model takes the pixel, an int8 model the pixel minus 128: so the stage truncates after
    the subtraction, towards 128.
    """
    zero = np.float32(128 if kind == "int8" else 0)
    return (np.trunc(image - zero) + zero).astype(np.uint8)


def normalised(image: NDArray[Any], mean: float | Sequence[float], std: float) -> Real:
    """Return what a float model takes of an image (h, w, 3): (pixel - mean) / std; mean of all
    channels, or of each."""
    real: Real = image.astype(np.float32)
    return (real - np.asarray(mean, np.float32)) * np.float32(1 / std)
