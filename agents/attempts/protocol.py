"""The interface of attempt runners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controller.contracts.result import Outcome
from controller.contracts.wire import Progress, WorkerSpec


class AttemptRunner(Protocol):
    """Runs jobs on one kind of device."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """Run one attempt to its end; called once an attempt, after its lease was granted.

        Leaves no process of the attempt behind, however it ends. Cancelling stops the attempt.
        Failures are returned, not raised.
        """
        ...

    async def clean(self) -> int:
        """End processes that an earlier incarnation of this agent left; called once, at the agent's
        start.

        Returns the number of processes.
        """
        ...
