"""Stock PyTorch, eager: the stack every other one is compared with."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping

import torch

from agents.backends.torch_eager.config import TorchConfig
from controller.contracts.base import Scalar
from controller.contracts.result import Environment
from models.training import Batch, Outputs, TrainingWorkload


class TorchEager:
    """A TrainingBackend."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        self._config = TorchConfig.from_knobs(knobs)
        # The launcher set OMP_NUM_THREADS; torch must not think better of it.
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        """See TrainingBackend.prepare."""
        if self._config.memory_format == "channels_last":
            # torch types the keyword too narrowly.
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model

    def step(
        self,
        workload: TrainingWorkload[Batch, Outputs],
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
    ) -> float:
        """See TrainingBackend.step."""
        optimizer.zero_grad(set_to_none=True)
        bf16 = self._config.precision == "bf16"
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            outputs = workload.forward(model, batch)
        loss = workload.loss(outputs, batch)
        torch.autograd.backward(loss)
        optimizer.step()
        return loss.item()

    def environment(self) -> Environment:
        """See TrainingBackend.environment."""
        return {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "onednn": _onednn_version(),
            "torch_isa": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "affinity": tuple(sorted(os.sched_getaffinity(0))),
            "glibc_tunables": os.environ.get("GLIBC_TUNABLES", ""),
        }


def _onednn_version() -> str | None:
    found = re.search(r"MKL-DNN v([0-9.]+)", torch.__config__.show())
    return found.group(1) if found else None
