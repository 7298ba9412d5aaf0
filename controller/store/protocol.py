"""The interface of the store. One process owns the writes; anyone may read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from controller.contracts.annotations import SweepAnnotations
from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.capability import Capability
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent, RegisteredDevice
from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import (
    Chosen,
    FailurePage,
    MeasuredKind,
    OutcomeFilter,
    PageRequest,
    Place,
    ResultPage,
)
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
from controller.contracts.sweep import Cell
from controller.store.places import EntryPlace, RunFilter, RunPlace, TryPlace


class StoreWriter(Protocol):
    """The controller's interface. Every call is one durable transaction: all or nothing."""

    def add_sweep(self, record: SweepRecord, runs: Sequence[Run]) -> list[Run]:
        """Store a sweep and those of its runs that are new; return the new ones.

        Called at each submission; submitting the same sweep again returns [].
        """
        ...

    def save_runs(self, changes: Sequence[RunChange]) -> None:
        """Store the present state of runs, with their outcomes; called after each lifecycle event.

        Saving the same change twice stores it once.
        """
        ...

    def save_agent(
        self,
        agent: RegisteredAgent,
        devices: Sequence[RegisteredDevice],
        events: Sequence[DeviceHistoryEntry] = (),
    ) -> None:
        """Store an agent and its devices; called when one registers, goes or comes back."""
        ...

    def save_devices(
        self, devices: Sequence[RegisteredDevice], events: Sequence[DeviceHistoryEntry]
    ) -> None:
        """Store devices; called when a person, a failure or the end of a booking changes them."""
        ...

    def save_token(self, token: Token) -> None:
        """Store a submitter's token; called when it is created and when it is revoked."""
        ...

    def save_annotations(self, annotations: SweepAnnotations) -> None:
        """Store the present tags and notes of a sweep; called when a person changes them."""
        ...

    def close(self) -> None:
        """Release the store; called once, last."""
        ...


