"""Marks a training step's phases and the modules' forward passes in a trace.

torch.profiler itself marks the optimizer and autograd's engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic

import torch
from torch.nn import Module
from torch.profiler import record_function
from torch.utils.hooks import RemovableHandle

from controller.profiles.marks import MODULE, PHASE
from models.training import Batch, Outputs, TrainingWorkload


class PhasedWorkload(Generic[Batch, Outputs]):
    """A TrainingWorkload that marks the phases of another one."""

    def __init__(self, workload: TrainingWorkload[Batch, Outputs]) -> None:
        self._workload = workload
        self.batch_size = workload.batch_size

    def build_model(self) -> Module:
        """See TrainingWorkload.build_model."""
        return self._workload.build_model()

    def build_optimizer(self, model: Module) -> torch.optim.Optimizer:
        """See TrainingWorkload.build_optimizer."""
        return self._workload.build_optimizer(model)

    def batch(self, step: int) -> Batch:
        """See TrainingWorkload.batch."""
        with record_function(f"{PHASE}load"):
            return self._workload.batch(step)

    def forward(self, model: Module, batch: Batch) -> Outputs:
        """See TrainingWorkload.forward."""
        with record_function(f"{PHASE}forward"):
            return self._workload.forward(model, batch)

    def loss(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        """See TrainingWorkload.loss."""
        with record_function(f"{PHASE}loss"):
            return self._workload.loss(outputs, batch)


@contextmanager
def modules_marked(model: Module) -> Iterator[None]:
    """Mark the forward pass of every module; a compiled model is marked only as a whole."""
    open_marks: list[record_function] = []
    handles: list[RemovableHandle] = []

    def begin(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:  # noqa: ANN401 - whatever the module is given
            mark = record_function(f"{MODULE}{name}")
            mark.__enter__()  # type: ignore[no-untyped-call]
            open_marks.append(mark)

        return hook

    def end(*_: Any) -> None:  # noqa: ANN401 - as above
        open_marks.pop().__exit__(None, None, None)

    compiled = hasattr(model, "_orig_mod")
    named = [("", model)] if compiled else list(model.named_modules())
    for path, module in named:
        name = path or type(getattr(model, "_orig_mod", model)).__name__
        handles.append(module.register_forward_pre_hook(begin(name)))
        handles.append(module.register_forward_hook(end, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
