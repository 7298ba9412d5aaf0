"""The interface of training stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controller.contracts.result import Environment
from models.training import Batch, Outputs, TrainingWorkload

if TYPE_CHECKING:
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
