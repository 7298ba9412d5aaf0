"""What the controller asks of a store. One process owns the writes; anyone may read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller.contracts.capability import Capability
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent, RegisteredDevice
from controller.contracts.records import (
    NewestResult,
    Spent,
    StoredFailure,
    StoredResult,
    SweepRecord,
    SweepTally,
    Token,
    Took,
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

    def save_agent(
        self,
        agent: RegisteredAgent,
        devices: Sequence[RegisteredDevice],
        events: Sequence[DeviceHistoryEntry] = (),
    ) -> None:
        """Keep an agent and its devices; called when one registers, goes or comes back."""
        ...

    def save_devices(
        self, devices: Sequence[RegisteredDevice], events: Sequence[DeviceHistoryEntry]
    ) -> None:
        """Keep devices; called when a person, a failure or the end of a booking changes them."""
        ...

    def save_token(self, token: Token) -> None:
        """Keep a submitter's token; called when it is made, and when it is revoked."""
        ...

    def close(self) -> None:
        """Release the store; called once, last."""
        ...


class StoreReader(Protocol):
    """Everyone's side; consistent at each call, never blocked by the writer.

    What is damaged is left out and named; StoreDamaged is raised where nothing can be read.
    """

    def damage(self) -> list[str]:
        """Return what could not be read so far, and why; called where all has to be there."""
        ...

    def sweeps(self) -> list[SweepRecord]:
        """Return every sweep, oldest first."""
        ...

    def runs(self, sweep_id: str | None = None, *, open_only: bool = False) -> list[Run]:
        """Return runs in queue order (submission, then position); all, or those not terminal."""
        ...

    def run(self, run_id: str) -> Run | None:
        """Return one run, or None; called when a report comes for a run that has ended."""
        ...

    def tally(self, sweep_id: str) -> SweepTally:
        """Return how a sweep stands; called at each change that someone watches from elsewhere."""
        ...

    def results(self, sweep_id: str | None = None) -> list[StoredResult]:
        """Return results that count, oldest first (and the late ones, `counted` false, after)."""
        ...

    def newest_results(self, catalog: Catalog) -> list[NewestResult]:
        """Return the newest results that count, with the repeats of their sweeps, oldest first.

        Of each device, work, stack, number format and validity, profiled or not. Called once, at
        the start of the controller.
        """
        ...

    def newest_capabilities(self) -> list[Capability]:
        """Return what the newest outcomes that asked for a delegate came to, oldest first.

        Of each device, workload, stack, delegate and number format. Called once, at the start of
        the controller.
        """
        ...

    def failures(self, sweep_id: str | None = None) -> list[StoredFailure]:
        """Return every failed attempt's failure, oldest first."""
        ...

    def fleet(self) -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
        """Return all agents and devices ever registered, by id."""
        ...

    def lost_agents(self) -> bool:
        """Return whether records of agents are damaged or missing; called once, at the start."""
        ...

    def history(self, device_id: str) -> list[DeviceHistoryEntry]:
        """Return what is known of a device's past, oldest first; its attempts among it."""
        ...

    def tokens(self) -> list[Token]:
        """Return every token that was ever made, by name."""
        ...

    def spent(self, since: float) -> list[Spent]:
        """Return the device time of attempts that ended since then; called once, at the start."""
        ...

    def took(self) -> list[Took]:
        """Return how long each attempt with a result took; called when a sweep is planned."""
        ...


class Store(StoreWriter, StoreReader, Protocol):
    """Both sides in one."""
