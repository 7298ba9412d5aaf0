"""What trains, step by step: this process, or several that train together."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Protocol, runtime_checkable

from agents.backends.denormals import denormal_facts
from agents.backends.protocol import TrainingBackend
from controller.contracts.result import Environment, Measurement
from models.training import Batch, Outputs, TrainingWorkload, loader_of

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


@runtime_checkable
class Stepping(Protocol):
    """A model in training, for a scenario to drive."""

    @property
    def batch_size(self) -> int:
        """Samples in one batch, of all processes together."""
        ...

    def start(self) -> None:
        """Build the model; called once, first; raises WorkerFault."""
        ...

    def load(self, number: int) -> None:
        """Fetch the batch of a step; called before each step, and not timed unless it waits."""
        ...

    def step(self) -> float:
        """Do one whole step and return its loss; called once a step, and timed.

        Raises WorkerFault.
        """
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds that have been used so far; raises WorkerFault."""
        ...

    def peak_memory_bytes(self) -> int:
        """Return the peak resident memory; called once, after the steps."""
        ...

    def environment(self) -> Environment:
        """Return facts; called once, at the end."""
        ...


@runtime_checkable
class Waiting(Protocol):
    """A Stepping that may wait for its batches."""

    @property
    def waits(self) -> bool:
        """Whether batches are read while it trains, so that loading is a part of a step."""
        ...

    @property
    def together(self) -> int:
        """How many batches may arrive at about the same time: only the first is waited for."""
        ...

    @property
    def ahead(self) -> int:
        """How many batches may be there before they are asked for."""
        ...


@runtime_checkable
class Scaling(Protocol):
    """A Stepping of several processes, each of which could work alone."""

    def scaling(self) -> Mapping[str, Measurement]:
        """Return metric `scaling_efficiency`: what a process's share of a step takes alone, of what
        the slowest process's step takes; none if it was not measured.

        Called once, after `environment`.
        """
        ...


class OneProcess(Generic[Batch, Outputs]):
    """Training in this process."""

    def __init__(
        self, workload: TrainingWorkload[Batch, Outputs], backend: TrainingBackend
    ) -> None:
        self._workload, self._backend = workload, backend
        self._loader = loader_of(workload)
        self._batch: Batch
        self._optimizer: Optimizer
        self.model: Module

    @property
    def batch_size(self) -> int:
        """See Stepping.batch_size."""
        return self._workload.batch_size

    @property
    def waits(self) -> bool:
        """See Waiting.waits."""
        return self._loader is not None

    @property
    def together(self) -> int:
        """See Waiting.together: each loading process finishes one at a time."""
        return max(1, self._loader.workers) if self._loader else 1

    @property
    def ahead(self) -> int:
        """See Waiting.ahead."""
        return self._loader.ahead if self._loader else 0

    def start(self) -> None:
        """See Stepping.start."""
        self.model, self._optimizer = self._backend.prepare(self._workload)

    def load(self, number: int) -> None:
        """See Stepping.load."""
        self._batch = self._workload.batch(number)

    def step(self) -> float:
        """See Stepping.step."""
        return self._backend.step(self._workload, self.model, self._optimizer, self._batch)

    def cpu_s(self) -> float:
        """See Stepping.cpu_s; with the processes that load."""
        return time.process_time() + (self._loader.cpu_s() if self._loader else 0.0)

    def peak_memory_bytes(self) -> int:
        """See Stepping.peak_memory_bytes; Linux counts in KiB."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def environment(self) -> Environment:
        """See Stepping.environment."""
        loaded = self._loader.facts() if self._loader else {}
        return {**self._backend.environment(), **loaded, **denormal_facts(self.model)}
