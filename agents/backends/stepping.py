"""What trains, step by step: this process, or several that train together."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Generic, Protocol, runtime_checkable

from agents.backends.protocol import TrainingBackend
from controller.contracts.result import Environment
from models.training import Batch, Outputs, TrainingWorkload

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
        """Fetch the batch of a step; called before each step, and not timed."""
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


class OneProcess(Generic[Batch, Outputs]):
    """Training in this process."""

    def __init__(
        self, workload: TrainingWorkload[Batch, Outputs], backend: TrainingBackend
    ) -> None:
        self._workload, self._backend = workload, backend
        self._batch: Batch
        self._optimizer: Optimizer
        self.model: Module

    @property
    def batch_size(self) -> int:
        """See Stepping.batch_size."""
        return self._workload.batch_size

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
        """See Stepping.cpu_s."""
        return time.process_time()

    def peak_memory_bytes(self) -> int:
        """See Stepping.peak_memory_bytes; Linux counts in KiB."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def environment(self) -> Environment:
        """See Stepping.environment."""
        return self._backend.environment()
