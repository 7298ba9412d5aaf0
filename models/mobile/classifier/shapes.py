"""Shapes: a labelled image set made from a seed, the same to the last bit on every machine.

Ten classes of anti-aliased figures, jittered in place, size, angle and colour, crossed by bars and
covered with noise. Bit-equality holds because only operations that IEEE 754 rounds exactly
(+ - * / sqrt, comparisons) touch the pixels, and random numbers are the raw output of PCG64, whose
stream NumPy guarantees; sums of floats by `np.sum`, sines and matrix products are avoided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float64]
"""One number a pixel, shape (SIZE, SIZE)."""
Pixels = NDArray[np.uint8]
"""Images in NHWC: (n, SIZE, SIZE, 3)."""
Labels = NDArray[np.int64]
"""Class numbers, shape (n,)."""

SIZE: Final = 96
SPLITS: Final[Mapping[str, int]] = {"evaluation": 1, "training": 2, "calibration": 3}
"""Name → first word of the seed; image i of a split never depends on the others."""
EVALUATION_IMAGES: Final = 1024
"""MLPerf Mobile's performance sample count for image classification."""

Figure = Callable[[Plane, Plane], Plane]
"""Signed distance to a figure's edge in units of its radius, negative inside."""


def _disc(u: Plane, v: Plane) -> Plane:
    return np.sqrt(u * u + v * v) - 1.0


def _ring(u: Plane, v: Plane) -> Plane:
    return np.abs(np.sqrt(u * u + v * v) - 0.76) - 0.24


def _half_disc(u: Plane, v: Plane) -> Plane:
    return np.maximum(_disc(u, v), v - 0.1)


def _square(u: Plane, v: Plane) -> Plane:
    return np.maximum(np.abs(u), np.abs(v)) - 0.89


def _cross(u: Plane, v: Plane) -> Plane:
    across = np.maximum(np.abs(u) - 1.0, np.abs(v) - 0.36)
    upright = np.maximum(np.abs(u) - 0.36, np.abs(v) - 1.0)
    return np.minimum(across, upright)


def _polygon(apothem: float, normals: tuple[tuple[float, float], ...]) -> Figure:
    """Return a regular polygon from its sides' normals, given as numbers since libraries' sines
    differ."""

    def figure(u: Plane, v: Plane) -> Plane:
        sides = np.stack([u * nu + v * nv for nu, nv in normals])
        farthest: Plane = sides.max(axis=0)
        return farthest - apothem

    return figure


def _wave(t: Plane) -> Plane:
    """Return a triangle wave of period 1 between -0.25 and 0.25."""
    return np.abs(t - np.floor(t) - 0.5) - 0.25


def _stripes(u: Plane, v: Plane) -> Plane:
    return np.maximum(_disc(u, v), _wave(2.0 * v) / 2.0)


def _checks(u: Plane, v: Plane) -> Plane:
    return np.maximum(_disc(u, v), _wave(1.6 * u) * _wave(1.6 * v) * 2.5)


FIGURES: Final[Mapping[str, Figure]] = {
    "disc": _disc,
    "ring": _ring,
    "half_disc": _half_disc,
    "triangle": _polygon(0.64, ((0.0, 1.0), (0.8660254, -0.5), (-0.8660254, -0.5))),
    "square": _square,
    "pentagon": _polygon(
        0.87,
        (
            (0.0, 1.0),
            (0.9510565, 0.309017),
            (0.5877853, -0.809017),
            (-0.5877853, -0.809017),
            (-0.9510565, 0.309017),
        ),
    ),
    "hexagon": _polygon(
        0.9,
        (
            (0.0, 1.0),
            (0.8660254, 0.5),
            (0.8660254, -0.5),
            (0.0, -1.0),
            (-0.8660254, -0.5),
            (-0.8660254, 0.5),
        ),
    ),
    "cross": _cross,
    "stripes": _stripes,
    "checks": _checks,
}
"""The classes in the order of their numbers; their areas are similar, so that size reveals
little."""


