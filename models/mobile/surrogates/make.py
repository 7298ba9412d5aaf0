"""Makes the surrogates: models of a few kilobytes with the signatures of the suite's.

Their weights are not trained but constructed: they hold the colours, or the rule, from which
data.py generates the samples. Run once by hand, from the repository's root, in a separate
environment:

    python3.11 -m venv convert
    convert/bin/pip install torch==2.13.0            # first and alone; a CPU build will do
    convert/bin/pip install litert-torch==0.10.0 pyyaml pydantic
    PYTHONPATH=. convert/bin/python -m models.mobile.surrogates.make

Takes a minute; 2 GB. It prints the figures to copy into the manifests.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.mobile.surrogates import data

HERE: Final = Path(__file__).parent
MEAN: Final = 127.5
STD: Final = 127.5
"""Divisor that normalises pixels for all models but the upscaler."""


def _nearest(colours: NDArray[np.int64]) -> nn.Linear:
    """Return a layer whose highest output is the nearest colour: 2 c·x - |c|²."""
    scaled = torch.tensor((colours.reshape(len(colours), -1) - MEAN) / STD, dtype=torch.float32)
    layer = nn.Linear(scaled.shape[1], scaled.shape[0])
    layer.weight = nn.Parameter(2 * scaled)
    layer.bias = nn.Parameter(-(scaled**2).sum(1))
    return layer


def _means(images: Tensor, side: int) -> Tensor:
    """Return the mean of each square of pixels: (n, h, w, 3) to (n, h/side, w/side, 3)."""
    pooled = nn.functional.avg_pool2d(images.permute(0, 3, 1, 2), side)
    return pooled.permute(0, 2, 3, 1)


class Classifier(nn.Module):
    """(1, 224, 224, 3) to (1, 1001) probabilities; output 0 is the background."""

    def __init__(self) -> None:
        super().__init__()
        never = np.full((1, 2, 2, 3), 10_000)
        self.nearest = _nearest(np.concatenate([never, data.class_colours()]))

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        return torch.softmax(self.nearest(_means(images, 112).reshape(1, 12)), -1)


class Detector(nn.Module):
    """(1, 320, 320, 3) to boxes (1, 64, 4), classes (1, 64), scores (1, 64) and count (1)."""

    def __init__(self) -> None:
        super().__init__()
        self.nearest = _nearest(data.category_colours())
        rows, columns = np.meshgrid(np.arange(data.GRID), np.arange(data.GRID), indexing="ij")
        boxes = np.stack([rows, columns, rows + 1, columns + 1], -1).reshape(1, -1, 4) / data.GRID
        self.register_buffer("boxes", torch.tensor(boxes, dtype=torch.float32))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """See the class."""
        colours = _means(images, data.CELL).reshape(1, data.GRID**2, 3)
        likeness = self.nearest(colours) - (colours**2).sum(-1, keepdim=True)  # minus distance²
        best = likeness.max(-1).values
        scores = torch.sigmoid(60 * best + 3)
        boxes = self.boxes + 0 * best.unsqueeze(-1)
        count = 0 * best.sum(-1) + float(data.GRID**2)
        return boxes, likeness.argmax(-1).float(), scores, count


class Segmenter(nn.Module):
    """(1, 512, 512, 3) to (1, 512, 512) class numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.nearest = _nearest(data.area_colours())

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        classes: Tensor = self.nearest(images).argmax(-1).to(torch.int32)
        return classes


class Answerer(nn.Module):
    """Ids, mask and segments, (1, 384) each, to start and end logits: two words after the key."""

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """See the class."""
        values = ids.float()
        outside = 1.0 - segments.float() * mask.float()
        likeness = -(values - values[:, 1:2]).abs() - 1e4 * outside
        nowhere = torch.full((1, 2), -1e4)
        start = torch.cat([nowhere[:, :1], likeness[:, :-1]], 1)
        end = torch.cat([nowhere, likeness[:, :-2]], 1)
        return start, end


class Upscaler(nn.Module):
    """(1, 540, 960, 3) to (1, 1080, 1920, 3), bilinear."""

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        planes = images.permute(0, 3, 1, 2)
        larger = nn.functional.interpolate(planes, scale_factor=2, mode="bilinear")
        return larger.permute(0, 2, 3, 1)


def _images(height: int, width: int) -> tuple[Tensor, ...]:
    return (torch.zeros(1, height, width, 3),)


def main() -> int:
    """Write every file and print its checksum."""
    import litert_torch

    # Three tensors, since one shared tensor would become one input.
    tokens = tuple(torch.zeros(1, data.TOKENS, dtype=torch.int32) for _ in range(3))
    made: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        "mobilenet_edgetpu": (Classifier(), _images(224, 224)),
        "mobiledet": (Detector(), _images(320, 320)),
        "mosaic": (Segmenter(), _images(512, 512)),
        "mobilebert": (Answerer(), tokens),
        "edsr": (Upscaler(), _images(540, 960)),
    }
    for name, (model, example) in made.items():
        path = HERE / f"{name}_fp32.tflite"
        litert_torch.convert(model.eval(), example).export(str(path))
        path.chmod(0o644)
        content = path.read_bytes()
        print(name, len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
