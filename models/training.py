"""The interface of training workloads for the training scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import torch

    from controller.contracts.result import Environment

Batch = TypeVar("Batch")
Outputs = TypeVar("Outputs")


class TrainingWorkload(Protocol[Batch, Outputs]):
    """A model and everything that a training step needs; one instance serves one run."""

    @property
    def batch_size(self) -> int:
        """Images (samples) in one batch; read after the run to turn step time into throughput."""
        ...

    def build_model(self) -> torch.nn.Module:
        """Return the model with seeded weights, fp32, in training mode; called once."""
        ...

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of the model; called once, when the weights' layout is final."""
        ...

    def batch(self, step: int) -> Batch:
        """Return the batch of a step; the same step always gives the same batch."""
        ...

    def forward(self, model: torch.nn.Module, batch: Batch) -> Outputs:
        """Run the model; called once a step inside the backend's precision context."""
        ...

    def loss(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        """Return the scalar fp32 loss to differentiate; called outside the precision context."""
        ...


class SharedWorkload(TrainingWorkload[Batch, Outputs], Protocol[Batch, Outputs]):
    """A workload whose batches several processes can share; its loss is a mean over samples.

    If it can't train on a single sample, its class says `LEAST_SHARE`: the fewest of a process.
    """

    def share(self, batch: Batch, rank: int, ranks: int) -> Batch:
        """Return every `ranks`-th part of a batch, counted from 0; called once a step.

        ranks: a divisor of the batch's size.
        """
        ...


@runtime_checkable
class Loader(Protocol):
    """What reads the batches of a workload from files while it trains."""

    @property
    def workers(self) -> int:
        """Processes that load ahead, each a batch at a time; 0: the one that trains loads."""
        ...

    @property
    def ahead(self) -> int:
        """Batches that they may have loaded before anybody asks."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds that its own processes have used so far."""
        ...

    def facts(self) -> Environment:
        """Return facts of what was loaded; called once, at the end."""
        ...


class ReadingWorkload(TrainingWorkload[Batch, Outputs], Protocol[Batch, Outputs]):
    """A workload that may read its batches while it trains: then the wait is part of a step."""

    @property
    def loader(self) -> Loader | None:
        """None: its batches are in memory."""
        ...


def loader_of(workload: object) -> Loader | None:
    """Return what reads a workload's batches from files; None if they are in memory.

    Raises TypeError for a loader that lacks a part of Loader.
    """
    found: object = getattr(workload, "loader", None)
    if found is None or isinstance(found, Loader):
        return found
    missing = [
        name for name in vars(Loader) if name[0] != "_" and getattr(found, name, None) is None
    ]
    raise TypeError(f"{type(found).__qualname__} is no Loader: it has no {', '.join(missing)}")
