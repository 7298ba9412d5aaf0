"""A small set of drawn scenes with exact boxes, on which a detector shows that it learns."""

from __future__ import annotations

import torch
from torch import Tensor

from models.retinanet.data import DetectionBatch, DetectionTarget

COLOURS = (
    *((0.9, 0.1, 0.1), (0.1, 0.8, 0.2), (0.2, 0.3, 0.95), (0.95, 0.85, 0.1), (0.8, 0.2, 0.85)),
    *(
        (0.1, 0.8, 0.85),
        (0.95, 0.55, 0.1),
        (0.95, 0.95, 0.95),
        (0.45, 0.25, 0.1),
        (0.05, 0.05, 0.05),
    ),
)
"""RGB of each class; with the shape it tells a class."""
MOST_CLASSES = len(COLOURS)
MOST_OBJECTS = 3
MIN_SIDE, MAX_SIDE = 0.3, 0.6
"""Bounds of an object's sides as fractions of the image's."""
MOST_OVERLAP = 0.1
"""Intersection over union up to which objects may hide each other."""
TRIES = 50
NOISE = 0.05


class DrawnDetectionData:
    """Scenes of one to three coloured shapes on a grey gradient; the same ones in each epoch.

    Args:
        image_size: side of the square images in pixels.
        images: number of scenes.
        batch_size: images in a batch; a divisor of `images`.
        num_classes: at most MOST_CLASSES.
        seed: of the scenes and of their order in each epoch.

    Raises:
        ValueError: batches don't fill an epoch, or there are too many classes.
    """

    def __init__(
        self, image_size: int, images: int, batch_size: int, num_classes: int, seed: int
    ) -> None:
        if images % batch_size:
            raise ValueError(f"batch_size={batch_size}: {images} images are no multiple of it")
        if num_classes > MOST_CLASSES:
            raise ValueError(f"num_classes={num_classes}: there are {MOST_CLASSES} shapes")
        generator = torch.Generator().manual_seed(seed)
        scenes = [_scene(image_size, num_classes, number, generator) for number in range(images)]
        self.images = torch.stack([image for image, _ in scenes])
        self.targets = tuple(target for _, target in scenes)
        self._batch_size, self._seed = batch_size, seed

    @property
    def epoch_steps(self) -> int:
        """Batches of an epoch."""
        return len(self.images) // self._batch_size

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step: a part of the scenes, in another order in each epoch."""
        epoch, place = divmod(step, self.epoch_steps)
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch + 1)
        order = torch.randperm(len(self.images), generator=generator)
        chosen = order[place * self._batch_size : (place + 1) * self._batch_size]
        return DetectionBatch(self.images[chosen], tuple(self.targets[i] for i in chosen.tolist()))


def _scene(
    size: int, num_classes: int, number: int, generator: torch.Generator
) -> tuple[Tensor, DetectionTarget]:
    """Return an image [3, S, S] and its objects; every class is in one of `num_classes` scenes."""
    grey = torch.linspace(0.35, 0.65, size)
    image = (grey[:, None] + grey[None, :]).div(2).expand(3, size, size).clone()
    image += NOISE * torch.randn(3, size, size, generator=generator)
    count = int(torch.randint(1, MOST_OBJECTS + 1, (), generator=generator))
    boxes: list[Tensor] = []
    labels: list[int] = []
    for _ in range(TRIES):
        if len(boxes) == count:
            break
        box = _box(size, generator)
        if all(overlap(box, other) <= MOST_OVERLAP for other in boxes):
            drawn = int(torch.randint(num_classes, (), generator=generator))
            labels.append(number % num_classes if not boxes else drawn)
            boxes.append(box)
            _draw(image, box, labels[-1])
    return image.clamp(0, 1), DetectionTarget(torch.stack(boxes), torch.tensor(labels))


def _box(size: int, generator: torch.Generator) -> Tensor:
    """Return x1, y1, x2, y2 in whole pixels, inside the image."""
    side = MIN_SIDE + (MAX_SIDE - MIN_SIDE) * torch.rand(2, generator=generator)
    side = (side * size).round()
    corner = (torch.rand(2, generator=generator) * (size - side)).floor()
    return torch.cat((corner, corner + side))


def overlap(a: Tensor, b: Tensor) -> float:
    """Return the intersection over union of two boxes."""
    width, height = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0)
    common = width * height
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return float(common / (sum(areas) - common))


def _draw(image: Tensor, box: Tensor, label: int) -> None:
    """Paint a class's shape into an image [3, S, S], up to the edges of its box."""
    size = image.shape[-1]
    x1, y1, x2, y2 = box.tolist()
    y, x = torch.meshgrid(torch.arange(size) + 0.5, torch.arange(size) + 0.5, indexing="ij")
    u, v = (x - x1) / (x2 - x1) * 2 - 1, (y - y1) / (y2 - y1) * 2 - 1  # -1 to 1 in the box
    inside = (u.abs() < 1) & (v.abs() < 1)
    shapes = (
        inside,
        inside & (u**2 + v**2 < 1),
        inside & (2 * u.abs() < v + 1),
        inside & ((u.abs() > 0.5) | (v.abs() > 0.5)),
        inside & ((u.abs() < 0.35) | (v.abs() < 0.35)),
    )
    image[:, shapes[label % len(shapes)]] = torch.tensor(COLOURS[label])[:, None]
