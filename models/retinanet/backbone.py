"""ResNeXt50-32x4d and ResNet-50 with frozen batch norms, modules named as in torchvision."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional

from models.retinanet.frozen_norm import FrozenBatchNorm2d, norm_then_relu

STAGES_FROM_THE_TOP = ("layer4", "layer3", "layer2", "layer1", "conv1")
"""Stages in the order in which they become trainable."""

OUT_CHANNELS = (512, 1024, 2048)
"""Channels of C3, C4, C5: the outputs of layer2, layer3, layer4."""

_EXPANSION = 4
BACKBONES: Mapping[str, tuple[int, int]] = {"resnext50_32x4d": (32, 4), "resnet50": (1, 64)}
"""Groups of a bottleneck's 3x3 convolution, and channels of a group in layer1. One is MLPerf's, one
that of torchvision's COCO weights."""


class Bottleneck(nn.Module):
    """1x1, grouped 3x3 (which takes the stride), 1x1, and the shortcut (Xie et al. 2017).

    form: one of BACKBONES.
    """

    def __init__(self, in_channels: int, planes: int, stride: int, form: tuple[int, int]) -> None:
        super().__init__()
        groups, group_width = form
        width = planes * group_width * groups // 64
        out_channels = planes * _EXPANSION
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = FrozenBatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = FrozenBatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = FrozenBatchNorm2d(out_channels)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False),
                FrozenBatchNorm2d(out_channels),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, in_channels, H, W] to [B, 4 * planes, H / stride, W / stride]."""
        y = norm_then_relu(self.bn1, self.conv1(x))
        y = norm_then_relu(self.bn2, self.conv2(y))
        y = self.conv3(y)
        return norm_then_relu(self.bn3, y, x if self.downsample is None else self.downsample(x))


class Body(nn.Module):
    """The feature extractor of a backbone, of which the top `trainable_stages` learn.

    Args:
        trainable_stages: 0 to 5, counted from layer4 down to conv1; 3 is MLPerf's.
        backbone: one of BACKBONES.

    Raises:
        ValueError: trainable_stages is not within 0 and 5.
    """

    def __init__(self, trainable_stages: int, backbone: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = FrozenBatchNorm2d(64)
        form = BACKBONES[backbone]
        self.layer1 = _stage(64, 64, 3, 1, form)
        self.layer2 = _stage(256, 128, 4, 2, form)
        self.layer3 = _stage(512, 256, 6, 2, form)
        self.layer4 = _stage(1024, 512, 3, 2, form)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self._freeze_below(trainable_stages)

    def _freeze_below(self, trainable_stages: int) -> None:
        if not 0 <= trainable_stages <= len(STAGES_FROM_THE_TOP):
            raise ValueError(f"trainable_stages={trainable_stages}: expected 0 to 5")
        for name in STAGES_FROM_THE_TOP[trainable_stages:]:
            self.get_submodule(name).requires_grad_(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return C3, C4, C5 of images [B, 3, H, W]: strides 8, 16, 32."""
        x = norm_then_relu(self.bn1, self.conv1(images))
        x = functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)
        c3 = self.layer2(self.layer1(x))
        c4 = self.layer3(c3)
        return [c3, c4, self.layer4(c4)]


def _stage(
    in_channels: int, planes: int, blocks: int, stride: int, form: tuple[int, int]
) -> nn.Sequential:
    out_channels = planes * _EXPANSION
    rest = (Bottleneck(out_channels, planes, 1, form) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(in_channels, planes, stride, form), *rest)
