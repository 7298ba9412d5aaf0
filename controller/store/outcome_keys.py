"""The keys of outcomes: what lists filter and sort by, in narrow rows beside the outcomes.

A list looks through them, newest first, and then reads the outcomes that it shows; so its cost does
not grow with what outcomes hold. They are copies, made with each outcome. If some are missing, as
in a store of an earlier release, the writer makes all anew when it opens the store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, FromClause, Select, Table, func, select, text

from controller.contracts.errors import StoreDamaged
from controller.contracts.outcome_filter import Chosen, OutcomeFilter
from controller.contracts.run import OutcomeRecord
from controller.store import tables
from controller.store.outcome_reading import keys_of_cells

_COPY = """
INSERT INTO outcome_keys (number, counted, type, device_id, cell_key, sweep_id, validity, virtual,
    started_at)
SELECT outcomes.number, outcomes.counted, outcomes.type, outcomes.device_id, runs.cell_key,
    runs.sweep_id, outcomes.validity, attempts.virtual, outcomes.started_at
FROM outcomes
LEFT JOIN runs ON runs.run_id = outcomes.run_id
LEFT JOIN attempts
    ON attempts.run_id = outcomes.run_id AND attempts.number = outcomes.attempt
"""
_COPY_ONE = (
    f"{_COPY} WHERE outcomes.run_id = :run_id AND outcomes.attempt = :attempt"
    " AND outcomes.counted = :counted"
)


def keep_keys(connection: Connection, record: OutcomeRecord) -> None:
    """Store the keys of an outcome that has just been stored."""
    key = {"run_id": record.run_id, "attempt": record.attempt, "counted": record.counted}
    connection.execute(text(_COPY_ONE), key)


def keys_are_complete(connection: Connection) -> bool:
    """Return whether outcomes have their keys, as far as the first and the last of them tell: all
    are made at once, and then each with its outcome."""
    first, last = _ends(connection, tables.outcomes)
    if first is None or last is None:
        return True
    first_key, last_key = _ends(connection, tables.outcome_keys)
    if first_key is None or last_key is None:
        return False
    return first_key <= first and last <= last_key


def make_keys(connection: Connection) -> None:
    """Make the keys of all outcomes anew."""
    connection.execute(tables.outcome_keys.delete())
    connection.execute(text(_COPY))


def require_keys(connection: Connection, path: str) -> None:
    """Raise StoreDamaged unless each outcome has its keys."""
    if not keys_are_complete(connection):
        raise StoreDamaged(path, "keys of its outcomes are missing")


def numbers_by_keys(
    connection: Connection, kind: str, wanted: OutcomeFilter, tagged: list[str] | None
) -> Select[int, float]:
    """Return the query for the numbers and starts of the outcomes that a filter keeps.

    tagged: the sweeps that have the filter's tags; None if it has none.
    """
    keys = tables.outcome_keys.c
    query = select(keys.number, keys.started_at).where(keys.type == kind)
    equal = (
        (keys.device_id, wanted.device),
        (keys.validity, wanted.validity),
        (keys.sweep_id, wanted.sweep_id),
        (keys.virtual, wanted.virtual),
    )
    for column, value in equal:
        query = query if value is None else query.where(column == value)
    if wanted.since is not None:
        query = query.where(keys.started_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(keys.started_at < wanted.until)
    if tagged is not None:
        query = query.where(keys.sweep_id.in_(_listed(tagged)))
    if not wanted.cell.keeps_all:
        query = query.where(keys.cell_key.in_(_listed(keys_of_cells(connection, wanted.cell))))
    return query


def newest_of_cells(kind: str, chosen: Chosen, repeats: int) -> Select[int]:
    """Return the query for the numbers of the newest counted outcomes of each cell on each device,
    newest first; it steps from cell to cell in an index."""
    cells = tables.outcome_keys.alias("cells_on_devices")
    own, newest = tables.outcome_keys.alias("own"), tables.outcome_keys.alias("newest")
    there = select(cells.c.device_id, cells.c.cell_key).where(*_conditions(cells, kind, chosen))
    pairs = there.distinct().subquery("pairs")
    numbers = (
        select(own.c.number)
        .where(*_conditions(own, kind, Chosen(sweeps=chosen.sweeps)))
        .where(own.c.device_id == pairs.c.device_id, own.c.cell_key == pairs.c.cell_key)
        .order_by(own.c.number.desc())
        .limit(repeats)
        .correlate(pairs)
    )
    return (
        select(newest.c.number)
        .select_from(pairs.join(newest, newest.c.number.in_(numbers)))
        .order_by(newest.c.number.desc())
    )


def _conditions(keys: FromClause, kind: str, chosen: Chosen) -> list[ColumnElement[bool]]:
    """Return the conditions that keys are those of chosen outcomes that count."""
    cells = tables.cells.c
    kinds = (
        (cells.workload, chosen.workloads),
        (cells.stack, chosen.stacks),
        (cells.scenario, chosen.scenarios),
    )
    found: list[ColumnElement[bool]] = [keys.c.counted, keys.c.type == kind]
    of_cells = [column.in_(sorted(values)) for column, values in kinds if values]
    if of_cells:
        found.append(keys.c.cell_key.in_(select(cells.cell_key).where(*of_cells)))
    if chosen.devices:
        found.append(keys.c.device_id.in_(sorted(chosen.devices)))
    if chosen.sweeps:
        found.append(keys.c.sweep_id.in_(sorted(chosen.sweeps)))
    return found


def _listed(values: Sequence[str]) -> Select[str]:
    listed = func.json_each(json.dumps(values)).table_valued("value")
    return select(listed.c.value)


def _ends(connection: Connection, table: Table) -> tuple[int, int] | tuple[None, None]:
    """Return the lowest and the highest number of a table, if it has rows."""
    number = table.c.number
    ends = (select(end(number)).scalar_subquery() for end in (func.min, func.max))
    first, last = connection.execute(select(*ends)).one()
    return first, last
