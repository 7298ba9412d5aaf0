"""Training workloads and a backend small enough for tests, with every way to go wrong."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch

from controller.contracts.base import Scalar
from controller.contracts.result import Environment
from models.training import Batch, Outputs, TrainingWorkload


def losses_on_one_batch(
    workload: TrainingWorkload[Batch, Outputs], model: torch.nn.Module, steps: int
) -> list[float]:
    """Train on the first batch alone; return the loss of each step."""
    optimizer = workload.build_optimizer(model)
    batch = workload.batch(0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = workload.loss(workload.forward(model, batch), batch)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


class Line:
    """Fits y = 2x with one weight; from `nan_from` on, its loss is not a number."""

    def __init__(self, batch_size: int = 4, nan_from: int | None = None) -> None:
        self.batch_size = batch_size
        self._nan_from = nan_from
        self.asked_for: list[int] = []

    def build_model(self) -> torch.nn.Module:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        return model

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def batch(self, step: int) -> torch.Tensor:
        self.asked_for.append(step)
        return torch.ones(self.batch_size, 1)

    def forward(self, model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = model(batch)
        return outputs

    def loss(self, outputs: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        if self._nan_from is not None and len(self.asked_for) > self._nan_from:
            return outputs.sum() * math.nan
        return torch.nn.functional.mse_loss(outputs, 2 * batch)


class Stuck(Line):
    """Starts a child, says so and never gets further."""

    def build_model(self) -> torch.nn.Module:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        sys.stderr.write(f"{child.pid}\n")
        sys.stderr.flush()
        time.sleep(600)
        raise AssertionError("nobody ended this worker")


class Talkative(Line):
    """Prints where only messages belong, as libraries do."""

    def build_model(self) -> torch.nn.Module:
        sys.stdout.write("Loading weights …\n")
        sys.stdout.flush()
        os.write(1, b"from native code\n")
        return super().build_model()


class Broken(Line):
    """Can't be built."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def build_model(self) -> torch.nn.Module:
        raise ValueError(f"it is\n{self._how}")


class Scored(Line):
    """Gives up, and says how soon the kernel would have ended it for memory: 1000 is first."""

    def build_model(self) -> torch.nn.Module:
        raise ValueError(Path("/proc/self/oom_score_adj").read_text())


class Plain:
    """A TrainingBackend that does nothing but train."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        self.knobs = knobs

    def prepare(
        self, workload: TrainingWorkload[Batch, Outputs]
    ) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = workload.build_model()
        return model, workload.build_optimizer(model)

    def step(
        self,
        workload: TrainingWorkload[Batch, Outputs],
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
    ) -> float:
        optimizer.zero_grad()
        loss = workload.loss(workload.forward(model, batch), batch)
        torch.autograd.backward(loss)
        optimizer.step()
        return loss.item()

    def environment(self) -> Environment:
        return {"backend": "plain"}


class Greedy(Line):
    """Asks for a petabyte, which no host has."""

    def build_model(self) -> torch.nn.Module:
        torch.empty(2**50, dtype=torch.uint8)
        return super().build_model()


class Large(Line):
    """Holds 64 MiB that are in use."""

    def build_model(self) -> torch.nn.Module:
        self.held = torch.ones(2**24)
        return super().build_model()
