"""Images as they are published → pixels, by the same code on hosts and devices. Needs Pillow."""

from __future__ import annotations

import io
import warnings
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

IMAGES: Final = "images.bin"
"""File of a prepared data set: its images as published, one after the other."""
ENDS: Final = "images.npy"
"""Where each image ends in IMAGES, in bytes: (n,) uint64."""
DECODED: Final = (".jpg", ".jpeg", ".png", ".bmp")
_FORMATS: Final = ("JPEG", "PNG", "BMP")
MOST_PIXELS: Final = 1 << 26
"""Largest image; while it is decoded, it takes seven bytes a pixel."""


def decoded(content: bytes, mode: str = "RGB") -> Image.Image:
    """Return an image; an empty mode keeps its own. Raises ValueError with the reason.

    Orientation, colour profiles and transparency are ignored, as in MLPerf Mobile's app.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that of many pixels, which are refused here
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ValueError(f"its {width}x{height} pixels are more than {MOST_PIXELS}")
                image.load()
            return image if mode in ("", image.mode) else image.convert(mode)
    except UnidentifiedImageError as error:
        seen = f"its {len(content)} bytes are no image of format JPEG, PNG or BMP"
        raise ValueError(seen) from error
    except ValueError:
        raise
    except Exception as error:  # damaged files make Pillow raise whatever
        raise ValueError(str(error) or type(error).__name__) from error


def pixels_of(content: bytes) -> NDArray[np.uint8]:
    """Return an image's pixels (height, width, 3); raises ValueError with the reason."""
    return np.asarray(decoded(content))
