"""RetinaNet on a few drawn scenes, learnt by heart: whether all of training and inference works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from controller.contracts.errors import WorkerFault
from controller.contracts.mobile import Detections
from controller.contracts.result import Blame, Environment, Failure
from controller.contracts.weights import NO_WEIGHTS
from models.optimizers import build_optimizer
from models.retinanet.data import DetectionBatch
from models.retinanet.drawn_data import DrawnDetectionData
from models.retinanet.frozen_norm import FrozenBatchNorm2d
from models.retinanet.model import RetinaNet
from models.retinanet.workload import RetinaNetTraining
from models.seeding import seeded
from models.weights.load import load_retinanet

WARMUP_EPOCHS = 1
WARMUP_FACTOR = 1e-3
"""The first step's share of the learning rate; both are those of MLPerf's reference."""
AS_MLPERF: Mapping[str, Any] = {
    "backbone": "resnext50_32x4d",
    "norm_eps": 1e-5,
    "optimizer": "adam",
    "trainable_stages": 5,  # its own weights: there is nothing to keep
    "skip_frozen": True,
    "pointwise": "convolution",
    "packed_levels": False,
    "head_convolutions": "convolution",
    "fused_optimizer": False,
}


class RetinaNetOverfit(RetinaNetTraining):
    """An EvaluatedWorkload: trained and scored on the same scenes, with MLPerf's warm-up.

    Also a ScoredWorkload.

    Without `weights`, the backbone's are random. Its frozen batch norms have the statistics of the
    scenes, as those of MLPerf's have ImageNet's: with none, activations would grow from block to
    block.

    Args:
        image_size: side of the square images in pixels.
        images: number of scenes.
        batch_size: images in a batch; a divisor of `images`.
        num_classes: at most ten.
        weights: path of a checkpoint of this model, or `none`.
        learning_rate: after the warm-up; MLPerf's is 1e-4.
        frozen_bn: see `RetinaNetTraining`.
        focal_loss: see `RetinaNetTraining`.
        matching: see `RetinaNetTraining`.
        seed: of weights, scenes and their order.
    """

    def __init__(
        self,
        image_size: int,
        images: int,
        batch_size: int,
        num_classes: int,
        weights: str,
        learning_rate: float,
        frozen_bn: str,
        focal_loss: str,
        matching: str,
        seed: int,
    ) -> None:
        super().__init__(
            image_size=image_size,
            batch_size=batch_size,
            num_classes=num_classes,
            weights=weights,
            frozen_bn=frozen_bn,
            focal_loss=focal_loss,
            matching=matching,
            seed=seed,
            **AS_MLPERF,
        )
        try:
            self._scenes = DrawnDetectionData(image_size, images, batch_size, num_classes, seed)
        except ValueError as error:
            failure = Failure(blame=Blame.USER, kind="knobs", message=f"{error}. Change one.")
            raise WorkerFault(failure) from error
        self._learning_rate = learning_rate

    @property
    def epoch_steps(self) -> int:
        """See EvaluatedWorkload.epoch_steps."""
        return self._scenes.epoch_steps

    @property
    def output(self) -> Detections:
        """See EvaluatedWorkload.output."""
        return Detections(offset=0)

    def build_model(self) -> RetinaNet:
        """Return the model with norms that fit the scenes, in fp32 and training mode.

        Raises WeightsUnusable.
        """
        return self.transform(self._plain_model())

    def _plain_model(self) -> RetinaNet:
        with seeded(self._seed):
            model = RetinaNet(self._num_classes, self.trainable_stages, self.backbone)
        if self._weights == NO_WEIGHTS:
            calibrate(model, self._scenes.images)
        else:
            load_retinanet(model, Path(self._weights))
        return model

    def weights(self, learnt: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a checkpoint's tensors, whatever form of norms has learnt; raises RuntimeError for
        names that a plain model has not."""
        model = self._plain_model()
        model.load_state_dict({**model.state_dict(), **learnt})
        found: Mapping[str, Tensor] = model.state_dict()
        return found

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return Adam over all parameters."""
        return build_optimizer("adam", False, model.parameters(), self._learning_rate)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step: linear from WARMUP_FACTOR, then constant."""
        done = min(1.0, step / (WARMUP_EPOCHS * self.epoch_steps))
        return self._learning_rate * (WARMUP_FACTOR * (1 - done) + done)

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step."""
        return self._scenes.batch(step)

    def samples(self, count: int) -> Tensor:
        """Return the first scenes' images [count, 3, S, S]."""
        return self._scenes.images[:count]

    def sample(self, number: int) -> Tensor:
        """Return a scene's image [3, S, S]."""
        return self._scenes.images[number]

    def data_facts(self) -> Environment:
        """Return no facts: the scenes follow from the knobs."""
        return {}

    def truths(self) -> Sequence[Mapping[str, object]]:
        """Return classes and boxes of each scene, in pixels."""
        return [
            {
                "categories": target.labels.tolist(),
                "boxes": target.boxes[:, (1, 0, 3, 2)].tolist(),
                "size": (1, 1),  # boxes of answers are in pixels, too
            }
            for target in self._scenes.targets
        ]


@torch.no_grad()
def calibrate(model: nn.Module, images: Tensor) -> None:
    """Give each frozen norm the mean and variance of its own input, from the first to the last.

    images: [N, 3, H, W] in 0..1, run through the model once.
    """

    def measure(norm: nn.Module, inputs: tuple[Tensor]) -> None:
        assert isinstance(norm, FrozenBatchNorm2d)
        variance, mean = torch.var_mean(inputs[0], dim=(0, 2, 3), correction=0)
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)

    norms = [module for module in model.modules() if isinstance(module, FrozenBatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
