"""RetinaNet with five blocks for a backbone instead of sixteen, which is sooner compiled."""

from __future__ import annotations

from typing import Any

from torch import nn

from models.retinanet.head import RetinaNetHead
from models.retinanet.implementations import OURS
from models.retinanet.model import RetinaNet
from models.retinanet.workload import RetinaNetTraining

BLOCKS = {"layer1": 1, "layer2": 1, "layer3": 1, "layer4": 2}
"""A stage's first block changes size and channels, each further one keeps them: both are there."""
TOWER = 2
"""Convolutions of a head before its last, instead of four alike: one behind another is there."""


def shallow_retinanet(
    implementation: str,
    **arguments: Any,  # noqa: ANN401 - passed on
) -> ShallowRetinaNet:
    """Return the workload as retinanet_training does; it has one implementation only."""
    assert implementation == OURS
    return ShallowRetinaNet(**arguments)


class ShallowRetinaNet(RetinaNetTraining):
    """A workload whose step has every sort of layer that RetinaNet's has, and every switch."""

    def transform(self, model: RetinaNet) -> RetinaNet:
        """See RetinaNetTraining.transform."""
        body = model.backbone.body
        for name, blocks in BLOCKS.items():
            setattr(body, name, getattr(body, name)[:blocks])
        assert isinstance(model.head, RetinaNetHead)
        for head in (model.head.classification_head, model.head.regression_head):
            head.conv = nn.Sequential(*[*head.conv][:TOWER])
        return super().transform(model)
