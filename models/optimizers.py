"""The optimizers that training workloads offer, each as torch operators and fused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

SGD_MOMENTUM = 0.9
BETAS = (0.9, 0.999)
LAMB_EPS = 1e-6
LAMB_WEIGHT_DECAY = 0.01


def build_optimizer(
    name: str, fused: bool, parameters: Iterable[Tensor], learning_rate: float
) -> Optimizer:
    """Return the optimizer `adam`, `sgd` or `lamb`; raises ValueError for another name.

    Not fused is a loop of operators over the parameters, torch's own default on a CPU; fused reads
    and writes each parameter and its state as few times as torch can. torch's fused kernels take
    gradients to lie in memory as their parameters do, which autograd sees to.
    """
    learning = list(parameters)
    match name:
        case "adam":
            return Adam(learning, learning_rate, BETAS, foreach=False, fused=fused)
        case "sgd":
            return SGD(learning, learning_rate, SGD_MOMENTUM, foreach=False, fused=fused)
        case "lamb":
            return FusedLamb(learning, learning_rate) if fused else Lamb(learning, learning_rate)
    raise ValueError(f"optimizer {name!r}: expected adam, sgd or lamb")


class Lamb(Optimizer):
    """LAMB (You et al. 2020, algorithm 2), by its definition: a loop over the parameters.

    The direction of a step is Adam's plus weight decay; its length is the learning rate times that
    of the parameter. Where parameter or direction is 0, the direction is taken as it is.
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
    """The same, with torch's fused Adam doing most of a step in one pass.

    Adam with learning rate 1 takes its step from -decay * parameter, and so leaves there the whole
    direction, negated.
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


def _move(parameter: Tensor, direction: Tensor, learning_rate: float) -> None:
    """Step against a direction, as far as LAMB's trust ratio says."""
    length, stride = (torch.linalg.vector_norm(x).item() for x in (parameter, direction))
    trust = length / stride if length > 0 and stride > 0 else 1.0
    parameter.add_(direction, alpha=-learning_rate * trust)
