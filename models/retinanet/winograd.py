"""The heads' 3x3 convolutions by Winograd's algorithm: `winograd` of `head_convolutions`."""

from __future__ import annotations

from torch import Tensor

from models.retinanet.rows import RowConv2d, Sizes


class WinogradConv2d(RowConv2d):
    """A 3x3 convolution by `kernels.winograd_convolution`, which transforms weights in fp32."""

    def forward(self, x: Tensor, sizes: Sizes, relu: bool = False) -> Tensor:
        """Map x [B, cells, in] to [B, cells, out], with a ReLU if told."""
        from kernels.ops.winograd_convolution import winograd_convolution

        return winograd_convolution(x, sizes, self.weight, self.bias, relu)
