"""Replay of single layers: a workload of one layer, for any stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from agents.backends.protocol import TrainingBackend
from controller.contracts.base import Scalar
from controller.contracts.replay import LayerReplay

KNOBS: Mapping[str, Scalar] = {"ipex_frozen_bn": False, "master_weights": False}
"""Knobs of stacks for features that a single layer lacks."""
_CONVOLUTIONS: tuple[Callable[..., nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_SPATIAL = ("d", "h", "w")


def layer_call(task: LayerReplay, backend: TrainingBackend) -> Callable[[], object]:
    """Return a training step of a layer; raises KeyError for unknown sizes or types."""
    workload = LayerWorkload(task)
    model, optimizer = backend.prepare(workload)
    batch = workload.batch(1)
    return lambda: backend.step(workload, model, optimizer, batch)


class Layer(nn.Module):
    """A layer, and a parameter beside it that gives every loss a gradient."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.anchor = nn.Parameter(torch.zeros(()))

    def forward(self, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the layer's output, and zero."""
        found: torch.Tensor = self.layer(given)
        return found, self.anchor


class LayerWorkload:
    """A TrainingWorkload of one layer, with a fixed input and a fixed gradient of the output.

    Batch 0 is the layer's largest input in the model, for stacks that pack weights by it; all
    others are of the size to be replayed.
    """

    def __init__(self, task: LayerReplay) -> None:
        self._task = task
        self._axes = [axis for axis in _SPATIAL if f"i{axis}" in task.parameters]
        self.batch_size = task.parameters["mb"]
        self._gradient: torch.Tensor | None = None

    def build_model(self) -> nn.Module:
        """See TrainingWorkload.build_model."""
        torch.manual_seed(0)
        convolves = self._task.kind == "convolution"
        layer = self._convolution() if convolves else self._linear()
        for weights in layer.parameters():
            weights.requires_grad_(self._task.learns)
        return Layer(layer)

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """See TrainingWorkload.build_optimizer."""
        return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-6)

    def batch(self, step: int) -> torch.Tensor:
        """See TrainingWorkload.batch."""
        p = self._task.parameters | (self._task.largest if step == 0 else {})
        sizes = (p["mb"], p["ic"], *(p[f"i{axis}"] for axis in self._axes))
        data = torch.randn(sizes, generator=torch.Generator().manual_seed(step))
        if self._task.kind == "inner_product":
            data = data.flatten(1)
        if self._task.channels_last and data.dim() in _CHANNELS_LAST:
            data = data.contiguous(memory_format=_CHANNELS_LAST[data.dim()])
        return data.to(_DTYPES[self._task.dtype])

    def forward(self, model: nn.Module, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See TrainingWorkload.forward."""
        given = batch.detach().requires_grad_(self._task.passes_back)
        outputs: tuple[torch.Tensor, torch.Tensor] = model(given)
        return outputs

    def loss(self, outputs: tuple[torch.Tensor, torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        """See TrainingWorkload.loss."""
        found, anchor = outputs
        if self._gradient is None:
            self._gradient = torch.full_like(found, 1e-3)
        return (found * self._gradient).sum().float() + anchor

    def _convolution(self) -> nn.Module:
        p, axes = self._task.parameters, self._axes
        return _CONVOLUTIONS[len(axes) - 1](
            p["ic"],
            p["oc"],
            tuple(p[f"k{axis}"] for axis in axes),
            stride=tuple(p[f"s{axis}"] for axis in axes),
            padding=tuple(p[f"p{axis}"] for axis in axes),
            # oneDNN counts dilation from 0.
            dilation=tuple(p.get(f"d{axis}", 0) + 1 for axis in axes),
            groups=p.get("g", 1),
            bias=self._task.bias,
        )

    def _linear(self) -> nn.Module:
        p = self._task.parameters
        inputs = p["ic"]
        for axis in self._axes:
            inputs *= p[f"i{axis}"]
        return nn.Linear(inputs, p["oc"], bias=self._task.bias)
