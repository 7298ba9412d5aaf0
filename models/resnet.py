"""ResNet-18 and ResNet-50 v1.5 as training workloads (He et al. 2016, table 1).

v1.5: the 3x3 convolution of a bottleneck has the stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from controller.contracts.weights import NO_WEIGHTS
from models.optimizers import build_optimizer
from models.seeding import seeded
from models.weights.load import load_resnet

INNER_CHANNELS = (64, 128, 256, 512)
"""Of the blocks of each stage."""
LEARNING_RATE = 0.1 / 256
"""Per image in a batch (Goyal et al. 2017, section 2.1)."""
DISTINCT_BATCHES = 4
"""More would only cost memory: steps of all batches compute the same."""

Labelled = tuple[Tensor, Tensor]
"""Images [B, 3, H, W] and classes, int64 [B]."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, each normalised, plus a shortcut."""

    EXPANSION = 1

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, inner, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.downsample = shortcut(channels, inner, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [B, channels, H, W] to [B, inner, H / stride, W / stride]."""
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(y)) + self.downsample(x), inplace=True)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, each normalised, plus a shortcut."""

    EXPANSION = 4

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = inner * self.EXPANSION
        self.conv1, self.bn1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = shortcut(channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [B, channels, H, W] to [B, 4 * inner, H / stride, W / stride]."""
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = functional.relu(self.bn2(self.conv2(y)), inplace=True)
        return functional.relu(self.bn3(self.conv3(y)) + self.downsample(x), inplace=True)


def shortcut(channels: int, out: int, stride: int) -> nn.Sequential:
    """Return what maps a block's input to its output's shape: nothing, or a 1x1 convolution."""
    if stride == 1 and channels == out:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Sequential):
    """Images [B, 3, H, W] to class logits [B, classes]; H and W are multiples of 32.

    Args:
        block: class of the blocks.
        blocks: number of blocks of each of the four stages.
        num_classes: number of logits.
    """

    def __init__(
        self, block: type[BasicBlock | Bottleneck], blocks: Sequence[int], num_classes: int
    ) -> None:
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, padding=1),
        )
        channels = 64
        for stage, (inner, count) in enumerate(zip(INNER_CHANNELS, blocks, strict=True), start=1):
            for at in range(count):
                stride = 2 if stage > 1 and at == 0 else 1
                self.add_module(f"layer{stage}_{at}", block(channels, inner, stride))
                channels = inner * block.EXPANSION
        self.add_module("pool", nn.AdaptiveAvgPool2d(1))
        self.add_module("flatten", nn.Flatten())
        self.add_module("fc", nn.Linear(channels, num_classes))


class ResnetTraining:
    """Image classification on synthetic images.

    Also an InferenceWorkload.

    Args:
        image_size: side of the square images in pixels; the paper's is 224.
        batch_size: images in a batch.
        num_classes: 1000 in ImageNet.
        weights: path of a checkpoint, see `weights.load.load_resnet`; or `none` for random ones.
        optimizer: one of `optimizers.build_optimizer`.
        fused_optimizer: its fused form.
        seed: of weights and data.
    """

    BLOCK: ClassVar[type[BasicBlock | Bottleneck]]
    BLOCKS: ClassVar[tuple[int, int, int, int]]
    """Number of blocks of each stage."""
    LEAST_SHARE: ClassVar = 2
    """Images of a rank: batch norms need more than one value of a channel, and small images end in
    one cell."""

    def __init__(
        self,
        image_size: int,
        batch_size: int,
        num_classes: int,
        weights: str,
        optimizer: str,
        fused_optimizer: bool,
        seed: int,
    ) -> None:
        self._batch_size, self._num_classes, self._seed = batch_size, num_classes, seed
        self._weights = weights
        self._image_size = image_size
        self._optimizer, self._fused_optimizer = optimizer, fused_optimizer
        generator = torch.Generator().manual_seed(seed)
        shape = (batch_size, 3, image_size, image_size)
        self._batches: list[Labelled] = [
            (
                torch.randn(shape, generator=generator),
                torch.randint(num_classes, (batch_size,), generator=generator),
            )
            for _ in range(DISTINCT_BATCHES)
        ]

    @property
    def batch_size(self) -> int:
        """Images in one batch."""
        return self._batch_size

    def build_model(self) -> ResNet:
        """Return the model in fp32 and training mode; leaves the global random state alone.

        Raises WeightsUnusable.
        """
        with seeded(self._seed):
            model = ResNet(self.BLOCK, self.BLOCKS, self._num_classes)
        if self._weights != NO_WEIGHTS:
            load_resnet(model, Path(self._weights))
        return model

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer over all parameters."""
        rate = LEARNING_RATE * self._batch_size
        return build_optimizer(self._optimizer, self._fused_optimizer, model.parameters(), rate)

    def batch(self, step: int) -> Labelled:
        """Return the batch of a step; every fourth step has the same one."""
        return self._batches[step % DISTINCT_BATCHES]

    def share(self, batch: Labelled, rank: int, ranks: int) -> Labelled:
        """Return a rank's part of a batch; its batch statistics differ from the whole batch's."""
        images, classes = (part.chunk(ranks)[rank] for part in batch)
        return images, classes

    def forward(self, model: nn.Module, batch: Labelled) -> Tensor:
        """Return class logits [B, classes]."""
        logits: Tensor = model(batch[0])
        return logits

    def loss(self, outputs: Tensor, batch: Labelled) -> Tensor:
        """Return the mean cross-entropy, fp32."""
        return functional.cross_entropy(outputs.float(), batch[1])

    def samples(self, count: int) -> Tensor:
        """Return images [count, 3, H, W]."""
        generator = torch.Generator().manual_seed(self._seed)
        return torch.randn(count, 3, self._image_size, self._image_size, generator=generator)

    def arguments(self, samples: Tensor) -> tuple[Tensor]:
        """Return the images alone."""
        return (samples,)

    def answers(self, outputs: Tensor) -> Sequence[Tensor]:
        """Return the best class, int64 [1], for the logits of each image."""
        return outputs.argmax(dim=1, keepdim=True).unbind()


class Resnet18Training(ResnetTraining):
    """ResNet-18 in training."""

    BLOCK, BLOCKS = BasicBlock, (2, 2, 2, 2)


class Resnet50Training(ResnetTraining):
    """ResNet-50 v1.5 in training: the model of MLPerf Training, without its optimizer."""

    BLOCK, BLOCKS = Bottleneck, (3, 4, 6, 3)
