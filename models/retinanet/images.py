"""RetinaNet in training on images that are read from files while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from controller.contracts.weights import NO_WEIGHTS
from models.images.errors import unusable
from models.images.folder import KNOB, data_folder, open_set
from models.images.loading import ImageBatches, ImageLoader, LoadSettings
from models.images.made import MADE, ensure_made
from models.images.synthetic import SYNTHETIC, SyntheticImages
from models.retinanet.data import DetectionBatch
from models.retinanet.head import HeadOutputs
from models.retinanet.model import RetinaNet
from models.retinanet.workload import RetinaNetTraining

AS_MLPERF: Mapping[str, Any] = {
    "backbone": "resnext50_32x4d",
    "norm_eps": 1e-5,
    "optimizer": "adam",
    "weights": NO_WEIGHTS,
    "trainable_stages": 3,
    "skip_frozen": True,
    "pointwise": "convolution",
    "packed_levels": False,
    "head_convolutions": "convolution",
    "fused_optimizer": False,
}


class RetinaNetImages:
    """A ReadingWorkload: RetinaNet as MLPerf Training defines it, on a data set of the host.

    Several ranks can't share its batches, as each would load all of them: it has no `share`.

    Args:
        image_size: side in pixels to which images are resized, whatever their shape; MLPerf's is
            800.
        batch_size: images in a batch.
        num_classes: labels of the data set are 0 to num_classes - 1.
        data: `synthetic`: noise in memory; `made`: JPEGs that the project makes; or the name of a
            folder in the host's folder of data.
        decoder: see `LoadSettings`, as the next ones.
        loader_workers: `LoadSettings.workers`.
        prefetch: see `LoadSettings`.
        cache: see `LoadSettings`.
        load_timeout: `LoadSettings.timeout_s`.
        frozen_bn: see `RetinaNetTraining`.
        focal_loss: see `RetinaNetTraining`.
        matching: see `RetinaNetTraining`.
        seed: of weights, order, mirroring and synthetic data.
        root: the host's folder of data.

    Raises DataUnusable; WorkerFault, blame user, without the decoder's library.
    """

    def __init__(
        self,
        image_size: int,
        batch_size: int,
        num_classes: int,
        data: str,
        decoder: str,
        loader_workers: int,
        prefetch: int,
        cache: str,
        load_timeout: float,
        frozen_bn: str,
        focal_loss: str,
        matching: str,
        seed: int,
        root: Path | None = None,
    ) -> None:
        self.batch_size = batch_size
        self._ours = RetinaNetTraining(
            image_size=image_size,
            batch_size=batch_size,
            num_classes=num_classes,
            frozen_bn=frozen_bn,
            focal_loss=focal_loss,
            matching=matching,
            seed=seed,
            **AS_MLPERF,
        )
        self.loader: ImageLoader | None = None
        """None: batches are in memory."""
        self._source: SyntheticImages | ImageLoader
        if data == SYNTHETIC:
            self._source = SyntheticImages(image_size, batch_size, num_classes, seed)
            return
        settings = LoadSettings(
            image_size=image_size,
            batch_size=batch_size,
            seed=seed,
            decoder=decoder,
            workers=loader_workers,
            prefetch=prefetch,
            cache=cache,
            timeout_s=load_timeout,
        )
        root = root or data_folder()
        name = _made(root, num_classes) if data == MADE else data
        batches = ImageBatches(open_set(name, num_classes, root), settings)
        self.loader = self._source = ImageLoader(batches, settings)

    def build_model(self) -> RetinaNet:
        """Return the model in fp32 and training mode, as RetinaNetTraining's."""
        return self._ours.build_model()

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return Adam at 1e-4 over the parameters that learn."""
        return self._ours.build_optimizer(model)

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step; raises DataUnusable, WorkerFault."""
        return self._source.batch(step)

    def forward(self, model: nn.Module, batch: DetectionBatch) -> HeadOutputs:
        """Return class logits [B, A, classes] and box regression [B, A, 4]."""
        return self._ours.forward(model, batch)

    def loss(self, outputs: HeadOutputs, batch: DetectionBatch) -> Tensor:
        """Return the scalar fp32 loss, classification plus boxes."""
        return self._ours.loss(outputs, batch)


def _made(root: Path, num_classes: int) -> str:
    try:
        return ensure_made(root, num_classes)
    except OSError as error:
        why = f"the set {MADE} can't be made in it: {error.strerror or error}"
        raise unusable(
            root, f"knob {KNOB}", why, "Make room there, or set BENCHFARM_DATA."
        ) from error
