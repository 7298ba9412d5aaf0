"""A detector that knows what its samples show, with every way to be wrong about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from controller.contracts.mobile import Detections
from controller.contracts.result import Environment

SCENES: Sequence[tuple[tuple[int, tuple[float, float, float, float]], ...]] = (
    ((0, (2, 3, 20, 30)), (1, (40, 10, 60, 50))),
    ((1, (5, 5, 25, 45)),),
    ((2, (8, 30, 50, 60)), (0, (30, 2, 44, 20))),
    ((2, (12, 12, 36, 36)),),
)
"""Class and box (top, left, bottom, right, in pixels) of the objects in each sample."""


class Seer:
    """A ScoredWorkload whose samples are their own numbers.

    Args:
        classes_off: added to each class that it names.
        scale: of the boxes that it names.
        blind_to: sample in which it sees nothing; -1: none.
        truths: whether its samples have any.
    """

    batch_size = 2

    def __init__(
        self, classes_off: int = 0, scale: float = 1.0, blind_to: int = -1, truths: bool = True
    ) -> None:
        self._classes_off, self._scale, self._blind_to = classes_off, scale, blind_to
        self._has_truths = truths

    @property
    def output(self) -> Detections:
        return Detections(offset=0)

    def build_model(self) -> nn.Module:
        return nn.Identity()

    def samples(self, count: int) -> Tensor:
        return torch.zeros(count, 3)

    def sample(self, number: int) -> Tensor:
        return torch.full((3,), float(number))

    def truths(self) -> Sequence[Mapping[str, object]]:
        if not self._has_truths:
            return ()
        return [
            {
                "categories": [label for label, _ in scene],
                "boxes": [box for _, box in scene],
                "size": (1, 1),
            }
            for scene in SCENES
        ]

    def data_facts(self) -> Environment:
        return {"data_images": len(SCENES)}

    def arguments(self, samples: Tensor) -> tuple[Tensor]:
        return (samples,)

    def answers(self, outputs: Tensor) -> Sequence[Tensor]:
        return [self._rows(int(each[0])) for each in outputs]

    def _rows(self, number: int) -> Tensor:
        seen = () if number == self._blind_to else SCENES[number]
        rows = [
            (*(edge * self._scale for edge in box), label + self._classes_off, 0.9)
            for label, box in seen
        ]
        return torch.tensor(rows, dtype=torch.float32).reshape(-1, 6)
