"""RetinaNet as a training workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from controller.contracts.weights import NO_WEIGHTS
from models.optimizers import build_optimizer
from models.retinanet.anchors import anchors_by_level, grid_shapes
from models.retinanet.backbone import STAGES_FROM_THE_TOP
from models.retinanet.data import DetectionBatch, SyntheticDetectionData
from models.retinanet.frozen_norm import FrozenBatchNorm2d, apply_frozen_bn
from models.retinanet.head import HeadOutputs
from models.retinanet.loss import FOCAL_LOSSES, MATCHINGS, detection_loss
from models.retinanet.model import RetinaNet
from models.retinanet.packing import PackedHead
from models.retinanet.pointwise import use_matmul
from models.retinanet.postprocess import detect, detection_rows
from models.retinanet.rows import RowConv2d, RowsHead
from models.retinanet.unfolded import UnfoldedConv2d
from models.retinanet.winograd import WinogradConv2d
from models.seeding import seeded
from models.weights.load import load_retinanet

LEARNING_RATE = 1e-4
ROW_CONVOLUTIONS: Mapping[str, type[RowConv2d]] = {
    "matmul": UnfoldedConv2d,
    "winograd": WinogradConv2d,
}
"""Value of the knob `head_convolutions` → the form that runs on all levels in one call."""


class RetinaNetTraining:
    """MLPerf Training's single-stage detector on synthetic data.

    Also an InferenceWorkload.

    MLPerf starts from ImageNet weights and warms the learning rate up. Neither changes what a step
    computes; so weights are random by default, and nothing has to be downloaded.

    Args:
        image_size: side of the square images in pixels; MLPerf's is 800.
        batch_size: images in a batch.
        num_classes: 264 in MLPerf's subset of OpenImages.
        trainable_stages: backbone stages that learn, 0 to 5 from the top.
        backbone: one of `backbone.BACKBONES`.
        norm_eps: added to the variances of the frozen batch norms.
        weights: path of a checkpoint, see `weights.load.load_retinanet`; or `none`.
        skip_frozen: no gradient work for the stages that don't learn; otherwise their gradients
            are computed and dropped.
        frozen_bn: form of the batch norms, see `frozen_norm.apply_frozen_bn`.
        pointwise: 1x1 convolutions as `convolution` or as `matmul`.
        packed_levels: run the heads on all pyramid levels in one call.
        head_convolutions: the heads' 3x3 convolutions as `convolution`, or as one of
            ROW_CONVOLUTIONS, for any value of `packed_levels`.
        focal_loss: one of `loss.FOCAL_LOSSES`.
        matching: one of `loss.MATCHINGS`.
        optimizer: one of `optimizers.build_optimizer`; MLPerf's is Adam.
        fused_optimizer: its fused form.
        seed: of weights and data.
    """

    def __init__(
        self,
        image_size: int,
        batch_size: int,
        num_classes: int,
        trainable_stages: int,
        backbone: str,
        norm_eps: float,
        weights: str,
        skip_frozen: bool,
        frozen_bn: str,
        pointwise: str,
        packed_levels: bool,
        head_convolutions: str,
        focal_loss: str,
        matching: str,
        optimizer: str,
        fused_optimizer: bool,
        seed: int,
    ) -> None:
        self.image_size = image_size
        self.trainable_stages = trainable_stages
        self.backbone = backbone
        self.norm_eps = norm_eps
        self.is_plain = (
            skip_frozen
            and frozen_bn == "mul_add"
            and pointwise == head_convolutions == "convolution"
            and not packed_levels
            and focal_loss == matching == "reference"
        )
        """Whether all switches of model and loss have torchvision's values."""
        self._weights = weights
        self._batch_size = batch_size
        self._num_classes = num_classes
        self._skip_frozen = skip_frozen
        self._frozen_bn = frozen_bn
        self._pointwise = pointwise
        self._packed_levels = packed_levels
        self._head_convolutions = head_convolutions
        self._focal_loss = FOCAL_LOSSES[focal_loss]
        self._matching = MATCHINGS[matching]
        self._optimizer = optimizer
        self._fused_optimizer = fused_optimizer
        self._seed = seed
        self._data = SyntheticDetectionData(image_size, batch_size, num_classes, seed)
        self._level_anchors = anchors_by_level(image_size, image_size)
        self._anchors = torch.cat(self._level_anchors)

    @property
    def batch_size(self) -> int:
        """Images in one batch."""
        return self._batch_size

    def build_model(self) -> RetinaNet:
        """Return the model in fp32 and training mode; leaves the global random state alone.

        Raises WeightsUnusable.
        """
        with seeded(self._seed):
            model = RetinaNet(self._num_classes, self.trainable_stages, self.backbone)
        for module in model.modules():
            if isinstance(module, FrozenBatchNorm2d):
                module.eps = self.norm_eps
        if self._weights != NO_WEIGHTS:
            load_retinanet(model, Path(self._weights))
        return self.transform(model)

    def transform(self, model: RetinaNet) -> RetinaNet:
        """Convert a plain model with loaded weights to the form that the knobs select."""
        if not self._skip_frozen:
            for parameter in self._frozen(model):
                parameter.requires_grad_()
                parameter.register_post_accumulate_grad_hook(_drop_gradient)  # type: ignore[no-untyped-call]
        apply_frozen_bn(model, self._frozen_bn)
        if self._pointwise == "matmul":
            use_matmul(model)
        if form := ROW_CONVOLUTIONS.get(self._head_convolutions):
            model.head = RowsHead(model.head, form)
        elif self._packed_levels:
            model.head = PackedHead(model.head, grid_shapes(self.image_size, self.image_size))
        return model

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer at 1e-4 over the parameters that learn."""
        frozen = set(self._frozen(model))
        learning = [p for p in model.parameters() if p not in frozen]
        return build_optimizer(self._optimizer, self._fused_optimizer, learning, LEARNING_RATE)

    def _frozen(self, model: nn.Module) -> list[nn.Parameter]:
        stages = STAGES_FROM_THE_TOP[self.trainable_stages :]
        modules = [model.get_submodule(f"backbone.body.{stage}") for stage in stages]
        return [parameter for module in modules for parameter in module.parameters()]

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step, from a small pool made with the workload."""
        return self._data.batch(step)

    def share(self, batch: DetectionBatch, rank: int, ranks: int) -> DetectionBatch:
        """Return a rank's part of a batch."""
        count = len(batch.targets) // ranks
        own = slice(rank * count, (rank + 1) * count)
        return DetectionBatch(batch.images[own], batch.targets[own])

    def forward(self, model: nn.Module, batch: DetectionBatch) -> HeadOutputs:
        """Return class logits [B, A, classes] and box regression [B, A, 4]."""
        outputs: HeadOutputs = model(batch.images)
        return outputs

    def loss(self, outputs: HeadOutputs, batch: DetectionBatch) -> Tensor:
        """Return the scalar fp32 loss, classification plus boxes."""
        return detection_loss(
            outputs, batch.targets, self._anchors, self._focal_loss, self._matching
        )

    def samples(self, count: int) -> Tensor:
        """Return images [count, 3, S, S] with values in 0..1."""
        generator = torch.Generator().manual_seed(self._seed)
        return torch.rand(count, 3, self.image_size, self.image_size, generator=generator)

    def arguments(self, samples: Tensor) -> tuple[Tensor]:
        """Return the images alone."""
        return (samples,)

    def answers(self, outputs: HeadOutputs) -> Sequence[Tensor]:
        """Return the detections in each image as `detection_rows`."""
        found = detect(outputs, self._level_anchors, (self.image_size, self.image_size))
        return [detection_rows(each.boxes, each.labels, each.scores) for each in found]


def _drop_gradient(parameter: Tensor) -> None:
    parameter.grad = None
