"""Reading of the SQLite store; each call reads one snapshot and never blocks the writer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter

from sqlalchemy import Table, func, select

from controller.contracts.annotations import SweepAnnotations
from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.capability import Capability, of_stored
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent, RegisteredDevice
from controller.contracts.errors import NotFound, StoreDamaged
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
from controller.contracts.result import Validity
from controller.contracts.run import RunState
from controller.contracts.sweep import Cell
from controller.store import tables
from controller.store.artefacts.folder import ArtefactFolder, folder_beside
from controller.store.connecting import transaction
from controller.store.naming import with_names
from controller.store.newest import (
    is_done,
    newest_among,
    newest_asked,
    newest_numbers,
    newest_tries,
    results_by_cell,
)
from controller.store.packing import counted
from controller.store.places import EntryPlace, TryPlace
from controller.store.rows import (
    agent_of,
    annotations_of,
    attempt_event_of,
    device_of,
    event_of,
    failure_of,
    newest_of,
    result_of,
    spent_of,
    sweep_of,
    token_of,
    took_of,
)
from controller.store.run_reading import RunReader
from controller.store.scanning import Only, Row
from controller.store.snapshot import Measured, Snapshot


class SqliteReader(RunReader):
    """Reads a store through connections of its own; implements StoreReader."""

    def sweeps(self) -> list[SweepRecord]:
        """Return every sweep, oldest first."""
        with self._snapshot() as (snapshot, _):
            rows = snapshot.sweeps()
        return self._made(rows, sweep_of, "sweep", "sweep_id")

    def annotations(self, sweep_id: str | None = None) -> dict[str, SweepAnnotations]:
        """Return the tags and notes of the sweeps that ever had some, or of one, by sweep id."""
        only = None if sweep_id is None else Only("sweep_id", [sweep_id])
        with self._snapshot() as (snapshot, _):
            rows = snapshot.annotations(only)
        found = self._made(rows, annotations_of, "the tags and notes of sweep", "sweep_id")
        return {one.sweep_id: one for one in found}

    def tally(self, sweep_id: str) -> SweepTally:
        """Return how many runs of a sweep are in each state, and how many results met
        their rules."""
        runs, outcomes, sweeps = tables.runs, tables.outcomes, tables.sweeps
        by_state = (
            select(runs.c.state, func.count().label("runs"))
            .where(runs.c.sweep_id == sweep_id)
            .group_by(runs.c.state)
        )
        met = (
            select(func.count().label("met"))
            .join_from(outcomes, runs, runs.c.run_id == outcomes.c.run_id)
            .where(
                *(runs.c.sweep_id == sweep_id, outcomes.c.counted),
                outcomes.c.validity.in_([Validity.VALID.value, Validity.DISTURBED.value]),
            )
        )
        said = select(sweeps.c.runs).where(sweeps.c.sweep_id == sweep_id)
        with self._snapshot() as (snapshot, connection):
            counts = Counter({row.state: row.runs for row in connection.execute(by_state)})
            for row in snapshot.packed(Only("sweep_id", [sweep_id]), keyed=True):
                counts.update(counted(row))
            found = connection.execute(met).scalar_one()
            expected = connection.execute(said).scalar() or 0
        states = {state: counts[state.value] for state in RunState}
        return SweepTally(
            runs=states, met_rules=found, lost=max(0, expected - sum(states.values()))
        )

    def newest_results(self, catalog: Catalog) -> list[NewestResult]:
        """Return the newest results that count, with the repeats of their sweeps, oldest first.

        Of each device, work, stack, number format, validity and mode, profiled or not; paired
        comparisons are no result of one cell. catalog: what says which knobs are work.
        """
        before = len(self._told)
        try:
            with self._snapshot() as (snapshot, connection):
                rows = [dict(row) for row in connection.execute(results_by_cell()).mappings()]
                found = snapshot.outcomes("result", numbers=newest_numbers(rows, catalog))
        except (StoreDamaged, ValueError, TypeError):  # a knob that is no JSON, or another's row
            found = []
        if not found or len(self._told) > before:
            found = newest_among(self._outcomes("result", None), catalog)  # of what is left
        made = partial(newest_of, catalog=catalog)
        return self._made(found, made, "the result of run", "run_id")

    def newest_capabilities(self) -> list[Capability]:
        """Return the newest outcomes of cells that asked for a delegate, oldest first.

        For each device, workload, stack, delegate and number format.
        """
        found: list[tuple[int, StoredResult | StoredFailure]] = [
            *self._made(self._asked("result"), _numbered_result, "the result of run", "run_id"),
            *self._made(self._asked("failure"), _numbered_failure, "the failure of run", "run_id"),
        ]
        found.sort(key=itemgetter(0))
        return [one for _, stored in found if (one := of_stored(stored))]

    def fleet(self) -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
        """Return all agents and devices ever registered, by id, but no forgotten devices."""
        with self._snapshot() as (snapshot, _):
            hosts = snapshot.records(tables.agents, "agent", "agent_id")
            found = snapshot.records(tables.devices, "device", "device_id")
        agents = self._made(hosts, agent_of, "agent", "agent_id")
        drains = {known.agent.id: known.draining for known in agents if known.draining}
        devices = [
            known.model_copy(update={"draining": drains.get(known.agent_id)})
            for known in self._devices(found)
            if not known.life.forgotten
        ]
        return sorted(agents, key=lambda a: a.agent.id), devices

    def forgotten(self) -> list[RegisteredDevice]:
        """Return the devices that a person removed, by id."""
        with self._snapshot() as (snapshot, _):
            found = snapshot.records(tables.devices, "device", "device_id")
        return [device for device in self._devices(found) if device.life.forgotten]

    def lost_agents(self) -> bool:
        """Return whether records of agents are damaged or missing."""
        noted: list[str] = []
        with transaction(self._readers, self._path, read_only=True) as connection:
            found = Snapshot(connection, lambda what, _: noted.append(what))
            rows = found.records(tables.agents, "agent", "agent_id")
        # Agents are never deleted, so their row ids have no gaps.
        gone = max((row["row_id"] for row in rows), default=0) > len(rows)
        return (
            bool(noted) or gone or len(self._made(rows, agent_of, "agent", "agent_id")) < len(rows)
        )

    def history(self, device_id: str) -> list[DeviceHistoryEntry]:
        """Return a device's history with its attempts, oldest first."""
        return [entry for _, entry in self.placed_history(device_id)]

    def placed_history(self, device_id: str) -> list[tuple[EntryPlace, DeviceHistoryEntry]]:
        """Return what `history` does, each with its place."""
        with self._snapshot() as (snapshot, _):
            # An event without a device is damaged, and may belong to this device.
            only = Only("device_id", snapshot.other_devices(device_id), none_of=True)
            told = snapshot.events(only)
            tried = snapshot.records(tables.attempts, "an attempt of run", "run_id", only)
        told, tried = ([r for r in rows if r["device_id"] == device_id] for rows in (told, tried))
        found = self._made(told, _placed_event, "an event of device", "device_id")
        found += self._made(tried, _placed_attempt, "an attempt of run", "run_id")
        return sorted(found, key=itemgetter(0))

    def events(self) -> int:
        """Return the number of events in the histories of all devices."""
        with self._snapshot() as (snapshot, _):
            return len(snapshot.events())

    def sound_rows(self) -> dict[Table, list[Row]]:
        """Return all sound rows, each table after those it refers to."""
        with self._snapshot() as (snapshot, _):
            return snapshot.sound_rows()

    def tokens(self) -> list[Token]:
        """Return every token ever created, by name."""
        with self._snapshot() as (snapshot, _):
            rows = snapshot.records(tables.tokens, "the token of", "name")
        found = self._made(rows, token_of, "the token of", "name")
        return sorted(found, key=lambda token: token.name)

    def spent(self, since: float) -> list[Spent]:
        """Return the device time of each attempt that ended since a time, oldest first."""
        return [spent for _, spent in self.placed_spent(since)]

    def placed_spent(self, since: float) -> list[tuple[TryPlace, Spent]]:
        """Return what `spent` does, each with its place."""
        with self._snapshot() as (snapshot, _):
            rows = snapshot.ended(since)
        made = self._made(rows, _placed_spent, "an attempt of run", "run_id")
        return sorted(made, key=itemgetter(0))

    def took(self, cells: Iterable[Cell]) -> list[Took]:
        """Return how long attempts with a result took that are like some cells, oldest first.

        The newest of them; any that are left if some are damaged.
        """
        return [took for _, took in self.ended_tries(cells)]

    def ended_tries(
        self, cells: Iterable[Cell], until: float = math.inf
    ) -> list[tuple[TryPlace, Took]]:
        """Return what `took` does, each with its place, as it was at a time.

        until: seconds since the epoch.
        """
        before, kinds = len(self._told), {(c.workload, c.stack, c.scenario) for c in cells}
        with self._snapshot() as (snapshot, _):
            runs = snapshot.runs(Only("run_id", newest_tries(*snapshot.tries(), kinds, until)))
        if len(self._told) > before:
            with self._snapshot() as (snapshot, _):
                runs = snapshot.runs()
        tries = [{**run, **attempt} for run, attempts in runs for attempt in attempts]
        done = [row for row in tries if is_done(row, until)]
        made = self._made(done, _placed, "an attempt of run", "run_id")
        return sorted(made, key=itemgetter(0))

    # --- artefacts -----------------------------------------------------------------------------

    def artefacts(self, run_id: str) -> list[ArtefactRecord]:
        """Return the artefacts of a run that agents have announced, by attempt and name."""
        rows = self._artefacts.rows(run_id)
        return self._made(rows, ArtefactRecord.model_validate, "an artefact of run", "run_id")

    def artefact_size(self, sha256: str) -> int | None:
        """Return the bytes of an artefact's content that is on the head; None of another."""
        return self._artefacts.size_of(sha256)

    def artefact(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """Return the content of an artefact that is on the head, from a byte on.

        Raises NotFound if it is not there; reading it, StoreDamaged.
        """
        if self.artefact_size(sha256) is None:
            seen, remedy = "it is not on the head", "List them with `benchfarm results artifacts`."
            raise NotFound(f"read artefact {sha256[:12]!r}", seen, remedy)
        return self._artefacts.read(sha256, offset)

    @property
    def _artefacts(self) -> ArtefactFolder:
        return ArtefactFolder(folder_beside(self._path))

    # --- helpers -------------------------------------------------------------------------------

    def _devices(self, rows: Iterable[Row]) -> list[RegisteredDevice]:
        found = self._made(rows, device_of, "device", "device_id")
        return sorted(found, key=lambda known: known.device.id)

    def _asked(self, kind: str) -> list[Measured]:
        """Return the newest results, or failures, of cells with a delegate; all of them if
        damaged."""
        before = len(self._told)
        try:
            with self._snapshot() as (snapshot, connection):
                numbers = connection.scalars(newest_asked(kind)).all()
                rows = snapshot.outcomes(kind, numbers=numbers) if numbers else []
                rows = with_names(rows, snapshot, connection)
        except StoreDamaged:
            return self._outcomes(kind, None)
        return self._outcomes(kind, None) if len(self._told) > before else rows


def _try_place(row: Row) -> TryPlace:
    return TryPlace(row["ended_at"], row["run_id"], row["number"])


def _numbered_result(measured: Measured) -> tuple[int, StoredResult]:
    return measured[0]["number"] or 0, result_of(measured)


def _numbered_failure(measured: Measured) -> tuple[int, StoredFailure]:
    return measured[0]["number"] or 0, failure_of(measured)


def _placed(row: Row) -> tuple[TryPlace, Took]:
    return _try_place(row), took_of(row)


def _placed_spent(row: Row) -> tuple[TryPlace, Spent]:
    return _try_place(row), spent_of(row)


def _placed_event(row: Row) -> tuple[EntryPlace, DeviceHistoryEntry]:
    entry = event_of(row)
    return EntryPlace(entry.at, "", row["number"]), entry


def _placed_attempt(row: Row) -> tuple[EntryPlace, DeviceHistoryEntry]:
    entry = attempt_event_of(row)
    return EntryPlace(entry.at, row["run_id"], row["number"]), entry
