"""`python -m tests.support.replaced_step FOLDER`: trace.json of a stack with a step of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from agents.backends.torch_eager.backend import TorchEager
from agents.profiling.capture import capture
from models.training import Batch, Outputs, TrainingWorkload
from tests.support.profiled_model import KNOBS, Workload


class ReplacesTheStep(TorchEager):
    """Puts a function of its own in place of the optimizer's step, as ipex.optimize does."""

    def prepare(
        self, workload: TrainingWorkload[Batch, Outputs]
    ) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model, optimizer = super().prepare(workload)

        @torch.no_grad()
        def step() -> None:
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.addcmul_(parameter.grad, torch.full_like(parameter, -0.01))

        optimizer.step = step  # type: ignore[method-assign, assignment]
        return model, optimizer


if __name__ == "__main__":
    capture(Workload(), ReplacesTheStep(KNOBS), KNOBS, Path(sys.argv[1]), lambda _: None)
