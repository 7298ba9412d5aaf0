"""The shapes of layers' inputs, for which ipex.optimize lays weights out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.training import Batch, Outputs, TrainingWorkload

PACKED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d)
"""Layers whose weights ipex.optimize lays out for their input."""
NOTED = "input_shape"
"""The attribute of a layer in which it looks for the shape."""


def note_input_shapes(workload: TrainingWorkload[Batch, Outputs], model: nn.Module) -> None:
    """Note on each layer the shape of its input in a step; of several, the largest.

    ipex.optimize lays weights out for it. Without, it guesses one, and each call whose input wants
    another layout lays them out again: two thirds of a step on an EPYC without AVX-512. A
    `sample_input` does the same, but for models in eval mode, and the last of several shapes.
    """

    def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        shape = inputs[0].shape
        if shape.numel() > getattr(layer, NOTED, torch.Size((0,))).numel():
            setattr(layer, NOTED, shape)

    layers = [layer for layer in model.modules() if type(layer) in PACKED]
    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        workload.forward(model, workload.batch(0))
        for buffer, before in buffers:  # the statistics of norms
            buffer.copy_(before)
    for hook in hooks:
        hook.remove()
