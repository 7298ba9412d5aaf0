"""Phases of a training step, each inside a context of whoever watches: a trace's or a counter's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Generic

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from agents.backends.protocol import TrainingBackend
from agents.backends.stepping import OneProcess
from models.training import Batch, Outputs, TrainingWorkload, loader_of

Within = Callable[[str], AbstractContextManager[object]]
"""Phase → context that it runs in: load, forward, loss and optimizer. Backward is what is between
loss and optimizer."""


class PhasedProcess(OneProcess[Batch, Outputs]):
    """Training in this process whose phases run in contexts."""

    def __init__(
        self,
        workload: TrainingWorkload[Batch, Outputs],
        backend: TrainingBackend,
        within: Within,
    ) -> None:
        super().__init__(_PhasedWorkload(workload, within), backend)
        self._within = within

    def start(self) -> None:
        """See Stepping.start."""
        super().start()
        step, within = self._optimizer.step, self._within

        # On the object: stacks replace the method, and hooks of its class are then not called.
        @wraps(step)
        def phased(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever a stack hands in
            with within("optimizer"):
                return step(*given, **named)

        self._optimizer.step = phased  # type: ignore[method-assign]


class _PhasedWorkload(Generic[Batch, Outputs]):
    """A TrainingWorkload whose phases run in contexts."""

    def __init__(self, workload: TrainingWorkload[Batch, Outputs], within: Within) -> None:
        self._workload, self._within = workload, within
        self.batch_size, self.loader = workload.batch_size, loader_of(workload)

    def build_model(self) -> Module:
        """See TrainingWorkload.build_model."""
        return self._workload.build_model()

    def build_optimizer(self, model: Module) -> Optimizer:
        """See TrainingWorkload.build_optimizer."""
        return self._workload.build_optimizer(model)

    def batch(self, step: int) -> Batch:
        """See TrainingWorkload.batch."""
        with self._within("load"):
            return self._workload.batch(step)

    def forward(self, model: Module, batch: Batch) -> Outputs:
        """See TrainingWorkload.forward."""
        with self._within("forward"):
            return self._workload.forward(model, batch)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """See TrainingWorkload.loss."""
        with self._within("loss"):
            return self._workload.loss(outputs, batch)
