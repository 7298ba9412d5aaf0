"""PyTorch with torch.compile: the model's forward and backward pass as inductor's C++."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from agents.backends.torch_eager.backend import TorchEager
from agents.host.compiler import require_compiler
from controller.contracts.base import Scalar
from controller.contracts.result import Environment
from models.inference import InferenceWorkload
from models.training import Batch, Outputs, TrainingWorkload


class TorchCompile(TorchEager):
    """A TrainingBackend and an InferenceBackend; raises WorkerFault, blame user, without a C++
    compiler.

    The loss and the optimizer's step stay eager: the loss has a different shape for each image, and
    compiling it with dynamic shapes crashes on torch 2.13.
    """

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        super().__init__(knobs)
        self._compiler = require_compiler("stack torch-compile")

    def prepare(self, workload: TrainingWorkload[Batch, Outputs]) -> tuple[Module, Optimizer]:
        """See TrainingBackend.prepare; the first step compiles."""
        model, optimizer = super().prepare(workload)
        return _compiled(model), optimizer

    def prepare_inference(self, workload: InferenceWorkload[Outputs], samples: Tensor) -> Module:
        """See InferenceBackend.prepare_inference; the first batch of each size compiles."""
        return _compiled(super().prepare_inference(workload, samples))

    def environment(self) -> Environment:
        """See TrainingBackend.environment."""
        return {**super().environment(), "cxx": self._compiler}


def _compiled(model: Module) -> Module:
    # It is a module, though torch's types don't say so.
    compiled: Module = torch.compile(model, dynamic=False)  # type: ignore[assignment]
    return compiled