class ArtefactReader(Protocol):
    """What finds and reads the files that runs left."""

    def artefacts(self, run_id: str) -> list[ArtefactRecord]:
        """Return the artefacts of a run that agents have announced, by attempt and name.

        None of an unknown run. Called where people list and fetch artefacts.
        """
        ...

    def artefact(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the content of an artefact that is on the head, from a byte on.

        sha256: of a listed artefact. Raises NotFound if it is not there.
        """
        ...


class FarmReader(ArtefactReader, Protocol):
    """What commands and reports read: of the store's file on the head, or over the API elsewhere.

    Consistent within each call, and never blocked by the writer. Damaged records are left out and
    reported; StoreDamaged is raised if nothing can be read.
    """

    def damage(self) -> list[str]:
        """Return what could not be read so far, and why; called where a complete store is
        needed."""
        ...

    def sweeps(self) -> list[SweepRecord]:
        """Return every sweep, oldest first."""
        ...

    def annotations(self, sweep_id: str | None = None) -> dict[str, SweepAnnotations]:
        """Return the tags and notes of the sweeps that ever had some, or of one, by sweep id."""
        ...

    def runs(self, sweep_id: str | None = None, *, open_only: bool = False) -> list[Run]:
        """Return runs in queue order (submission, then position); all, or those not terminal."""
        ...

    def run(self, run_id: str) -> Run | None:
        """Return one run, or None; called for a report about a run that has ended."""
        ...

    def tally(self, sweep_id: str) -> SweepTally:
        """Return the state counts of a sweep; called at each change that is watched from
        elsewhere."""
        ...

    def results(self, sweep_id: str | None = None) -> list[StoredResult]:
        """Return counted results, oldest first, then the late ones (`counted` false)."""
        ...

    def selected_results(
        self, wanted: OutcomeFilter, newest: int | None = None
    ) -> tuple[list[StoredResult], int]:
        """Return the newest results that a filter keeps, in the order of `results`; and how many
        it keeps.

        newest: at most so many; None for all. Called where people list results.
        """
        ...

    def selected_failures(
        self, wanted: OutcomeFilter, newest: int | None = None
    ) -> tuple[list[StoredFailure], int]:
        """Return the newest failures that a filter keeps, oldest first; and how many it keeps."""
        ...

    def failures(self, sweep_id: str | None = None) -> list[StoredFailure]:
        """Return every failed attempt's failure, oldest first."""
        ...

    def fleet(self) -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
        """Return all agents and devices ever registered, by id, but no forgotten devices."""
        ...

    def forgotten(self) -> list[RegisteredDevice]:
        """Return the devices that a person removed; called once, at the controller's start."""
        ...

    def history(self, device_id: str) -> list[DeviceHistoryEntry]:
        """Return a device's history with its attempts, oldest first."""
        ...

    def spent(self, since: float) -> list[Spent]:
        """Return the device time of attempts that ended since a time; called once, at the start."""
        ...

    def took(self, cells: Iterable[Cell]) -> list[Took]:
        """Return how long attempts with a result took that are like some cells, oldest first.

        Of their workloads, stacks and scenarios; the newest few of each measured cell and device.
        Called when a sweep is planned, or runs wait.
        """
        ...


class StoreReader(FarmReader, Protocol):
    """Everyone's interface on the head, where the file is."""

    def result_page(self, wanted: OutcomeFilter, asked: PageRequest) -> ResultPage:
        """Return a page of the results that a filter keeps; called where programs list results.

        Results that are stored between two calls neither hide nor repeat another. Raises
        StoreDamaged if an index is damaged.
        """
        ...

    def failure_page(self, wanted: OutcomeFilter, asked: PageRequest) -> FailurePage:
        """Return a page of the failures that a filter keeps; see `result_page`."""
        ...

    def before_newest(self, kind: str, wanted: OutcomeFilter, newest: int) -> Place | None:
        """Return the place behind which are the newest outcomes of a kind that a filter keeps.

        kind: `result` or `failure`. newest: so many; None if there are no more. Called where
        programs export them. Raises StoreDamaged if an index is damaged.
        """
        ...

    def stored_outcomes(self, kind: str, wanted: OutcomeFilter) -> int:
        """Return how many outcomes of a kind a filter keeps, damaged ones among them.

        Called where programs export them, so that they learn of those that are left out. Raises
        StoreDamaged if an index is damaged.
        """
        ...

    def stored_runs(self, sweep_id: str | None = None) -> int:
        """Return how many runs a sweep, or all, were given; damaged and lost ones among them."""
        ...

    def stored_sweeps(self) -> int:
        """Return how many sweeps are stored, damaged ones among them."""
        ...

    def flat_batches(self, wanted: OutcomeFilter) -> Iterator[Sequence[FlatResult]]:
        """Yield the results that a filter keeps, some at a time, in the order of storing.

        Each batch is read when it is asked for, as a page is. Called where programs export a table
        of all. Raises StoreDamaged if an index is damaged.
        """
        ...

    def newest_results(self, catalog: Catalog) -> list[NewestResult]:
        """Return the newest results that count, with the repeats of their sweeps, oldest first.

        Of each device, work, stack, number format and validity, profiled or not. Called once, at
        the start of the controller.
        """
        ...

    def newest_capabilities(self) -> list[Capability]:
        """Return the newest outcomes of cells that asked for a delegate, oldest first.

        For each device, workload, stack, delegate and number format. Called once, at the
        controller's start.
        """
        ...

    def begun_runs(self) -> list[Run]:
        """Return the open runs that have been leased at least once, oldest first.

        Called where people watch, at each change. Raises StoreDamaged if an index is damaged.
        """
        ...

    def never_leased(self) -> dict[str, int]:
        """Return how many queued runs of each sweep have never been leased, if it has any."""
        ...

    def queue_part(
        self, wanted: RunFilter, after: RunPlace | None, most: int
    ) -> list[tuple[RunPlace, Run]]:
        """Return the first runs that a filter keeps behind a place of the queue, with their places.

        most: at most so many. Called where programs list runs.
        """
        ...

    def ended_tries(self, cells: Iterable[Cell], until: float = ...) -> list[tuple[TryPlace, Took]]:
        """Return what `took` does, each with its place, as it was at a time.

        until: seconds since the epoch; by default, now. Called where programs list them.
        """
        ...

    def placed_history(self, device_id: str) -> list[tuple[EntryPlace, DeviceHistoryEntry]]:
        """Return what `history` does, each with its place; called where programs list it."""
        ...

    def placed_spent(self, since: float) -> list[tuple[TryPlace, Spent]]:
        """Return what `spent` does, each with its place; called where programs list it."""
        ...

    def outcomes_of(self, run_id: str) -> list[StoredResult | StoredFailure]:
        """Return the results and failures of a run, in the order of storing."""
        ...

    def newest_failures(self, wanted: OutcomeFilter, newest: int) -> list[StoredFailure]:
        """Return the newest failures that a filter keeps, the newest first.

        Called where people watch, at each change. Raises StoreDamaged if an index is damaged.
        """
        ...

    def recent_history(
        self, device_id: str, newest: int, before: float | None = None
    ) -> list[DeviceHistoryEntry]:
        """Return the newest entries of a device's history, the newest first.

        before: seconds since the epoch; only those before then. Raises StoreDamaged if an index is
        damaged.
        """
        ...

    def newest_of_cells(
        self, chosen: Chosen, repeats: int, most: int
    ) -> tuple[list[StoredResult], bool]:
        """Return the newest counted results of each chosen cell on each device, oldest first; and
        whether there are more.

        repeats: so many of each; most: of all together. Called where people compare. Raises
        StoreDamaged if an index is damaged.
        """
        ...

    def newest_failures_of_cells(
        self, chosen: Chosen, repeats: int, most: int
    ) -> tuple[list[StoredFailure], bool]:
        """Return what `newest_of_cells` does, of failures that count."""
        ...

    def measured_kinds(self) -> list[MeasuredKind]:
        """Return what any cell ever asked for, sorted; called where people choose among it."""
        ...

    def runs_beginning(self, text: str, most: int) -> list[str]:
        """Return the ids of leased runs that begin with a text, sorted; called by a search."""
        ...

    def lost_agents(self) -> bool:
        """Return whether records of agents are damaged or missing; called once, at the start."""
        ...

    def tokens(self) -> list[Token]:
        """Return every token ever created, by name."""
        ...

    def artefact_size(self, sha256: str) -> int | None:
        """Return the bytes of an artefact's content that is on the head; None of another."""
        ...


class Store(StoreWriter, StoreReader, Protocol):
    """The interfaces of writing and reading."""
