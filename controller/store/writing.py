"""Writing of rows to the store's tables, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, Table, Update, bindparam, func, select, update
from sqlalchemy.dialects.sqlite import Insert, insert

from controller.contracts.device import DeviceHistoryEntry, RegisteredDevice
from controller.contracts.records import SweepRecord
from controller.contracts.run import OutcomeRecord, Run
from controller.store import tables
from controller.store.outcome_keys import keep_keys
from controller.store.rows import (
    Row,
    attempt_rows,
    cell_row,
    device_row,
    event_row,
    measurement_rows,
    outcome_row,
    run_row,
    sweep_row,
)
from controller.store.sealing import seal_of_row


def keep_devices(
    connection: Connection,
    devices: Sequence[RegisteredDevice],
    events: Sequence[DeviceHistoryEntry],
) -> None:
    """Store the present state of devices, and their events."""
    known, rows = tables.devices, [device_row(d) for d in devices]
    # The row of its agent may be lost: a reference is written, and so checked, only if it changes.
    execute(connection, upsert(known, keep=("agent_id",)), rows)
    moved = update(known).where(
        known.c.device_id == bindparam("moved"), known.c.agent_id != bindparam("owner")
    )
    owners = [{"moved": row["device_id"], "owner": row["agent_id"]} for row in rows]
    execute(connection, moved.values(agent_id=bindparam("owner")), owners)
    execute(connection, insert(tables.device_events), [event_row(event) for event in events])


def keep_sweep(connection: Connection, record: SweepRecord, runs: int) -> None:
    """Insert a sweep; for an existing one, only the number of its runs can change."""
    sweeps = tables.sweeps
    mine = sweeps.c.sweep_id == record.sweep_id
    stored = connection.execute(select(sweeps).where(mine)).mappings().first()
    if stored is None:
        connection.execute(insert(sweeps), sweep_row(record, runs))
    elif stored["runs"] != runs and stored["checksum"] == seal_of_row(sweeps, dict(stored)):
        grown = {**stored, "runs": runs}
        changed = {"runs": runs, "checksum": seal_of_row(sweeps, grown)}
        connection.execute(update(sweeps).where(mine).values(changed))


def keep_runs(connection: Connection, runs: Sequence[Run]) -> None:
    """Insert rows for runs and their cells; a damaged row of an existing cell is replaced."""
    distinct = {row["cell_key"]: row for row in _cell_rows(runs).values()}
    execute(connection, upsert(tables.cells), list(distinct.values()))
    keep_rows(connection, runs)


def keep_rows(connection: Connection, runs: Sequence[Run]) -> None:
    """Store the present state of runs that have rows, with their attempts."""
    cells = _cell_rows(runs)
    rows = [run_row(run, cells[id(run.cell)]) for run in runs]
    execute(connection, upsert(tables.runs), rows)
    _keep_attempts(connection, runs)


def _cell_rows(runs: Sequence[Run]) -> dict[int, Row]:
    """Return the row of each cell by its identity; made once for all runs of the cell."""
    return {id_: cell_row(cell) for id_, cell in {id(run.cell): run.cell for run in runs}.items()}


def _keep_attempts(connection: Connection, runs: Sequence[Run]) -> None:
    rows = [row for run in runs for row in attempt_rows(run)]
    found = [
        {**row, "leased": row["device_id"], "of_run": row["run_id"], "tried": row["number"]}
        for row in rows
    ]
    execute(connection, _upsert_attempts(), found)


@cache
def _upsert_attempts() -> Insert:
    """Return the statement that keeps an attempt; the facts about its device are read at its first
    save.

    They stay, as do its device and agent, whose rows may be lost: then a reference that was written
    again would be refused.
    """
    devices, known = tables.devices, tables.attempts.alias()
    device = select(devices).where(devices.c.device_id == bindparam("leased"))
    itself = select(known).where(
        known.c.run_id == bindparam("of_run"), known.c.number == bindparam("tried")
    )
    facts = {
        name: func.coalesce(
            device.with_only_columns(devices.c[column]).scalar_subquery(),
            itself.with_only_columns(known.c[name]).scalar_subquery(),
        )
        for name, column in (("device_kind", "kind"), ("virtual", "virtual"))
    }
    return upsert(tables.attempts, keep=("device_id", "agent_id", *facts)).values(facts)


def keep_outcome(connection: Connection, run: Run, record: OutcomeRecord) -> bool:
    """Store an outcome once; return False if the attempt has a different one."""
    tries = tables.attempts
    leased = select(tries.c.device_kind, tries.c.virtual).where(
        tries.c.run_id == record.run_id, tries.c.number == record.attempt
    )
    (attempt,) = connection.execute(leased).mappings()
    row, measured = outcome_row(run, record, dict(attempt)), measurement_rows(record)
    key = ["run_id", "attempt", "counted"]
    new = connection.execute(
        insert(tables.outcomes).on_conflict_do_nothing(index_elements=key), row
    )
    if new.rowcount:
        execute(connection, insert(tables.measurements), measured)
        keep_keys(connection, record)
        return True
    outcomes, measurements = tables.outcomes, tables.measurements
    return (
        _stored(connection, outcomes, record) == [row]
        and _stored(connection, measurements, record) == measured
    )


def upsert(table: Table, keep: tuple[str, ...] = ()) -> Insert:
    """Insert rows; for an existing primary key, overwrite all columns but `keep`."""
    statement = insert(table)
    overwritten = [c.name for c in table.columns if not c.primary_key and c.name not in keep]
    return statement.on_conflict_do_update(
        index_elements=table.primary_key.columns,
        set_={name: statement.excluded[name] for name in overwritten},
    )


def execute(connection: Connection, statement: Insert | Update, rows: Sequence[Row]) -> None:
    """Execute a statement for each row, if there are any."""
    if rows:  # for no rows, SQLAlchemy would insert one of defaults
        connection.execute(statement, rows)


def _stored(connection: Connection, table: Table, record: OutcomeRecord) -> list[Row]:
    """Return the stored rows of an outcome, without the numbers that the store assigned."""
    query = select(*(column for column in table.columns if column.name != "number")).where(
        table.c.run_id == record.run_id,
        table.c.attempt == record.attempt,
        table.c.counted == record.counted,
    )
    return [dict(row) for row in connection.execute(query).mappings()]
