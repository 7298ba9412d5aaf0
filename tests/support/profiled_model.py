"""`python -m tests.support.profiled_model FOLDER [STACK]`: a step, whole and module by module.

The model has what makes matching hard: one head shared by three levels of sizes, two equal blocks,
and a linear layer. Writes trace.json and verbose.log of whole steps as a profiling worker does, and
alone.log: oneDNN's lines when each module runs alone, forward and backward, on the inputs and
gradients that it had in the step. alone.json says which bytes of that log are whose; they are not
read here, as a stack's interpreter lacks what reads logs. packed.json has the shapes of inputs for
which stack ipex has packed weights, by module.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from agents.backends.protocol import TrainingBackend
from agents.profiling.capture import capture, enable_onednn_verbose, flush
from agents.stacks.resolving import resolve
from controller.contracts.base import Scalar

BACKENDS = {
    "torch": "agents.backends.torch_eager.backend:TorchEager",
    "ipex": "agents.backends.ipex.backend:Ipex",
}
KNOBS: dict[str, Scalar] = {
    "precision": "fp32",
    "memory_format": "contiguous",
    "ipex_optimize": True,
    "ipex_frozen_bn": False,
    "warmup_steps": 1,
    "steps": 2,
    "policy": "ci",
}


PACKED = "packed.json"


class Net(nn.Module):
    """Two equal blocks, three levels, one head for all of them, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, groups=4) for _ in range(2))
        self.down = nn.ModuleList(nn.Conv2d(16, 16, 3, stride=2, padding=1) for _ in range(2))
        self.head = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 1))
        self.classifier = nn.Linear(8, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        level = self.stem(images)
        for block in self.blocks:
            level = torch.relu(block(level))
        levels = [level]
        for down in self.down:
            levels.append(down(levels[-1]))
        found: torch.Tensor = sum(self.classifier(self.head(one).mean((2, 3))) for one in levels)
        return found


class Workload:
    """Net as a training workload."""

    batch_size = 2

    def build_model(self) -> nn.Module:
        torch.manual_seed(0)
        return Net()

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.01)

    def batch(self, step: int) -> torch.Tensor:
        return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(step))

    def forward(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = model(batch)
        return outputs

    def loss(self, outputs: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return outputs.square().mean()


class Recorder:
    """Keeps what each leaf module was given and what gradient came back, call by call."""

    def __init__(self, model: nn.Module) -> None:
        self.calls: list[tuple[str, nn.Module, torch.Tensor, dict[str, torch.Tensor]]] = []
        # By name: a stack may have put modules of its own in their place.
        leaves = {n for n, m in Net().named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}
        for name, module in model.named_modules():
            if name in leaves:
                module.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:  # noqa: ANN401 - torch's hooks have no type
        def hook(module: nn.Module, given: Any, output: torch.Tensor) -> None:  # noqa: ANN401
            gradient: dict[str, torch.Tensor] = {}
            keep = partial(_keep, gradient)
            output.register_hook(keep)  # type: ignore[no-untyped-call]
            self.calls.append((name, module, given[0].detach(), gradient))

        return hook


def _keep(place: dict[str, torch.Tensor], gradient: torch.Tensor) -> None:
    place["grad"] = gradient.detach()


def run_alone(
    log: Path, workload: Workload, backend: TrainingBackend
) -> list[tuple[str, int, int]]:
    """Run every call of every leaf module alone; return phase and module, and its part of `log`."""
    model, _ = backend.prepare(workload)
    (log.parent / PACKED).write_text(json.dumps(packed_for(model)))
    recorder = Recorder(model)
    batch = workload.batch(0)
    torch.autograd.backward(workload.loss(workload.forward(model, batch), batch))
    spans: list[tuple[str, int, int]] = []
    for name, module, given, gradient in list(recorder.calls):
        alone = given.clone(memory_format=torch.preserve_format)
        # The first convolution's input is data, which needs no gradient.
        alone.requires_grad_(name != "stem")
        for child in module.modules():
            child._forward_hooks.clear()
        start = _size(log)
        output = module(alone)
        middle = _size(log)
        output.backward(gradient["grad"])
        spans += [(f"forward {name}", start, middle), (f"backward {name}", middle, _size(log))]
    return spans


def packed_for(model: nn.Module) -> dict[str, list[int]]:
    """Return the shapes for which weights were packed, by module."""
    found = ((name, getattr(one, "prepack_input_shape", ())) for name, one in model.named_modules())
    return {name: list(shape) for name, shape in found if shape}


def _size(log: Path) -> int:
    flush()
    return log.stat().st_size


def main(folder: Path, stack: str = "torch") -> None:
    """Write trace.json, verbose.log, alone.log, alone.json and packed.json."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    workload = Workload()
    backend = resolve(BACKENDS[stack])
    # First: telling its environment, which `watch` does last, leaves oneDNN silent.
    enable_onednn_verbose(folder / "alone.log")
    spans = run_alone(folder / "alone.log", workload, backend(KNOBS))
    (folder / "alone.json").write_text(json.dumps(spans))
    enable_onednn_verbose(folder / "verbose.log")
    capture(workload, backend(KNOBS), KNOBS, folder, lambda _: None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
