"""PyTorch with its compiler: the model's forward and backward pass as inductor's C++."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import Module
from torch.optim import Optimizer

from agents.backends.torch_eager.backend import TorchEager
from agents.stacks.compiler import MISSING, compiler
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Environment, Failure
from models.training import Batch, Outputs, TrainingWorkload


class TorchCompile(TorchEager):
    """A TrainingBackend; raises WorkerFault, blame user, without a C++ compiler.

    The loss and the optimizer's step stay eager: the loss has another shape for each image, and its
    compilation with dynamic shapes crashes on torch 2.13.
    """

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        super().__init__(knobs)
        self._compiler = compiler()
        if self._compiler is None:
            message = f"stack torch-compile: {MISSING}"
            raise WorkerFault(Failure(blame=Blame.USER, kind="no_compiler", message=message))

    def prepare(self, workload: TrainingWorkload[Batch, Outputs]) -> tuple[Module, Optimizer]:
        """See TrainingBackend.prepare; the first step compiles."""
        model, optimizer = super().prepare(workload)
        # It is a module, torch just doesn't say so.
        compiled: Module = torch.compile(model, dynamic=False)  # type: ignore[assignment]
        return compiled, optimizer

    def environment(self) -> Environment:
        """See TrainingBackend.environment."""
        return {**super().environment(), "cxx": self._compiler}
