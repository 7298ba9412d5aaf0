"""Names of torchvision's and MLCommons' checkpoints, and which tensors of ours they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

BACKBONE: Final = "backbone.body."
"""Before the names of a detector's backbone."""
COUNTER: Final = "num_batches_tracked"
"""The last part of a batch norm's count of batches, which frozen norms don't have."""
CLASSIFIER: Final = "fc."
"""Before the names of a classifier's last layer, which a backbone doesn't have."""
_OLD_TOWER: Final = re.compile(r"(head\.\w+_head\.conv)\.([0246])\.(weight|bias)")
_OLD_PYRAMID: Final = re.compile(r"(backbone\.fpn\.(?:inner|layer)_blocks\.\d+)\.(weight|bias)")
_STAGE: Final = re.compile(r"layer([1-4])\.(\d+)\.(.+)")
_STEM: Final = {"conv1": "0", "bn1": "1"}
"""The first two modules of a ResNet, in torchvision's names and in ours."""


def is_detector(names: Iterable[str]) -> bool:
    """Return whether names are those of a whole detector, not of a classifier."""
    return any(name.startswith(("backbone.", "head.")) for name in names)


def detector_names(names: Collection[str]) -> dict[str, str]:
    """Return RetinaNet's name for each name of a detector's checkpoint.

    Before its version 0.12, torchvision had no Sequential around each convolution of the pyramid
    and of the heads' towers; the checkpoints that it published then still have those names.
    """
    kept = (name for name in names if not name.endswith(f".{COUNTER}"))
    return {name: _newer(name) for name in kept}


def _newer(name: str) -> str:
    if old := _OLD_TOWER.fullmatch(name):
        return f"{old[1]}.{int(old[2]) // 2}.0.{old[3]}"  # every other module was a ReLU
    if old := _OLD_PYRAMID.fullmatch(name):
        return f"{old[1]}.0.{old[2]}"
    return name


def backbone_names(names: Collection[str]) -> dict[str, str]:
    """Return RetinaNet's name for each name of a classifier that becomes its backbone."""
    left_out = (CLASSIFIER, f".{COUNTER}")
    return {
        name: f"{BACKBONE}{name}"
        for name in names
        if not name.startswith(left_out[0]) and not name.endswith(left_out[1])
    }


def classifier_names(names: Collection[str]) -> dict[str, str]:
    """Return ResNet's name for each name of a classifier's checkpoint."""
    return {name: _in_sequence(name) for name in names}


def _in_sequence(name: str) -> str:
    if stage := _STAGE.fullmatch(name):
        return f"layer{stage[1]}_{stage[2]}.{stage[3]}"
    first, dot, rest = name.partition(".")
    return f"{_STEM.get(first, first)}{dot}{rest}"
