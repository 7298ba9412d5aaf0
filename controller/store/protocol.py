"""What the controller asks of a store. One process owns the writes; anyone may read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller.contracts.device import RegisteredAgent, RegisteredDevice
from controller.contracts.records import (
    NewestResult,
    StoredFailure,
    StoredResult,
    SweepRecord,
)
from controller.contracts.run import Run, RunChange


class StoreWriter(Protocol):
    """The controller's side. Every call is one durable transaction: it is all there, or none."""

    def add_sweep(self, record: SweepRecord, runs: Sequence[Run]) -> list[Run]:
        """Keep a sweep and those of its runs that are new; returns the new ones.

        Called at each submission; the same sweep submitted twice returns [] the second time.
        """
        ...

    def save_runs(self, changes: Sequence[RunChange]) -> None:
        """Keep runs as they are now, with their outcomes; called after each lifecycle event.

        Saving the same change twice keeps it once.
        """
        ...

    def save_agent(self, agent: RegisteredAgent, devices: Sequence[RegisteredDevice]) -> None:
        """Keep an agent and its devices; called when one registers, goes or comes back."""
        ...

    def close(self) -> None:
        """Release the store; called once, last."""
        ...


class StoreReader(Protocol):
    """Everyone's side; consistent at each call, never blocked by the writer."""

    def sweeps(self) -> list[SweepRecord]:
        """Return every sweep, oldest first."""
        ...

    def runs(self, sweep_id: str | None = None, *, open_only: bool = False) -> list[Run]:
        """Return runs in queue order (submission, then position); all, or those not terminal."""
        ...

    def run(self, run_id: str) -> Run | None:
        """Return one run, or None; called when a report comes for a run that has ended."""
        ...

    def results(self, sweep_id: str | None = None) -> list[StoredResult]:
        """Return results that count, oldest first (and the late ones, `counted` false, after)."""
        ...

    def newest_results(self) -> list[NewestResult]:
        """Return the newest VALID and the newest INVALID result that count, oldest first.

        Of each device, workload, stack, scenario and number format. Called once, at the start of
        the controller.
        """
        ...

    def failures(self, sweep_id: str | None = None) -> list[StoredFailure]:
        """Return every failed attempt's failure, oldest first."""
        ...

    def fleet(self) -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
        """Return all agents and devices ever registered, by id."""
        ...


class Store(StoreWriter, StoreReader, Protocol):
    """Both sides in one."""
