"""torchvision's RetinaNet with our weights: the implementation that ours is compared with.

Requires torchvision, as in the environment of stack ipex. Backbone, pyramid, head, anchors,
matching and losses are torchvision's, as in MLPerf's reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torchvision.models.detection import RetinaNet as TorchvisionRetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from models.retinanet.anchors import ASPECT_RATIOS, SIZES
from models.retinanet.data import DetectionBatch
from models.retinanet.fpn import CHANNELS
from models.retinanet.postprocess import detection_rows
from models.retinanet.workload import RetinaNetTraining

Losses = dict[str, Tensor]
Found = list[dict[str, Tensor]]


class TorchvisionTraining:
    """A TrainingWorkload: torchvision's model and losses, with data, weights and optimizer of ours.

    Args:
        ours: a workload whose switches are all at their plain values.
    """

    def __init__(self, ours: RetinaNetTraining) -> None:
        self._ours = ours

    @property
    def batch_size(self) -> int:
        """Images in one batch."""
        return self._ours.batch_size

    def build_model(self) -> nn.Module:
        """Return torchvision's model with the weights ours begins with."""
        ours = self._ours.build_model()
        backbone = resnet_fpn_backbone(
            backbone_name=self._ours.backbone,
            weights=None,
            trainable_layers=self._ours.trainable_stages,
            returned_layers=[2, 3, 4],
            extra_blocks=LastLevelP6P7(CHANNELS, CHANNELS),
        )
        model: nn.Module = TorchvisionRetinaNet(
            backbone,
            num_classes=ours.head.classification_head.num_classes,
            anchor_generator=AnchorGenerator(SIZES, (ASPECT_RATIOS,) * len(SIZES)),
            # Makes torchvision's own resizing do nothing.
            min_size=self._ours.image_size,
            max_size=self._ours.image_size,
        )
        for module in model.modules():
            if isinstance(module, FrozenBatchNorm2d):
                module.eps = self._ours.norm_eps
        model.load_state_dict(ours.state_dict())
        return model.train()

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return our optimizer; the modules have the same names."""
        return self._ours.build_optimizer(model)

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step."""
        return self._ours.batch(step)

    def share(self, batch: DetectionBatch, rank: int, ranks: int) -> DetectionBatch:
        """Return a rank's part of a batch."""
        return self._ours.share(batch, rank, ranks)

    def forward(self, model: nn.Module, batch: DetectionBatch) -> Losses:
        """Return the losses, which the model computes with its outputs."""
        targets = [{"boxes": t.boxes, "labels": t.labels} for t in batch.targets]
        losses: Losses = model(list(batch.images), targets)
        return losses

    def loss(self, outputs: Losses, batch: DetectionBatch) -> Tensor:
        """Return the sum of the losses."""
        return torch.stack([loss.float() for loss in outputs.values()]).sum()

    def samples(self, count: int) -> Tensor:
        """Return images [count, 3, S, S]."""
        return self._ours.samples(count)

    def arguments(self, samples: Tensor) -> tuple[list[Tensor]]:
        """Return the images as a list."""
        return (list(samples),)

    def answers(self, outputs: Found) -> Sequence[Tensor]:
        """Return the detections in each image, which the model has selected, as
        `detection_rows`."""
        return [detection_rows(each["boxes"], each["labels"], each["scores"]) for each in outputs]
