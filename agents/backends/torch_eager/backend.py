"""Stock PyTorch in eager mode: the baseline of the other stacks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from agents.backends.denormals import flush_denormals
from agents.backends.environment import torch_environment
from agents.backends.torch_eager.config import TorchConfig
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Environment, Failure
from models.inference import InferenceWorkload
from models.master_weights import with_masters
from models.training import Batch, Outputs, TrainingWorkload


class TorchEager:
    """A TrainingBackend and an InferenceBackend."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        self._config = TorchConfig.from_knobs(knobs)
        # The launcher set OMP_NUM_THREADS; keep torch from choosing another number.
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        if self._config.flush_denormals:
            flush_denormals()

    def prepare(self, workload: TrainingWorkload[Batch, Outputs]) -> tuple[Module, Optimizer]:
        """See TrainingBackend.prepare."""
        model = self._laid_out(workload.build_model())
        optimizer = workload.build_optimizer(model)
        if self._config.master_weights and self._config.bf16:
            optimizer = _with_masters(model, optimizer)
        return model, optimizer

    def step(
        self,
        workload: TrainingWorkload[Batch, Outputs],
        model: Module,
        optimizer: Optimizer,
        batch: Batch,
    ) -> float:
        """See TrainingBackend.step."""
        optimizer.zero_grad(set_to_none=True)
        with self._precision():
            outputs = workload.forward(model, batch)
        loss = workload.loss(outputs, batch)
        torch.autograd.backward(loss)
        optimizer.step()
        return loss.item()

    def prepare_inference(self, workload: InferenceWorkload[Outputs], samples: Tensor) -> Module:
        """See InferenceBackend.prepare_inference."""
        return self._laid_out(workload.build_model()).eval()

    @torch.inference_mode()
    def infer(
        self, workload: InferenceWorkload[Outputs], model: Module, samples: Tensor
    ) -> Sequence[Tensor]:
        """See InferenceBackend.infer."""
        with self._precision():
            outputs: Outputs = model(*workload.arguments(samples))
        return workload.answers(outputs)

    def environment(self) -> Environment:
        """See TrainingBackend.environment."""
        return torch_environment()

    def _precision(self) -> torch.autocast:
        """Return the context of a forward pass."""
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._config.bf16)

    def _laid_out(self, model: Module) -> Module:
        """Return the model with its weights in the selected layout; activations follow."""
        if self._config.channels_last:
            # torch's type for the keyword is too narrow.
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model


def _with_masters(model: Module, optimizer: Optimizer) -> Optimizer:
    try:
        return with_masters(model, optimizer)
    except ValueError as error:
        message = (
            f"cannot apply master_weights: {error}. Set it to false, or choose a workload that has "
            "the knob fused_optimizer, set it to true, and optimizer to adam."
        )
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message)) from error
