"""The mean of all ranks' gradients, in place of a rank's own."""

from __future__ import annotations

import time

import torch
from torch import Tensor, distributed
from torch.optim import Optimizer


class GradientMean:
    """Averages the gradients whenever an optimizer begins a step.

    All gradients are exchanged at once in fp32, after the backward pass: a rank's cores are busy
    until then, and what is exchanged meanwhile could not be told from it.

    Every parameter's gradient has to be there on all ranks or on none.
    """

    def __init__(self, optimizer: Optimizer, ranks: int) -> None:
        self._parameters: list[Tensor] = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
        ]
        self._ranks = ranks
        self._sum = torch.zeros(sum(parameter.numel() for parameter in self._parameters))
        self.steps = 0
        """How often it has averaged."""
        self.began_s = self.ended_s = 0.0
        """When it last did, by time.perf_counter."""
        optimizer.register_step_pre_hook(lambda *_: self._average())

    @torch.no_grad()
    def _average(self) -> None:
        self.began_s = time.perf_counter()
        learned = [p for p in self._parameters if p.grad is not None]
        places = self._sum.split([p.numel() for p in self._parameters])
        used = [
            place for p, place in zip(self._parameters, places, strict=True) if p.grad is not None
        ]
        # In the parameter's own order of dimensions, which all ranks share; gradients may differ.
        views = [
            place.as_strided(p.size(), p.stride()) for p, place in zip(learned, used, strict=True)
        ]
        for parameter, view in zip(learned, views, strict=True):
            view.copy_(parameter.grad)
        distributed.all_reduce(self._sum)
        self._sum /= self._ranks
        for parameter, view in zip(learned, views, strict=True):
            parameter.grad.copy_(view)
        self.steps += 1
        self.ended_s = time.perf_counter()
