"""The interfaces of training workloads whose models can also be run under LoadGen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import torch

    from controller.contracts.mobile import OutputKind
    from controller.contracts.result import Environment

OutputsIn = TypeVar("OutputsIn", contravariant=True)


class InferenceWorkload(Protocol[OutputsIn]):
    """A model and samples for it; one instance serves one run."""

    @property
    def batch_size(self) -> int:
        """Most samples that are computed at once in scenarios whose queries have several."""
        ...

    def build_model(self) -> torch.nn.Module:
        """Return the model with seeded weights, fp32, in any mode; called once."""
        ...

    def samples(self, count: int) -> torch.Tensor:
        """Return [count, …] fp32 inputs; the same count always gives the same ones."""
        ...

    def arguments(self, samples: torch.Tensor) -> tuple[object, ...]:
        """Return what the model is called with, in evaluation mode, for samples [B, …]."""
        ...

    def answers(self, outputs: OutputsIn) -> Sequence[torch.Tensor]:
        """Return the answer for each sample; called outside the precision context, and timed."""
        ...


@runtime_checkable
class ScoredWorkload(InferenceWorkload[OutputsIn], Protocol[OutputsIn]):
    """An InferenceWorkload whose answers can be scored, if its samples are not made up."""

    @property
    def output(self) -> OutputKind:
        """How the answers are scored, see `models.mobile.metrics.score`."""
        ...

    def truths(self) -> Sequence[Any]:
        """Return the truth of each sample, as the metric takes it; none: samples are made up.

        Raises DataUnusable.
        """
        ...

    def sample(self, number: int) -> torch.Tensor:
        """Return the sample of a truth, fp32; called before LoadGen's clock.

        Raises DataUnusable.
        """
        ...

    def data_facts(self) -> Environment:
        """Return facts of the samples that have truths; called once, after `truths`."""
        ...
