"""Stacks that cheat, and an honest one, for a model whose answer takes HONEST_S by a clock that
they move themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn import Module

from controller.contracts.base import Scalar
from controller.contracts.result import Environment

HONEST_S: Final = 0.004
CHEAP_S: Final = 0.0004
MADE_UP: Final = 64


@dataclass(slots=True)
class SimulatedClock:
    """Seconds that only answers move."""

    now_s: float = 0.0


CLOCK: Final = SimulatedClock()


class Images:
    """An InferenceWorkload of small random images, of which it always makes the same."""

    batch_size = 2

    def build_model(self) -> Module:
        return torch.nn.Linear(16, 2)

    def samples(self, count: int) -> Tensor:
        return torch.rand(count, 16, generator=torch.Generator().manual_seed(count))

    def arguments(self, samples: Tensor) -> tuple[Tensor]:
        return (samples,)

    def answers(self, outputs: Tensor) -> Sequence[Tensor]:
        return list(outputs)


class Honest:
    """Computes each answer."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        self._calls = 0

    def prepare_inference(self, workload: Images, samples: Tensor) -> Module:
        return workload.build_model()

    def infer(self, workload: Images, model: Module, samples: Tensor) -> Sequence[Tensor]:
        self._calls += 1
        CLOCK.now_s += sum(self.cost_s(sample) for sample in samples)
        with torch.inference_mode():
            return workload.answers(model(*workload.arguments(samples)))

    def cost_s(self, sample: Tensor) -> float:
        return HONEST_S

    def environment(self) -> Environment:
        return {}


class Caching(Honest):
    """Keeps answers by a hash of the sample."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        super().__init__(knobs)
        self._seen: set[bytes] = set()

    def cost_s(self, sample: Tensor) -> float:
        key = sample.numpy().tobytes()
        is_known = key in self._seen
        self._seen.add(key)
        return CHEAP_S if is_known else HONEST_S


class Knowing(Caching):
    """Has a table of the answers to the samples that runs are made of."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        super().__init__(knobs)
        self._seen = {sample.numpy().tobytes() for sample in Images().samples(MADE_UP)}

    def cost_s(self, sample: Tensor) -> float:
        return CHEAP_S if sample.numpy().tobytes() in self._seen else HONEST_S


class SlowCold(Honest):
    """Takes three times as long for a while, as if clocks had to rise first."""

    def cost_s(self, sample: Tensor) -> float:
        return HONEST_S * (3 if self._calls <= 12 else 1)
