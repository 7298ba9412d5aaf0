"""The shapes of layers' inputs, for which ipex.optimize lays weights out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, distributed, nn

from models.training import Batch, Outputs, SharedWorkload, TrainingWorkload

SHAPED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)
"""Layers that ipex.optimize may look at for the shape of their input."""
NOTED = "input_shape"
"""The attribute in which it looks, as `record_input_shape_for_prepack` of IPEX 2.8 writes it."""


def note_input_shapes(workload: TrainingWorkload[Batch, Outputs], model: nn.Module) -> None:
    """Note on each layer the shape of its input in a step; of several, the largest.

    ipex.optimize lays weights out for it. Without, it guesses one, and each call whose input wants
    another layout lays them out again: two thirds of a step on an EPYC without AVX-512. Its own
    `sample_input` runs models in eval mode, and keeps the last of several shapes.

    Called inside the backend's precision context.
    """
    layers = [layer for layer in model.modules() if type(layer) in SHAPED and _pads_zeros(layer)]
    hooks = [layer.register_forward_pre_hook(_note) for layer in layers]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()), _kept_buffers(model):
            workload.forward(model, _first_batch(workload))
    finally:
        for hook in hooks:
            hook.remove()


def _first_batch(workload: TrainingWorkload[Batch, Outputs]) -> Batch:
    """Return the batch of the first step; in a rank, its share."""
    batch = workload.batch(0)
    if not distributed.is_initialized():
        return batch
    shared = cast("SharedWorkload[Batch, Outputs]", workload)
    return shared.share(batch, distributed.get_rank(), distributed.get_world_size())


def _pads_zeros(layer: nn.Module) -> bool:
    """Return whether a layer's convolution sees its input as it is given."""
    return getattr(layer, "padding_mode", "zeros") == "zeros"


def _note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    if not inputs:  # it was given by keyword
        return
    shape = inputs[0].shape
    if shape.numel() > getattr(layer, NOTED, torch.Size((0,))).numel():
        setattr(layer, NOTED, shape)


@contextmanager
def _kept_buffers(model: nn.Module) -> Iterator[None]:
    """Restore the statistics of norms at the end."""
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, before in buffers:
            buffer.copy_(before)