class _Draws:
    """Random numbers of one image, from PCG64's raw stream."""

    def __init__(self, split: str, index: int) -> None:
        self._source = np.random.PCG64((SPLITS[split], index))

    def between(self, low: float, high: float) -> float:
        """Return a number in [low, high), uniformly."""
        return low + (high - low) * (int(self._source.random_raw()) >> 11) * 2.0**-53

    def direction(self) -> tuple[float, float]:
        """Return a unit vector, from the rational parametrisation of the circle."""
        t = self.between(-1.0, 1.0)
        sign = 1.0 if self.between(-1.0, 1.0) >= 0.0 else -1.0
        return sign * (1.0 - t * t) / (1.0 + t * t), sign * 2.0 * t / (1.0 + t * t)

    def colour(self, low: float, high: float) -> Plane:
        """Return red, green and blue, each in [low, high)."""
        return np.array([self.between(low, high) for _ in range(3)])

    def noise(self, shape: tuple[int, ...]) -> Plane:
        """Return zero-mean noise of unit variance: the sum of four uniforms of 16 bits each."""
        raw = np.asarray(self._source.random_raw(int(np.prod(shape))), dtype=np.uint64)
        total: NDArray[np.int64] = raw.view(np.uint16).reshape(*shape, 4).sum(-1, dtype=np.int64)
        return (total.astype(np.float64) - 131_070.0) / 37_837.0


def _blend(image: Plane, colour: Plane, coverage: Plane) -> Plane:
    return image + (colour - image) * coverage[..., np.newaxis]


def _background(draws: _Draws, x: Plane, y: Plane) -> Plane:
    first, second = draws.colour(0.0, 0.6), draws.colour(0.0, 0.6)
    along, across = draws.direction()
    ramp = np.clip((x * along + y * across) / SIZE + 0.5, 0.0, 1.0)
    return _blend(np.broadcast_to(first, (SIZE, SIZE, 3)), second, 0.5 * ramp)


def _figure_coverage(figure: Figure, draws: _Draws, x: Plane, y: Plane) -> Plane:
    radius = draws.between(0.12, 0.33) * SIZE
    x = x - draws.between(-0.17, 0.17) * SIZE
    y = y - draws.between(-0.17, 0.17) * SIZE
    cos, sin = draws.direction()
    distance = figure((x * cos + y * sin) / radius, (y * cos - x * sin) / radius)
    return np.clip(0.5 - distance * radius, 0.0, 1.0)


def _bar_coverage(draws: _Draws, x: Plane, y: Plane) -> Plane:
    cos, sin = draws.direction()
    offset, half_width = draws.between(-0.45, 0.45) * SIZE, draws.between(0.5, 2.5)
    return np.clip(0.5 + half_width - np.abs(x * cos + y * sin - offset), 0.0, 1.0)


def render(split: str, index: int) -> tuple[Pixels, int]:
    """Return image `index` of a split, (SIZE, SIZE, 3) uint8, and its class number."""
    draws = _Draws(split, index)
    label = index % len(FIGURES)
    axis = np.arange(SIZE) - (SIZE - 1) / 2.0
    y, x = np.meshgrid(axis, axis, indexing="ij")
    image = _background(draws, x, y)
    figure = list(FIGURES.values())[label]
    image = _blend(image, draws.colour(0.3, 1.0), _figure_coverage(figure, draws, x, y))
    for _ in range(3):
        image = _blend(image, draws.colour(0.0, 1.0), _bar_coverage(draws, x, y))
    image = image + draws.between(0.02, 0.4) * draws.noise((SIZE, SIZE, 3))
    return np.floor(np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8), label


def images(split: str, count: int, first: int = 0) -> tuple[Pixels, Labels]:
    """Return `count` images of a split from number `first` on; KeyError for an unknown split."""
    rendered = [render(split, first + index) for index in range(count)]
    pixels = np.stack([pixels for pixels, _ in rendered])
    return pixels, np.array([label for _, label in rendered], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Shapes:
    """A split as Samples: see models/mobile/samples.py."""

    pixels: Pixels
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, index: int) -> tuple[Pixels]:
        """See Samples.inputs."""
        return (self.pixels[index],)

    def truth(self, index: int) -> int:
        """See Samples.truth."""
        return int(self.labels[index])


def evaluation_set() -> Shapes:
    """Return the evaluation split; takes about 2 s. The manifest holds its checksum."""
    return Shapes(*images("evaluation", EVALUATION_IMAGES))
