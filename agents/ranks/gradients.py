"""The mean of all ranks' gradients, in place of a rank's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, distributed
from torch.optim import Optimizer

from agents.ranks.protocol import PEER
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure


@contextmanager
def exchanging() -> Iterator[None]:
    """Exchange with the other ranks in this context; raises WorkerFault if one is lost."""
    try:
        yield
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        message = f"a rank lost its connection to another one: {why}"
        raise WorkerFault(Failure(blame=Blame.HARNESS, kind=PEER, message=message)) from error


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
        self.exchanges = True
        """Whether it does; else each rank steps with its own gradients."""
        self._sum = torch.zeros(sum(parameter.numel() for parameter in self._parameters))
        self.steps = 0
        """How often it has averaged."""
        self.began_s = self.ended_s = 0.0
        """When it last did, by time.perf_counter."""
        optimizer.register_step_pre_hook(lambda *_: self._average())

    @torch.no_grad()
    def _average(self) -> None:
        self.began_s = time.perf_counter()
        if self.exchanges:
            self._exchange()
        self.steps += 1
        self.ended_s = time.perf_counter()

    def _exchange(self) -> None:
        pairs = list(self._gradients())
        for gradient, place in pairs:
            place.copy_(gradient)
        with exchanging():
            distributed.all_reduce(self._sum)
        self._sum /= self._ranks
        for gradient, place in pairs:
            gradient.copy_(place)

    def _gradients(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each gradient with its place in what is exchanged."""
        end = 0
        for parameter in self._parameters:
            begin, end = end, end + parameter.numel()
            if parameter.grad is not None:
                # In the order of the parameter's dimensions, which all ranks share.
                flat = self._sum[begin:end]
                yield (
                    parameter.grad,
                    flat.as_strided(parameter.size(), parameter.stride(), flat.storage_offset()),
                )
