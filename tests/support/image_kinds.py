"""Images of every kind that data sets have, and as the samples of a task."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from controller.contracts.mobile import Dataset, DatasetPart, ImageInput, TensorType
from models.mobile.datasets.images import FittedImages
from models.mobile.datasets.load import load_samples
from models.mobile.samples import write_samples

SIZES = [(40, 30), (17, 53), (1, 1), (64, 1), (97, 96)]


def noise(width: int, height: int, channels: int = 3) -> Image.Image:
    """Return smooth colours with noise, so that every step of a decoder matters."""
    source = np.random.default_rng(width * 100 + height)
    y, x = np.mgrid[:height, :width]
    waves = np.stack([128 + 100 * np.sin(x / 7 + k) * np.cos(y / 5) for k in range(channels)], -1)
    pixels = (waves + source.normal(0, 12, waves.shape)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


def jpeg(image: Image.Image, **options: Any) -> bytes:  # noqa: ANN401 - Pillow's
    return saved(image, "JPEG", **options)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:  # noqa: ANN401 - Pillow's
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rotated_by_exif(image: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: a quarter turn
    return jpeg(image, exif=exif)


def sixteen_bits(image: Image.Image) -> bytes:
    levels = np.asarray(image.convert("L")).astype(np.uint16) * 257 + 5
    return saved(Image.fromarray(levels), "PNG")


def of_palette(image: Image.Image) -> bytes:
    few = image.convert("RGB").quantize(32)
    return saved(few, "PNG", transparency=bytes(range(0, 256, 8)))


KINDS: dict[str, tuple[str, Callable[[Image.Image], bytes]]] = {
    "420": ("jpg", lambda i: jpeg(i, quality=75)),
    "422": ("jpeg", lambda i: jpeg(i, quality=90, subsampling=1)),
    "444": ("JPEG", lambda i: jpeg(i, quality=100, subsampling=0)),
    "low quality": ("jpg", lambda i: jpeg(i, quality=5)),
    "progressive": ("jpg", lambda i: jpeg(i, progressive=True)),
    "restart markers": ("jpg", lambda i: jpeg(i, restart_marker_blocks=1)),
    "grey": ("jpg", lambda i: jpeg(i.convert("L"))),
    "CMYK": ("jpg", lambda i: jpeg(i.convert("CMYK"))),
    "orientation": ("jpg", rotated_by_exif),
    "a PNG's name": ("png", lambda i: jpeg(i)),
    "png": ("png", lambda i: saved(i, "PNG")),
    "alpha": ("png", lambda i: saved(i.convert("RGBA"), "PNG")),
    "grey alpha": ("png", lambda i: saved(i.convert("LA"), "PNG")),
    "palette alpha": ("png", of_palette),
    "one bit": ("png", lambda i: saved(i.convert("1"), "PNG")),
    "16 bits": ("png", sixteen_bits),
    "bmp": ("bmp", lambda i: saved(i, "BMP")),
    "bmp of a palette": ("bmp", lambda i: saved(i.quantize(16), "BMP")),
}


def of_every_kind() -> Iterator[tuple[str, bytes]]:
    for number, (kind, (suffix, written)) in enumerate(KINDS.items()):
        for width, height in SIZES:
            name = f"{number:02}-{kind}-{width:03}x{height:03}.{suffix}".replace(" ", "_")
            yield name, written(noise(width, height))


def wanted(fit: str = "center_crop", height: int = 48, width: int = 48) -> ImageInput:
    settings = {"height": height, "width": width, "fit": fit, "mean": [1, 2, 3], "std": 57.5}
    return ImageInput.model_validate(settings)


def of_folder(folder: Path, how: ImageInput, kind: TensorType = "uint8") -> FittedImages:
    dataset = Dataset(kind="imagenet", parts={"samples": DatasetPart()})
    samples = load_samples(dataset, {"samples": folder}, how, "x/tiny", kind)
    assert isinstance(samples, FittedImages)
    return samples


def pushed(samples: FittedImages, folder: Path) -> Path:
    write_samples(samples, folder / "in", folder / "out", published=samples.published())
    return folder / "in"
