"""Feature pyramid network (Lin et al. 2017) as RetinaNet uses it: P3 to P7."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

CHANNELS = 256
"""Channels of every level."""


class CoarsestLevels(nn.Module):
    """P6 and P7, computed from P5 (in the first RetinaNet paper from C5)."""

    def __init__(self) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1)
        self.p7 = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1)

    def forward(self, p5: Tensor) -> list[Tensor]:
        """Return P6 and P7: strides 64 and 128."""
        p6 = self.p6(p5)
        return [p6, self.p7(functional.relu(p6))]


class FeaturePyramid(nn.Module):
    """Top-down pathway with lateral connections, and the two coarsest levels.

    Args:
        in_channels: channels of the backbone's maps, finest first.
    """

    def __init__(self, in_channels: Sequence[int]) -> None:
        super().__init__()
        # Each convolution is in a Sequential, for torchvision's state-dict names.
        self.inner_blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, CHANNELS, 1)) for channels in in_channels
        )
        self.layer_blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)) for _ in in_channels
        )
        self.extra_blocks = CoarsestLevels()
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and module.bias is not None:
                nn.init.kaiming_uniform_(module.weight, a=1)
                nn.init.zeros_(module.bias)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Return the levels [B, 256, H_l, W_l], finest first, of the backbone's maps."""
        inner = [block(features) for block, features in zip(self.inner_blocks, maps, strict=True)]
        for level in range(len(inner) - 2, -1, -1):
            size = inner[level].shape[-2:]
            inner[level] = inner[level] + functional.interpolate(inner[level + 1], size)
        levels = [block(x) for block, x in zip(self.layer_blocks, inner, strict=True)]
        return [*levels, *self.extra_blocks(levels[-1])]
