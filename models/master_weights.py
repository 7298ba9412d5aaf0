"""Weights that layers hold in bf16, with their fp32 masters in the optimizer.

Under autocast a layer rounds its fp32 weight to bf16 in each step, and its gradient, which is
computed in bf16, is converted back. Held in bf16, weight and gradient are the same numbers, and no
step converts them: the optimizer rounds the weight as it writes the master (Micikevicius et al.
2018, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from models.optimizers import BETAS, FusedAdam, memory_order

ROUNDS_WEIGHTS = "rounds_weights"
"""Attribute of a module that converts its weights to the dtype of autocast, as torch's own
convolutions and linear layers do."""
ROUNDING = (nn.modules.conv._ConvNd, nn.Linear)


def with_masters(model: nn.Module, optimizer: Optimizer) -> Optimizer:
    """Hold all weights in bf16 that layers round in each step; return the optimizer of masters.

    Raises ValueError for any optimizer but a fused Adam with one group of parameters.
    """
    if not isinstance(optimizer, FusedAdam) or len(optimizer.param_groups) != 1:
        raise ValueError("only a fused Adam keeps masters of weights in bf16")
    (group,) = optimizer.param_groups
    masters = {parameter: parameter.detach() for parameter in group["params"]}
    for parameter in rounded_weights(model):
        parameter.data = parameter.data.bfloat16()
    return MasterAdam(masters, group["lr"])


def rounded_weights(model: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the weights in fp32 that no layer uses but rounded."""
    uses: dict[nn.Parameter, bool] = {}
    for module in model.modules():
        rounds = isinstance(module, ROUNDING) or getattr(module, ROUNDS_WEIGHTS, False)
        for parameter in module.parameters(recurse=False):
            uses[parameter] = uses.get(parameter, True) and rounds
    yield from (p for p, rounds in uses.items() if rounds and p.dtype == torch.float32)


class MasterAdam(Optimizer):
    """Adam on masters of parameters, all of them in one pass (`kernels.adam_step`).

    Args:
        masters: of each parameter, fp32 and laid out as it is; its own memory if it is fp32.
        learning_rate: its first; a schedule may set that of the only group.
    """

    def __init__(self, masters: Mapping[Tensor, Tensor], learning_rate: float) -> None:
        super().__init__(masters, {"lr": learning_rate})
        for parameter, master in masters.items():
            order = memory_order(parameter)
            kept = master.permute(order)
            moments = torch.zeros_like(kept), torch.zeros_like(kept)
            weight = kept if parameter.dtype == kept.dtype else parameter.detach().permute(order)
            self.state[parameter] = {"step": 0, "order": order, "kept": (weight, kept, *moments)}

    def __getstate__(self) -> NoReturn:
        """Raise TypeError: a copy, also a pickled one, would train weights that no model has."""
        raise TypeError("MasterAdam belongs to its model's weights: it can't be copied or pickled")

    def load_state_dict(self, state_dict: dict[str, Any]) -> NoReturn:
        """Raise TypeError: the moments would come with weights and masters of their own."""
        raise TypeError("MasterAdam belongs to its model's weights: it can't load another's state")

    def master(self, parameter: Tensor) -> Tensor:
        """Return a parameter's fp32 master, with its dimensions in their own order."""
        state = self.state[parameter]
        order: list[int] = state["order"]
        kept: Tensor = state["kept"][1]
        return kept.permute([order.index(k) for k in range(len(order))])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        from kernels.ops.adam_step import adam_step

        (group,) = self.param_groups
        updates: dict[int, list[tuple[Tensor, ...]]] = {}  # by the number of their step
        for parameter in group["params"]:
            if parameter.grad is not None:
                state = self.state[parameter]
                state["step"] += 1
                weight, *kept = state["kept"]
                gradient = parameter.grad.permute(state["order"]).contiguous()
                updates.setdefault(state["step"], []).append((weight, gradient, *kept))
        for step, tensors in updates.items():
            lists = zip(*tensors, strict=True)
            adam_step(*lists, step=step, learning_rate=group["lr"], betas=BETAS)
