"""Where a run is stored: in its submission's packed record until its first lease, then in a row.

A run that a record can't represent, or whose record is damaged, has a row from the start.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from controller.contracts.run import Run
from controller.store import tables
from controller.store.packing import state_of, states_of, unpack, with_states
from controller.store.rows import Row
from controller.store.sealing import seal_of_row

UNLEASED = tables.unleased


def ids_of_sweep(connection: Connection, sweep_id: str) -> set[str] | None:
    """Return the ids of a sweep's runs; None if one of its records can't be read."""
    mine = select(tables.runs.c.run_id).where(tables.runs.c.sweep_id == sweep_id)
    records = [*_records(connection, UNLEASED.c.sweep_id == sweep_id)]
    if None in records:
        return None
    try:
        packed = [run.run_id for record in records if record for run in unpack(record)]
    except ValueError:
        return None
    return {*connection.scalars(mine), *packed}


def sweeps_with_rows(connection: Connection, runs: Iterable[Run]) -> dict[str, str]:
    """Return those of some runs that have rows: run id → sweep id."""
    ids = func.json_each(json.dumps([run.run_id for run in runs])).table_valued("value")
    query = select(tables.runs.c.run_id, tables.runs.c.sweep_id)
    found = connection.execute(query.where(tables.runs.c.run_id.in_(select(ids.c.value))))
    return {row.run_id: row.sweep_id for row in found}


def is_packed(connection: Connection, ids: set[str]) -> bool:
    """Return whether a packed record has a run with one of these ids; unpacks all records."""
    sound = (record for record in _records(connection) if record)
    return any(run.run_id in ids for record in sound for run in unpack(record))


def add_packed(
    connection: Connection, record: Row | None, unsaid: set[str], new: Sequence[Run]
) -> list[Run]:
    """Store the new runs of a record; return those of them that need rows.

    unsaid: ids of runs that the record can't represent.
    """
    if record is None or any(_records(connection, _is_at(record))):
        return list(new)
    places = {run.position for run in new if run.run_id not in unsaid}
    states = [
        state if position in places else None for position, state in enumerate(states_of(record))
    ]
    if any(states):
        connection.execute(insert(UNLEASED), with_states(record, states))
    return [run for run in new if run.run_id in unsaid]


def save_packed(connection: Connection, runs: Iterable[Run]) -> list[Run]:
    """Store the present state of runs without rows; return those that need rows now."""
    submissions: dict[tuple[str, float], list[Run]] = defaultdict(list)
    for run in runs:
        submissions[run.sweep_id, run.created_at].append(run)
    return [
        run
        for (sweep_id, created_at), group in submissions.items()
        for run in _save(connection, {"sweep_id": sweep_id, "created_at": created_at}, group)
    ]


def _save(connection: Connection, submission: Row, runs: Sequence[Run]) -> list[Run]:
    record = next(_records(connection, _is_at(submission)), None)
    if record is None:
        return list(runs)
    states, need_rows = states_of(record), []
    for run in runs:
        packed = run.position < len(states) and states[run.position] is not None
        if packed:
            states[run.position] = state_of(run)
        if not packed or run.attempts:
            need_rows.append(run)
    if any(states):
        changed = with_states(record, states)
        values = {name: changed[name] for name in ("spans", "checksum")}
        connection.execute(update(UNLEASED).where(_is_at(record)).values(values))
    else:
        connection.execute(delete(UNLEASED).where(_is_at(record)))
    return need_rows


def _is_at(record: Mapping[str, object]) -> ColumnElement[bool]:
    return (UNLEASED.c.sweep_id == record["sweep_id"]) & (
        UNLEASED.c.created_at == record["created_at"]
    )


def _records(
    connection: Connection, where: ColumnElement[bool] | None = None
) -> Iterator[Row | None]:
    """Yield records; None for one that is damaged."""
    query = select(UNLEASED)
    found = connection.execute(query if where is None else query.where(where)).mappings()
    for row in map(dict, found.all()):
        yield row if _is_sound(row) else None


def _is_sound(row: Row) -> bool:
    try:
        return bool(seal_of_row(UNLEASED, row) == row["checksum"] and states_of(row))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
