"""What MLCommons' reference of the single-stage detector does to images and boxes. Pure.

As training/single_stage_detector/ssd/model/transform.py: values in 0..1, normalised, resized to a
square whatever the image's shape. The model normalises. All of it is linear, so that the order
doesn't matter but for rounding, and scaling last is quickest; resizing a mirrored image mirrors the
resized one.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


def resized(pixels: NDArray[np.uint8], size: int) -> Tensor:
    """Return pixels [H, W, 3] as an image [3, size, size] fp32 in 0..255, by bilinear weights."""
    image = torch.from_numpy(pixels).permute(2, 0, 1).float()
    square = functional.interpolate(image[None], (size, size), mode="bilinear", align_corners=False)
    return square[0]


def scaled(image: Tensor, out: Tensor) -> None:
    """Write an image [3, S, S], 0..255, with values in 0..1."""
    torch.mul(image, 1 / 255, out=out)


def resized_boxes(boxes: Tensor, width: int, height: int, size: int) -> Tensor:
    """Return boxes [N, 4] in pixels of the resized image."""
    return boxes * torch.tensor([size / width, size / height] * 2)


def mirrored(image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Return an image [3, S, S] and its boxes [N, 4], left and right swapped."""
    x1, y1, x2, y2 = boxes.unbind(1)
    size = image.shape[-1]
    return image.flip(-1), torch.stack((size - x2, y1, size - x1, y2), dim=1)
