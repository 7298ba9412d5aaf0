"""Decoders of images: the same JPEG by three libraries, all of which use libjpeg-turbo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

import numpy as np
from numpy.typing import NDArray

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure

Pixels = NDArray[np.uint8]
"""[H, W, 3], RGB, writable."""
Decode = Callable[[bytes], Pixels]
"""Content of a file → pixels; raises ValueError with the reason."""
PACKAGES: Final[Mapping[str, str]] = {
    "pillow": "PIL",
    "opencv": "cv2",
    "turbojpeg": "simplejpeg",
}
"""Value of the knob `decoder` → the module that it needs."""


def decoder(name: str) -> Decode:
    """Return a decoder, its library loaded.

    Raises WorkerFault, blame user, if this stack's environment doesn't have the library.
    """
    if find_spec(PACKAGES[name]) is None:
        message = (
            f"cannot use decoder {name}: this stack's environment has no {PACKAGES[name]}. "
            "Set the knob decoder to pillow, or use stack torch."
        )
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
    return {"pillow": _pillow, "opencv": _opencv, "turbojpeg": _turbojpeg}[name]()


def _pillow() -> Decode:
    from models.mobile.decoding import decoded

    return lambda content: np.array(decoded(content))


def _opencv() -> Decode:
    import cv2

    flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION

    def decode(content: bytes) -> Pixels:
        try:
            pixels = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
        except cv2.error as error:
            raise ValueError(f"OpenCV refuses it: {error.err}") from error
        if pixels is None:
            raise ValueError(f"its {len(content)} bytes are no whole image that OpenCV can read")
        return np.asarray(pixels, np.uint8)

    return decode


def _turbojpeg() -> Decode:
    import simplejpeg

    def decode(content: bytes) -> Pixels:
        if not simplejpeg.is_jpeg(content):
            raise ValueError("it is no JPEG, which decoder turbojpeg needs")
        pixels: Pixels = simplejpeg.decode_jpeg(content, "RGB", strict=True)
        return pixels

    return decode
