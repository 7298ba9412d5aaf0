"""Generated samples for the surrogates, from seeds: bit-equal on every machine.

They fit the surrogates in make.py: patches of known colours, a question whose key precedes its
answer, a downscaled image. Noise causes some errors. Only integer arithmetic is used, and random
numbers are the raw output of PCG64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.mobile.samples import Arrays, Truth

CLASSES: Final = 1000
CATEGORIES: Final = 90
CELL: Final = 40
"""Side of a detector's object in pixels; objects lie on a grid of eight by eight."""
GRID: Final = 8
AREAS: Final = 32
TOKENS: Final = 384
WORDS: Final = 5000
CLS, SEP, FIRST_WORD = 1, 2, 10


def draw(seed: int, shape: tuple[int, ...], below: int) -> NDArray[np.int64]:
    """Return integers in [0, below), below ≤ 65,536."""
    count = int(np.prod(shape))
    raw = np.random.PCG64(seed).random_raw(-(-count // 4)).view(np.uint16)[:count]
    drawn = (raw.astype(np.int64) * below) >> 16
    return np.asarray(drawn, dtype=np.int64).reshape(shape)


@cache
def class_colours() -> NDArray[np.int64]:
    """Return the colours of the four quarters of each class's images: (CLASSES, 2, 2, 3)."""
    return draw(1, (CLASSES, 2, 2, 3), 176) + 40


@cache
def category_colours() -> NDArray[np.int64]:
    """Return the colour of each category's objects: (CATEGORIES, 3), never as dark as the
    background."""
    return draw(2, (CATEGORIES, 3), 128) + 112


@cache
def area_colours() -> NDArray[np.int64]:
    """Return the colour of each class of areas: (AREAS, 3)."""
    steps = np.array([(r, g, b) for r in range(4) for g in range(4) for b in range(2)])
    return np.asarray(steps * np.array([72, 72, 144]) + 20, dtype=np.int64)


def _pixels(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    return values.clip(0, 255).astype(np.uint8)


def _enlarged(values: NDArray[np.int64], times: int) -> NDArray[np.int64]:
    return values.repeat(times, axis=0).repeat(times, axis=1)


@dataclass(frozen=True, slots=True)
class Classification:
    """Images of four coloured quarters, 224 px; the truth is the class number."""

    count: int = 64

    def __len__(self) -> int:
        return self.count

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        colours = class_colours()[self.truth(index)] + draw(1000 + index, (2, 2, 3), 89) - 44
        noise = draw(2000 + index, (224, 224, 3), 65) - 32
        return (_pixels(_enlarged(colours, 112) + noise),)

    def truth(self, index: int) -> Truth:
        """See Samples.truth."""
        return int(draw(3, (self.count,), CLASSES)[index])


@dataclass(frozen=True, slots=True)
class Detection:
    """Coloured squares on dark ground, 320 px; truths are as in models/mobile/datasets/coco.py."""

    count: int = 24

    def __len__(self) -> int:
        return self.count

    def _grid(self, index: int) -> NDArray[np.int64]:
        """Return each cell's category, -1 for none."""
        there = draw(3000 + index, (GRID, GRID), 10) == 0
        return np.where(there, draw(4000 + index, (GRID, GRID), CATEGORIES), -1)

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        grid = self._grid(index)
        colours = np.where(grid[..., np.newaxis] >= 0, category_colours()[grid], 24)
        shifted = colours + draw(5000 + index, (GRID, GRID, 3), 17) - 8
        noise = draw(6000 + index, (GRID * CELL, GRID * CELL, 3), 33) - 16
        return (_pixels(_enlarged(shifted, CELL) + noise),)

    def truth(self, index: int) -> Truth:
        """See Samples.truth."""
        grid = self._grid(index)
        rows, columns = np.nonzero(grid >= 0)
        return {
            "image_id": index + 1,
            "categories": [int(grid[r, c]) + 1 for r, c in zip(rows, columns, strict=True)],
            "boxes": [
                [int(r) / GRID, int(c) / GRID, int(r + 1) / GRID, int(c + 1) / GRID]
                for r, c in zip(rows, columns, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Patches of 32 colours in noise, 512 px; the truth is a class for each pixel."""

    count: int = 8

    def __len__(self) -> int:
        return self.count

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        noise = draw(7000 + index, (512, 512, 3), 89) - 44
        return (_pixels(area_colours()[self.truth(index)] + noise),)

    def truth(self, index: int) -> NDArray[np.uint8]:
        """See Samples.truth."""
        return _enlarged(draw(8000 + index, (16, 16), AREAS), 32).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Language:
    """A key and a text in which the two words after that key are the answer, 384 tokens.

    Every seventh text also has the key at an earlier, wrong place.
    """

    count: int = 64

    def __len__(self) -> int:
        return self.count

    def _ids(self, index: int) -> tuple[NDArray[np.int32], int, int]:
        """Return the ids, the number of ids that are not padding, and the position of the
        answer."""
        length = 100 + int(draw(9000 + index, (1,), 250)[0])
        ids = np.zeros(TOKENS, np.int32)
        ids[:length] = draw(10_000 + index, (length,), WORDS - 1) + FIRST_WORD + 1
        ids[0], ids[2], ids[length - 1], key = CLS, SEP, SEP, FIRST_WORD
        ids[1] = key
        at = 30 + int(draw(11_000 + index, (1,), length - 40)[0])
        ids[at] = key
        if index % 7 == 6:
            ids[at - 20] = key
        return ids, length, at + 1

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        ids, length, _ = self._ids(index)
        places = np.arange(TOKENS)
        mask = (places < length).astype(np.int32)
        segments = ((places > 2) & (places < length)).astype(np.int32)
        return ids, mask, segments

    def truth(self, index: int) -> Truth:
        """See Samples.truth; in the format of models/mobile/datasets/squad.py."""
        ids, length, start = self._ids(index)
        words = [f"w{number}" for number in ids[3 : length - 1].tolist()]
        answer = " ".join(words[start - 3 : start - 1])
        return {
            "id": f"made-{index}",
            "tokens": ["[CLS]", "key", "[SEP]", *words, "[SEP]"],
            "words": words,
            "first": 3,
            "word_of": list(range(len(words))),
            "best_context": [1] * len(words),
            "answers": [answer],
        }


@dataclass(frozen=True, slots=True)
class Upscaling:
    """Smooth images with a fine grain, halved to 540x960; the truth is 1080x1920."""

    count: int = 2

    def __len__(self) -> int:
        return self.count

    def truth(self, index: int) -> NDArray[np.uint8]:
        """See Samples.truth."""
        coarse = draw(12_000 + index, (69, 121, 3), 200) + 28
        smooth = _interpolated(_interpolated(coarse, 0), 1)[:1080, :1920]
        return _pixels(smooth + draw(13_000 + index, smooth.shape, 13) - 6)

    def inputs(self, index: int) -> Arrays:
        """See Samples.inputs."""
        whole = self.truth(index).astype(np.int64)
        total = whole[::2, ::2] + whole[1::2, ::2] + whole[::2, 1::2] + whole[1::2, 1::2]
        return (_pixels((total + 2) // 4),)


def _interpolated(values: NDArray[Any], axis: int) -> NDArray[np.int64]:
    """Interpolate 15 values linearly between neighbours along an axis."""
    values = np.moveaxis(values, axis, 0).astype(np.int64)
    steps = np.arange(16).reshape(1, 16, *[1] * (values.ndim - 1))
    between = (values[:-1, np.newaxis] * (16 - steps) + values[1:, np.newaxis] * steps) // 16
    longer: NDArray[Any] = between.reshape(-1, *values.shape[1:])
    return np.moveaxis(longer, 0, axis).astype(np.int64)


def classification() -> Classification:
    """Return the samples of mobilenet_edgetpu_surrogate."""
    return Classification()


def detection() -> Detection:
    """Return the samples of mobiledet_surrogate."""
    return Detection()


def segmentation() -> Segmentation:
    """Return the samples of mosaic_surrogate."""
    return Segmentation()


def language() -> Language:
    """Return the samples of mobilebert_surrogate."""
    return Language()


def upscaling() -> Upscaling:
    """Return the samples of edsr_surrogate."""
    return Upscaling()
