"""How an agent reaches what it measures on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from controller.contracts.device import Device
from controller.contracts.result import Outcome
from controller.contracts.wire import Progress, WorkerSpec


class Transport(Protocol):
    """Runs jobs on one kind of device."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """Do one attempt to its end; called once an attempt, after its lease was granted.

        Leaves no process of the attempt behind, however it ends. Cancelling stops the attempt.
        Failures are returned, not raised.
        """
        ...

    async def clean(self) -> int:
        """End what a former self of this agent left running; called once, at the agent's start.

        Returns how many processes there were.
        """
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at a device has come to."""

    passed: bool
    why: str
    """What was seen."""


class Prober(Protocol):
    """Looks whether a device of one kind is well."""

    async def probe(self, device: Device) -> Finding:
        """Use the device as a run would, for seconds; called while it is in quarantine.

        Holds what a run on it would hold, and leaves nothing there. Faults of the device are
        returned, not raised.
        """
        ...
