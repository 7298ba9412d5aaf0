"""RetinaNet as a training workload."""

from __future__ import annotations

import torch

from models.retinanet.anchors import anchors_by_level
from models.retinanet.data import DetectionBatch, SyntheticDetectionData
from models.retinanet.head import HeadOutputs
from models.retinanet.loss import detection_loss
from models.retinanet.model import RetinaNet

LEARNING_RATE = 1e-4


class RetinaNetTraining:
    """MLPerf Training's single-stage detector on synthetic data, from seeded random weights.

    MLPerf starts from ImageNet weights and warms the learning rate up; neither changes what a
    step computes, and nothing has to be downloaded without them.

    Args:
        image_size: side of the square images in pixels; MLPerf's is 800.
        batch_size: images in a batch.
        num_classes: 264 in MLPerf's subset of OpenImages.
        trainable_stages: backbone stages that learn, 0 to 5 from the top; the others get no
            gradient work.
        seed: of weights and data.
    """

    def __init__(
        self,
        image_size: int,
        batch_size: int,
        num_classes: int = 264,
        trainable_stages: int = 3,
        seed: int = 0,
    ) -> None:
        self._batch_size = batch_size
        self._num_classes = num_classes
        self._trainable_stages = trainable_stages
        self._seed = seed
        self._data = SyntheticDetectionData(image_size, batch_size, num_classes, seed)
        self._anchors = torch.cat(anchors_by_level(image_size, image_size))

    @property
    def batch_size(self) -> int:
        """Images in one batch."""
        return self._batch_size

    def build_model(self) -> RetinaNet:
        """Return the model in fp32 and training mode; leaves the global random state alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            return RetinaNet(self._num_classes, self._trainable_stages)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Adam:
        """Return Adam at 1e-4 over the parameters that learn."""
        learning = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.Adam(learning, lr=LEARNING_RATE)

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step, from a small pool made with the workload."""
        return self._data.batch(step)

    def forward(self, model: torch.nn.Module, batch: DetectionBatch) -> HeadOutputs:
        """Return class logits [B, A, classes] and box regression [B, A, 4]."""
        outputs: HeadOutputs = model(batch.images)
        return outputs

    def loss(self, outputs: HeadOutputs, batch: DetectionBatch) -> torch.Tensor:
        """Return the scalar fp32 loss, classification plus boxes."""
        return detection_loss(outputs, batch.targets, self._anchors)
