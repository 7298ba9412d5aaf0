"""RetinaNet-ResNeXt50-32x4d-FPN as MLPerf Training's single-stage detector defines it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.retinanet.anchors import ANCHORS_PER_CELL
from models.retinanet.backbone import OUT_CHANNELS, Body
from models.retinanet.fpn import CHANNELS, FeaturePyramid
from models.retinanet.head import BothHeads, HeadOutputs, RetinaNetHead

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class BackboneWithPyramid(nn.Module):
    """The feature extractor and the pyramid over it."""

    def __init__(self, trainable_stages: int, backbone: str) -> None:
        super().__init__()
        self.body = Body(trainable_stages, backbone)
        self.fpn = FeaturePyramid(OUT_CHANNELS)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return P3 to P7 [B, 256, H_l, W_l] of normalised images [B, 3, H, W]."""
        levels: list[Tensor] = self.fpn(self.body(images))
        return levels


class RetinaNet(nn.Module):
    """The detector up to the outputs of its heads; loss and postprocessing are functions.

    Args:
        num_classes: classes told apart, background not counted; 264 in MLPerf's OpenImages.
        trainable_stages: backbone stages that learn, see `Body`.
        backbone: one of `backbone.BACKBONES`; MLPerf's is ResNeXt50-32x4d.
    """

    def __init__(self, num_classes: int, trainable_stages: int, backbone: str) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        # Not persistent, so that state dicts have exactly torchvision's names.
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD)[:, None, None], persistent=False)
        self.backbone = BackboneWithPyramid(trainable_stages, backbone)
        self.head: BothHeads = RetinaNetHead(CHANNELS, ANCHORS_PER_CELL, num_classes)

    def forward(self, images: Tensor) -> HeadOutputs:
        """Return the head outputs for images [B, 3, H, W] with values in 0..1.

        Normalises by ImageNet's mean and deviation. Images must have their training size: the
        reference's resizing is left to whoever makes the batch.
        """
        outputs: HeadOutputs = self.head(self.backbone((images - self.mean) / self.std))
        return outputs
