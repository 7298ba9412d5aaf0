"""The reading side of the SQLite store; one snapshot a call, never in the writer's way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, null, select

from controller.contracts.device import DeviceEvent, RegisteredAgent, RegisteredDevice
from controller.contracts.records import (
    ADMIN,
    PRECISION_KNOBS,
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
from controller.contracts.run import AttemptState, Run, RunState
from controller.store import tables
from controller.store.connecting import make_engine, transaction
from controller.store.rows import (
    Row,
    agent_of,
    attempt_event_of,
    device_of,
    event_of,
    failure_of,
    newest_of,
    result_of,
    run_of,
    sweep_of,
    took_of,
)

OPEN_STATES = tuple(state.value for state in RunState if not state.terminal)

_ORIGINS = (
    select(
        tables.outcomes,
        tables.outcomes.c.device_id.label("device"),
        tables.attempts.c.device_kind,
        tables.attempts.c.virtual,
        tables.runs.c.sweep_id,
        tables.runs.c.cell_key,
        tables.runs.c.repeat,
        tables.runs.c.knobs,
        tables.runs.c.versus,
    )
    .join_from(tables.outcomes, tables.attempts)
    .join(tables.runs, tables.runs.c.run_id == tables.outcomes.c.run_id)
)

_NEWEST = (
    select(func.max(tables.outcomes.c.number))
    .join_from(tables.outcomes, tables.runs, tables.runs.c.run_id == tables.outcomes.c.run_id)
    .where(
        tables.outcomes.c.type == "result",
        tables.outcomes.c.counted,
        tables.runs.c.versus.is_(null()),
    )
    .group_by(
        *(tables.outcomes.c[name] for name in ("device_id", "workload", "stack", "scenario")),
        func.coalesce(*(tables.runs.c.knobs[name].as_string() for name in PRECISION_KNOBS)),
        tables.outcomes.c.validity,
        tables.runs.c.profiled,
    )
)


class SqliteReader:
    """Reads a store through connections of its own; implements StoreReader."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = make_engine(path, "ro")

    def sweeps(self) -> list[SweepRecord]:
        """Return every sweep, oldest first."""
        rows = self._rows(select(tables.sweeps).order_by(tables.sweeps.c.number))
        return [sweep_of(row) for row in rows]

    def runs(self, sweep_id: str | None = None, *, open_only: bool = False) -> list[Run]:
        """Return runs in queue order (submission, then position); all, or those not terminal."""
        wanted = _of_sweep(sweep_id)
        if open_only:
            wanted.append(tables.runs.c.state.in_(OPEN_STATES))
        return self._runs(wanted)

    def run(self, run_id: str) -> Run | None:
        """Return one run, or None if there is no such run."""
        return next(iter(self._runs([tables.runs.c.run_id == run_id])), None)

    def tally(self, sweep_id: str) -> SweepTally:
        """Return how many runs of a sweep are in each state, and how many have a VALID result."""
        runs, outcomes = tables.runs, tables.outcomes
        by_state = (
            select(runs.c.state, func.count().label("runs"))
            .where(runs.c.sweep_id == sweep_id)
            .group_by(runs.c.state)
        )
        valid = (
            select(func.count().label("valid"))
            .join_from(outcomes, runs, runs.c.run_id == outcomes.c.run_id)
            .where(
                *(runs.c.sweep_id == sweep_id, outcomes.c.counted),
                outcomes.c.validity == Validity.VALID.value,
            )
        )
        with transaction(self._readers, self._path) as connection:
            counts = {row["state"]: row["runs"] for row in _read(connection, by_state)}
            (found,) = _read(connection, valid)
        states = {state: counts.get(state.value, 0) for state in RunState}
        return SweepTally(runs=states, valid=found["valid"])

    def results(self, sweep_id: str | None = None) -> list[StoredResult]:
        """Return results that count, oldest first (and the late ones, `counted` false, after)."""
        wanted = [tables.outcomes.c.type == "result", *_of_sweep(sweep_id)]
        found = _ORIGINS.where(*wanted)
        measured = (
            select(tables.measurements)
            .join(tables.runs, tables.runs.c.run_id == tables.measurements.c.run_id)
            .where(*_of_sweep(sweep_id))
        )
        newest_last = (tables.outcomes.c.counted.desc(), tables.outcomes.c.number)
        with transaction(self._readers, self._path) as connection:
            named = _read(connection, measured.order_by(tables.measurements.c.name))
            rows = _read(connection, found.order_by(*newest_last))
        key = ("run_id", "attempt", "counted")
        metrics = _by_key(named, key)
        return [result_of(row, metrics[_key(row, key)]) for row in rows]

    def newest_results(self) -> list[NewestResult]:
        """Return the newest VALID and the newest INVALID result that count, oldest first.

        Of each device, workload, stack, scenario and number format; paired comparisons are no
        result of one.
        """
        found = _ORIGINS.where(tables.outcomes.c.number.in_(_NEWEST))
        measured = (
            select(*(c for c in tables.measurements.c if c.name != "samples"))
            .join_from(tables.measurements, tables.outcomes)
            .where(tables.outcomes.c.number.in_(_NEWEST))
        )
        with transaction(self._readers, self._path) as connection:
            named = _read(connection, measured)
            rows = _read(connection, found.order_by(tables.outcomes.c.number))
        metrics = _by_key(named, ("run_id", "attempt"))
        return [newest_of(row, metrics[row["run_id"], row["attempt"]]) for row in rows]

    def failures(self, sweep_id: str | None = None) -> list[StoredFailure]:
        """Return every failed attempt's failure, oldest first."""
        wanted = [tables.outcomes.c.type == "failure", *_of_sweep(sweep_id)]
        found = self._rows(_ORIGINS.where(*wanted).order_by(tables.outcomes.c.number))
        return [failure_of(row) for row in found]

    def fleet(self) -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
        """Return all agents and devices ever registered, by id."""
        with transaction(self._readers, self._path) as connection:
            hosts = _read(connection, select(tables.agents).order_by(tables.agents.c.agent_id))
            found = _read(connection, select(tables.devices).order_by(tables.devices.c.device_id))
        return [agent_of(row) for row in hosts], [device_of(row) for row in found]

    def history(self, device_id: str) -> list[DeviceEvent]:
        """Return what is known of a device's past, oldest first; its attempts among it."""
        events, tries = tables.device_events, tables.attempts
        told = select(events).where(events.c.device_id == device_id).order_by(events.c.number)
        tried = select(tries).where(tries.c.device_id == device_id)
        with transaction(self._readers, self._path) as connection:
            found = [event_of(row) for row in _read(connection, told)]
            found += [attempt_event_of(row) for row in _read(connection, tried)]
        return sorted(found, key=lambda event: event.at)

    def tokens(self) -> list[Token]:
        """Return every token that was ever made, by name."""
        rows = self._rows(select(tables.tokens).order_by(tables.tokens.c.name))
        return [Token.model_validate(dict(row)) for row in rows]

    def spent(self, since: float) -> list[Spent]:
        """Return the device time of each attempt that has ended since then, oldest first."""
        tries = tables.attempts
        found = (
            select(tries.c.leased_at, tries.c.ended_at, tables.sweeps.c.user)
            .join_from(tries, tables.runs, tables.runs.c.run_id == tries.c.run_id)
            .join(tables.sweeps)
            .where(tries.c.ended_at > since)
            .order_by(tries.c.ended_at)
        )
        return [
            Spent(
                user=row["user"] or ADMIN,
                ended_at=row["ended_at"],
                seconds=row["ended_at"] - row["leased_at"],
            )
            for row in self._rows(found)
        ]

    def took(self) -> list[Took]:
        """Return how long each attempt that ended in a result took, oldest first."""
        tries = tables.attempts
        found = (
            select(tries, tables.runs)
            .join_from(tries, tables.runs, tables.runs.c.run_id == tries.c.run_id)
            .where(tries.c.state == AttemptState.SUCCEEDED.value)
            .order_by(tries.c.ended_at)
        )
        return [took_of(row) for row in self._rows(found)]

    def close(self) -> None:
        """Release the store's file; called once, last."""
        self._readers.dispose()

    def _runs(self, wanted: Sequence[ColumnElement[bool]]) -> list[Run]:
        tries = select(tables.attempts).join(tables.runs).where(*wanted)
        found = select(tables.runs).join(tables.sweeps).where(*wanted)
        in_order = (tables.sweeps.c.number, tables.runs.c.position, tables.runs.c.run_id)
        with transaction(self._readers, self._path) as connection:
            numbered = _read(connection, tries.order_by(tables.attempts.c.number))
            rows = _read(connection, found.order_by(*in_order))
        attempts = _by_key(numbered, ("run_id",))
        return [run_of(row, attempts[row["run_id"],]) for row in rows]

    def _rows(self, query: Select[*tuple[Any, ...]]) -> list[Row]:
        with transaction(self._readers, self._path) as connection:
            return _read(connection, query)


def _read(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[Row]:
    return [dict(row) for row in connection.execute(query).mappings()]


def _of_sweep(sweep_id: str | None) -> list[ColumnElement[bool]]:
    return [] if sweep_id is None else [tables.runs.c.sweep_id == sweep_id]


def _by_key(rows: Iterable[Row], key: tuple[str, ...]) -> defaultdict[tuple[Any, ...], list[Row]]:
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[_key(row, key)].append(row)
    return groups


def _key(row: Row, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
