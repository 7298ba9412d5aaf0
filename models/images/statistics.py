"""How many boxes images have and how large they are, drawn at random as real data sets have it.

Number: geometric, 8.4 on average as in the training set of OpenImages V4 (14.6 million boxes on
1.74 million images; Kuznetsova et al. 2020); COCO's has 7.3 (860,001 on 117,266). Size: the side of
a square of a box's area has COCO's shares: 41 % of objects below 32 pixels, 34 % up to 96, 24 %
above (cocodataset.org, Detection Evaluation) of images of 640x480; inside each share the side's
logarithm is even. Neither is published for MLCommons' subset of OpenImages (264 classes, 1,170,301
images), whose objects are larger: see its own annotations.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MEAN_BOXES: Final = 8.4
MOST_BOXES: Final = 200
_IMAGE_SIDE: Final = (640 * 480) ** 0.5
SIDES: Final = (0.01, 32 / _IMAGE_SIDE, 96 / _IMAGE_SIDE, 1.0)
"""As a fraction of the side of a square of the image's area."""
SHARES: Final = (0.0, 0.41, 0.75, 1.0)
"""Of boxes whose side is below each of SIDES."""
LARGEST_RATIO: Final = 2.0
"""Of width and height; our choice."""
LEAST_PIXELS: Final = 2.0


def draw_boxes(
    numbers: np.random.Generator, width: int, height: int, num_classes: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return boxes [N, 4] as x1, y1, x2, y2 in pixels inside an image, and labels [N]."""
    count = min(int(numbers.geometric(1 / MEAN_BOXES)), MOST_BOXES)
    side = np.exp(np.interp(numbers.random(count), SHARES, np.log(SIDES)))
    side *= (width * height) ** 0.5
    ratio = np.exp(numbers.uniform(-1, 1, count) * np.log(LARGEST_RATIO) / 2)
    whole = np.array((width, height))
    sides = np.clip(np.stack((side * ratio, side / ratio), axis=1), LEAST_PIXELS, whole)
    corner = numbers.random((count, 2)) * (whole - sides)
    boxes = np.concatenate((corner, corner + sides), axis=1).astype(np.float32)
    return boxes, numbers.integers(num_classes, size=count)
