"""The interfaces of stacks that train, and of those whose models answer queries, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from controller.contracts.result import Environment
from models.inference import InferenceWorkload
from models.training import Batch, Outputs, TrainingWorkload

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer


class TrainingBackend(Protocol):
    """A software stack that trains; built once a run from the cell's knobs."""

    def prepare(self, workload: TrainingWorkload[Batch, Outputs]) -> tuple[Module, Optimizer]:
        """Build model and optimizer in this stack's form; called once, first."""
        ...

    def step(
        self,
        workload: TrainingWorkload[Batch, Outputs],
        model: Module,
        optimizer: Optimizer,
        batch: Batch,
    ) -> float:
        """Do one whole training step and return its loss; called once a step, and timed."""
        ...

    def environment(self) -> Environment:
        """Return versions, instruction set and threads; called once, after the steps."""
        ...


@runtime_checkable
class OwnGradients(Protocol):
    """A stack that lays out weights, and so gradients, in a form of its own."""

    def gradient(self, optimizer: Optimizer, parameter: Tensor) -> Tensor | None:
        """Return a parameter's gradient as the workload's own model would have it."""
        ...


@runtime_checkable
class InferenceBackend(Protocol):
    """A software stack that runs models without training them; built once a run."""

    def prepare_inference(self, workload: InferenceWorkload[Outputs], samples: Tensor) -> Module:
        """Build the model in this stack's form, in evaluation mode; called once, first.

        samples: as many as are mostly computed at once; a stack may lay weights out for them.
        """
        ...

    def infer(
        self, workload: InferenceWorkload[Outputs], model: Module, samples: Tensor
    ) -> Sequence[Tensor]:
        """Return the answer for each sample; called once a batch, by any thread, and timed."""
        ...

    def environment(self) -> Environment:
        """Return versions, instruction set and threads; called once, after the warm-up."""
        ...
