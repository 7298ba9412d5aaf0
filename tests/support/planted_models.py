"""Real training workloads with a planted fault; a worker builds `MODULE:WORKLOAD__FAULT`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from controller.contracts.base import Scalar
from models.language import EncoderTraining
from models.resnet import Resnet50Training
from models.retinanet.implementations import retinanet_training
from models.training import TrainingWorkload

REAL: dict[str, Callable[..., TrainingWorkload[Any, Any]]] = {
    "retinanet_resnext50": retinanet_training,
    "resnet50": Resnet50Training,
    "transformer_encoder": EncoderTraining,
}
ONE_OF = 3
"""Of so many products, one is changed where not all are."""
SLEEP_S = 0.3
WAYS = 8
"""How often an input is converted there and back: enough to be felt where tensors are small."""


def _products(model: nn.Module) -> list[nn.Module]:
    return [one for one in model.modules() if isinstance(one, nn.Conv2d | nn.Linear)]


def _reordered(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    there: Tensor = inputs[0]
    for _way in range(WAYS):
        there = there.to_mkldnn().to_dense()
    return (there, *inputs[1:])


def reorder(model: nn.Module) -> None:
    """Have every product's input converted into a layout of oneDNN's and back."""
    for module in _products(model):
        module.register_forward_pre_hook(_reordered)


def island(model: nn.Module) -> None:
    """Have a part of the products computed in fp32 under autocast."""
    for module in _products(model)[::ONE_OF]:
        module.forward = partial(_in_fp32, module.forward)


def _in_fp32(forward: Callable[[Tensor], Tensor], given: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return forward(given.float())


def denormals(model: nn.Module) -> None:
    """Have weights of a part of the products too small for all of their digits.

    Their gradients are, too, or Adam's first step would make normal numbers of them.
    """
    for module in _products(model)[::ONE_OF]:
        weights = next(module.parameters())
        with torch.no_grad():
            weights.mul_(1e-40)
        if weights.requires_grad:
            shrunk = partial(torch.mul, other=1e-42)
            weights.register_hook(shrunk)  # type: ignore[no-untyped-call]  # torch's


def _nothing(_: nn.Module) -> None:
    return


PLANTED = {"reorder": reorder, "island": island, "denormals": denormals}
"""Faults of a model."""


class Planted:
    """A TrainingWorkload with a fault."""

    def __init__(self, real: TrainingWorkload[Any, Any], fault: str) -> None:
        self._real, self._fault = real, fault

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def build_model(self) -> nn.Module:
        model: nn.Module = self._real.build_model()
        PLANTED.get(self._fault, _nothing)(model)
        return model

    def batch(self, step: int) -> object:
        if self._fault == "loader":
            time.sleep(SLEEP_S)
        return self._real.batch(step)


def _planted(workload: str, fault: str, **knobs: Scalar) -> Planted:
    return Planted(REAL[workload](**knobs), fault)


def __getattr__(name: str) -> Callable[..., Planted]:
    workload, is_one, fault = name.partition("__")
    if not is_one or workload not in REAL:
        raise AttributeError(name)
    return partial(_planted, workload, fault)
