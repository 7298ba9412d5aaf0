"""The interface of training workloads whose models are scored while they train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from controller.contracts.mobile import OutputKind
from models.training import Batch, Outputs, TrainingWorkload

if TYPE_CHECKING:
    import torch


SCORER: Final = "pycocotools"
"""What mAP needs and a separate environment may not have."""


class EvaluatedWorkload(TrainingWorkload[Batch, Outputs], Protocol[Batch, Outputs]):
    """A training workload with a schedule, a set to be scored on, and its truth."""

    @property
    def epoch_steps(self) -> int:
        """Steps of one pass over the training set."""
        ...

    @property
    def output(self) -> OutputKind:
        """How the answers are scored, see `models.mobile.metrics.score`."""
        ...

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        ...

    def samples(self, count: int) -> torch.Tensor:
        """Return the first `count` inputs to be scored on, [count, …] fp32."""
        ...

    def truths(self) -> Sequence[Any]:
        """Return the truth of each of them, as the metric takes it."""
        ...

    def arguments(self, samples: torch.Tensor) -> tuple[object, ...]:
        """Return what the model is called with for samples [B, …]."""
        ...

    def answers(self, outputs: Outputs) -> Sequence[torch.Tensor]:
        """Return the answer for each sample, fp32, as the metric takes it."""
        ...

    def weights(self, learnt: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return all tensors of a checkpoint that the workload can begin with.

        learnt: what a model of the workload has learnt, by the names of its parameters.
        """
        ...
