"""The optimizers of training workloads, each as torch operators and fused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

SGD_MOMENTUM = 0.9
BETAS = (0.9, 0.999)
LAMB_EPS = 1e-6
LAMB_WEIGHT_DECAY = 0.01
Build = Callable[[list[Tensor]], Optimizer]


def build_optimizer(
    name: str, fused: bool, parameters: Iterable[Tensor], learning_rate: float
) -> Optimizer:
    """Return the optimizer `adam`, `sgd` or `lamb`; raises ValueError for another name.

    Unfused is a loop of operators over the parameters, torch's own default on a CPU; fused reads
    and writes each parameter and its state as few times as torch can.
    """
    learning = list(parameters)
    plain: Mapping[str, Build] = {
        "adam": partial(Adam, lr=learning_rate, betas=BETAS, foreach=False, fused=fused),
        "sgd": partial(SGD, lr=learning_rate, momentum=SGD_MOMENTUM, foreach=False, fused=fused),
        "lamb": partial(FusedLamb if fused else Lamb, learning_rate=learning_rate),
    }
    if name not in plain:
        raise ValueError(f"optimizer {name!r}: expected {', '.join(plain)}")
    if fused:
        kind = FusedAdam if name == "adam" else InMemoryOrder
        return kind(learning, plain[name], learning_rate)
    return plain[name](learning)


class InMemoryOrder(Optimizer):
    """A fused optimizer on views of the parameters in the order of their dimensions in memory.

    torch's fused kernels copy non-contiguous tensors to and fro, which takes longer than the step
    itself for channels-last weights, and read a gradient in the order of its parameter, whatever
    the gradient's own layout is.

    Args:
        parameters: any that are contiguous in some order of their dimensions.
        build: makes the fused optimizer.
        learning_rate: its first; a schedule may set that of the only group.
    """

    def __init__(self, parameters: Sequence[Tensor], build: Build, learning_rate: float) -> None:
        super().__init__(parameters, {"lr": learning_rate})
        self._build = build
        self._views: list[tuple[Tensor, Tensor, list[int]]] = []
        self._fused: Optimizer | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        if self._fused is None:
            # Not in the constructor, since the model's layout may still change after it.
            for parameter in (p for group in self.param_groups for p in group["params"]):
                order = memory_order(parameter)
                view = parameter.detach().permute(order).requires_grad_()
                self._views.append((parameter, view, order))
            self._fused = self._build([view for _, view, _ in self._views])
        for parameter, view, order in self._views:
            gradient = parameter.grad
            view.grad = None if gradient is None else gradient.permute(order).contiguous()
        self._fused.param_groups[0]["lr"] = self.param_groups[0]["lr"]
        self._fused.step()
        for _, view, _ in self._views:
            view.grad = None  # else it would outlive `zero_grad`, until the next step


class FusedAdam(InMemoryOrder):
    """torch's fused Adam. `models.master_weights` has one of weights in bf16."""


def memory_order(parameter: Tensor) -> list[int]:
    """Return the dimensions of a parameter as they follow each other in memory."""
    return sorted(range(parameter.dim()), key=parameter.stride, reverse=True)


class Lamb(Optimizer):
    """LAMB (You et al. 2020, algorithm 2), by its definition: a loop over the parameters.

    The direction of a step is Adam's plus weight decay; its length is the learning rate times the
    parameter's norm. If the norm of parameter or direction is 0, the direction is not rescaled.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float) -> None:
        super().__init__(parameters, {"lr": learning_rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _move(parameter, self._direction(parameter), group["lr"])

    def _direction(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            state |= {"step": 0, "mean": torch.zeros_like(parameter)}
            state["square"] = torch.zeros_like(parameter)
        state["step"] += 1
        mean, square = state["mean"], state["square"]
        gradient = parameter.grad
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        corrected_mean = mean / (1 - BETAS[0] ** state["step"])
        corrected_square = square / (1 - BETAS[1] ** state["step"])
        adam = corrected_mean / (corrected_square.sqrt() + LAMB_EPS)
        direction: Tensor = adam + LAMB_WEIGHT_DECAY * parameter
        return direction


class FusedLamb(Optimizer):
    """LAMB with torch's fused Adam doing most of a step in one pass.

    Adam with learning rate 1, applied to -decay * parameter, leaves the whole direction there,
    negated.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float) -> None:
        super().__init__(parameters, {"lr": learning_rate})
        learning = [p for group in self.param_groups for p in group["params"]]
        self._directions = {p: torch.zeros_like(p, requires_grad=True) for p in learning}
        self._adam = Adam(self._directions.values(), 1.0, BETAS, LAMB_EPS, fused=True)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for parameter, direction in self._directions.items():
            direction.grad = parameter.grad
            torch.mul(parameter, -LAMB_WEIGHT_DECAY, out=direction)
        self._adam.step()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _move(parameter, self._directions[parameter], -group["lr"])
        for direction in self._directions.values():
            direction.grad = None  # as above


def _move(parameter: Tensor, direction: Tensor, learning_rate: float) -> None:
    """Move a parameter against a direction, scaled by LAMB's trust ratio."""
    length, stride = (torch.linalg.vector_norm(x).item() for x in (parameter, direction))
    trust = length / stride if length > 0 and stride > 0 else 1.0
    parameter.add_(direction, alpha=-learning_rate * trust)
