"""RetinaNet in training on images that are read from files while it trains, and scored on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from controller.contracts.mobile import Detections
from controller.contracts.result import Environment
from models.images.errors import unusable
from models.images.folder import KNOB, data_folder, open_set
from models.images.loading import ImageBatches, ImageLoader, LoadSettings
from models.images.made import MADE, ensure_made
from models.images.scoring import ScoredImages
from models.images.synthetic import SYNTHETIC, SyntheticImages
from models.retinanet.data import DetectionBatch
from models.retinanet.head import HeadOutputs
from models.retinanet.model import RetinaNet
from models.retinanet.workload import RetinaNetTraining

AS_MLPERF: Mapping[str, Any] = {
    "backbone": "resnext50_32x4d",
    "norm_eps": 1e-5,
    "optimizer": "adam",
    "trainable_stages": 3,
    "skip_frozen": True,
    "pointwise": "convolution",
    "packed_levels": False,
    "head_convolutions": "convolution",
    "fused_optimizer": False,
}


class RetinaNetImages:
    """A ReadingWorkload: RetinaNet as MLPerf Training defines it, on a data set of the host.

    Also a ScoredWorkload. Several ranks can't share its batches, as each would load all of them: it
    has no `share`.

    Args:
        image_size: side in pixels to which images are resized, whatever their shape; MLPerf's is
            800.
        batch_size: images in a batch.
        num_classes: labels of the data set are 0 to num_classes - 1.
        weights: see `RetinaNetTraining`.
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
    """

    def __init__(
        self,
        image_size: int,
        batch_size: int,
        num_classes: int,
        weights: str,
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
            weights=weights,
            frozen_bn=frozen_bn,
            focal_loss=focal_loss,
            matching=matching,
            seed=seed,
            **AS_MLPERF,
        )
        self._settings = LoadSettings(
            image_size=image_size,
            batch_size=batch_size,
            seed=seed,
            decoder=decoder,
            workers=loader_workers,
            prefetch=prefetch,
            cache=cache,
            timeout_s=load_timeout,
        )
        self._data, self._num_classes = data, num_classes
        self._root = root or data_folder()

    @property
    def loader(self) -> ImageLoader | None:
        """See ReadingWorkload.loader; raises as `_source`."""
        return self._source if isinstance(self._source, ImageLoader) else None

    @cached_property
    def _source(self) -> SyntheticImages | ImageLoader:
        """Where batches come from: not opened under LoadGen.

        Raises DataUnusable; WorkerFault, blame user, without the decoder's library.
        """
        settings, classes = self._settings, self._num_classes
        if self._data == SYNTHETIC:
            return SyntheticImages(settings.image_size, settings.batch_size, classes, settings.seed)
        name = _made(self._root, classes) if self._data == MADE else self._data
        found = open_set(name, classes, self._root)
        return ImageLoader(ImageBatches(found, settings), settings)

    @cached_property
    def _scored(self) -> ScoredImages | None:
        """What it is scored on; None: nothing is true of what images show."""
        if self._data in (SYNTHETIC, MADE):
            return None
        found = open_set(self._data, self._num_classes, self._root, scored=True)
        return ScoredImages(found, self._settings)

    @property
    def output(self) -> Detections:
        """See ScoredWorkload.output."""
        return Detections(offset=0)

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

    def samples(self, count: int) -> Tensor:
        """Return made-up images [count, 3, S, S]."""
        return self._ours.samples(count)

    def arguments(self, samples: Tensor) -> tuple[Tensor]:
        """Return the images alone."""
        return self._ours.arguments(samples)

    def answers(self, outputs: HeadOutputs) -> Sequence[Tensor]:
        """Return the detections in each image, [N, 6]."""
        return self._ours.answers(outputs)

    def truths(self) -> Sequence[Mapping[str, object]]:
        """See ScoredWorkload.truths; of `synthetic` and `made` images, none."""
        return self._scored.truths() if self._scored else ()

    def sample(self, number: int) -> Tensor:
        """See ScoredWorkload.sample."""
        if self._scored is None:
            raise LookupError("its samples are made up")
        return self._scored.sample(number)

    def data_facts(self) -> Environment:
        """See ScoredWorkload.data_facts."""
        return self._scored.facts() if self._scored else {}


def _made(root: Path, num_classes: int) -> str:
    try:
        return ensure_made(root, num_classes)
    except OSError as error:
        why = f"the set {MADE} can't be made in it: {error.strerror or error}"
        raise unusable(
            root, f"knob {KNOB}", why, "Make room there, or set BENCHFARM_DATA."
        ) from error
