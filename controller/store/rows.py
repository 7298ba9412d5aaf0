"""Contracts as rows of the tables, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table

from controller.contracts.annotations import SweepAnnotations
from controller.contracts.catalog import Catalog
from controller.contracts.device import (
    Agent,
    Device,
    DeviceHistoryEntry,
    DeviceState,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.records import (
    ADMIN,
    NewestResult,
    Spent,
    StoredFailure,
    StoredResult,
    SweepRecord,
    Token,
    Took,
)
from controller.contracts.result import Result
from controller.contracts.run import Attempt, OutcomeRecord, Run, lasted_s
from controller.contracts.sweep import Cell
from controller.store import tables
from controller.store.sealing import seal_of_outcome, seal_of_row, seal_of_run

Row = Mapping[str, Any]
"""A row by column name; its values are validated by the contract when it is read."""

OUTCOME_COLUMNS = ("type", "validity", "blame", "kind", "message")
"""Fields of an outcome with a column of their own; the others are in its document."""


def sweep_row(record: SweepRecord, runs: int) -> Row:
    """Return the row of `sweeps`; runs: the number of the sweep's runs."""
    row = {
        "sweep_id": record.sweep_id,
        "name": record.sweep.name,
        "generation": record.generation,
        "submitted_at": record.submitted_at,
        "document": record.sweep.model_dump(mode="json"),
        "user": record.user,
        "runs": runs,
    }
    return _sealed(tables.sweeps, row)


def sweep_of(row: Row) -> SweepRecord:
    """Return the sweep of a row of `sweeps`."""
    return SweepRecord(
        sweep_id=row["sweep_id"],
        sweep=row["document"],
        generation=row["generation"],
        submitted_at=row["submitted_at"],
        user=row["user"] or ADMIN,
    )


def annotations_row(annotations: SweepAnnotations) -> Row:
    """Return the row of `sweep_annotations`."""
    return _sealed(tables.sweep_annotations, annotations.model_dump(mode="python"))


def annotations_of(row: Row) -> SweepAnnotations:
    """Return the tags and notes of a row of `sweep_annotations`."""
    return SweepAnnotations.model_validate(_only(row, SweepAnnotations.model_fields))


def cell_row(cell: Cell) -> Row:
    """Return the row of `cells`; the checksums of its runs cover it."""
    return {**cell.model_dump(mode="json"), "cell_key": cell.key}


def run_row(run: Run, cell: Row) -> Row:
    """Return the row of `runs`; cell: the row of its cell."""
    said = run.model_dump(mode="json", exclude={"cell", "attempts"})
    row = {**said, "cell_key": cell["cell_key"]}
    attempts = [attempt["checksum"] for attempt in attempt_rows(run)]
    return {**row, "checksum": seal_of_run({**cell, **row}, attempts)}


def run_of(tried: tuple[Row, list[Row]]) -> Run:
    """Return the run of a row of `runs` and its rows of `attempts`, in order."""
    row, attempts = tried
    return Run.model_validate(
        {
            **_only(row, Run.model_fields),
            "cell": _only(row, Cell.model_fields),
            "attempts": [_only(attempt, Attempt.model_fields) for attempt in attempts],
        }
    )


def attempt_rows(run: Run) -> list[Row]:
    """Return the rows of `attempts`, without the facts about their devices."""
    # Only the running controller knows when a lease expires; nothing reads that column.
    kept = {"run_id": run.run_id, "expires_at": 0.0}
    rows = [{**kept, **attempt.model_dump(mode="json")} for attempt in run.attempts]
    return [_sealed(tables.attempts, row) for row in rows]


def outcome_row(run: Run, record: OutcomeRecord, leased: Row) -> Row:
    """Return the row of `outcomes`; leased: the attempt's row, with the facts about its device."""
    said = record.outcome.model_dump(mode="json", exclude={"metrics"})
    columns = {name: said.pop(name, None) for name in OUTCOME_COLUMNS}
    row = {
        **record.model_dump(mode="json", exclude={"outcome"}),
        **columns,
        "device_id": run.attempts[record.attempt - 1].device_id,
        "workload": run.cell.workload,
        "stack": run.cell.stack,
        "scenario": run.cell.scenario,
        "document": said,
    }
    cell = cell_row(run.cell)
    origin = {**leased, **cell, **run_row(run, cell)}
    return {**row, "checksum": seal_of_outcome(row, origin, measurement_rows(record))}


def measurement_rows(record: OutcomeRecord) -> list[Row]:
    """Return the rows of `measurements` by name; none for a failure."""
    if not isinstance(record.outcome, Result):
        return []
    key = record.model_dump(mode="json", include={"run_id", "attempt", "counted"})
    return [
        {**key, "name": name, **measurement.model_dump(mode="json")}
        for name, measurement in sorted(record.outcome.metrics.items())
    ]


def result_of(measured: tuple[Row, list[Row]]) -> StoredResult:
    """Return the result of a row that joins `outcomes`, `attempts` and `runs`, and its
    `measurements`."""
    row, measurements = measured
    metrics = {m["name"]: _only(m, ("value", "unit", "samples")) for m in measurements}
    fields = _only(row, StoredResult.model_fields)
    return StoredResult.model_validate({**fields, **row["document"], "metrics": metrics})


def newest_of(measured: tuple[Row, list[Row]], catalog: Catalog) -> NewestResult:
    """Return the short form of a result, see `result_of`; catalog: says which metric ranks it."""
    row, measurements = measured
    metrics = {m["name"]: _only(m, ("value", "unit")) for m in measurements}
    fields = _only(row, NewestResult.model_fields)
    ranked_by = catalog.ranked_by(row["scenario"])
    drawn = [m["samples"] or (m["value"],) for m in measurements if m["name"] == ranked_by]
    said = {
        "metrics": metrics,
        "ranked": drawn[0] if drawn else (),
        "profile": row["document"].get("profile"),
    }
    return NewestResult.model_validate({**fields, **said, "profiled": bool(row["profiled"])})


def failure_of(measured: tuple[Row, list[Row]]) -> StoredFailure:
    """Return the failure of a row that joins an outcome, its attempt, run and cell."""
    row, _ = measured
    fields = _only(row, StoredFailure.model_fields)
    return StoredFailure.model_validate({**fields, **row["document"]})


def agent_row(registered: RegisteredAgent) -> Row:
    """Return the row of `agents`."""
    agent = registered.agent.model_dump(mode="json", exclude={"id"})
    row = {
        "agent_id": registered.agent.id,
        **agent,
        **_presence(registered),
        "revoked": _holds(registered),
        "clock_ahead_s": registered.clock_ahead_s,
    }
    return _sealed(tables.agents, row)


def agent_of(row: Row) -> RegisteredAgent:
    """Return the agent of a row of `agents`."""
    agent = Agent.model_validate({"id": row["agent_id"], **_only(row, Agent.model_fields)})
    holds = dict(row["revoked"] or {})
    held = {"draining": holds.pop("draining", None), "revoked": holds or None}
    return RegisteredAgent(agent=agent, **{**_only(row, RegisteredAgent.model_fields), **held})


def _holds(registered: RegisteredAgent) -> dict[str, Any] | None:
    """Return the holds of an agent as one document; None without any."""
    revoked, draining = registered.revoked, registered.draining
    holds = revoked.model_dump() if revoked else {}
    return (holds | ({"draining": draining.model_dump()} if draining else {})) or None


def device_row(registered: RegisteredDevice) -> Row:
    """Return the row of `devices`."""
    row = {
        **registered.device.model_dump(mode="json", exclude={"id", "name"}),
        "device_id": registered.device.id,
        "agent_id": registered.agent_id,
        **_presence(registered),
        "life": registered.life.model_dump(mode="json", exclude_defaults=True),
    }
    return _sealed(tables.devices, row)


def device_of(row: Row) -> RegisteredDevice:
    """Return the device of a row of `devices`."""
    return RegisteredDevice(
        device=Device.model_validate({"id": row["device_id"], **_only(row, Device.model_fields)}),
        agent_id=row["agent_id"],
        online=row["online"],
        since=row["since"],
        life=row["life"] or {},
    )


def event_row(event: DeviceHistoryEntry) -> Row:
    """Return the row of `device_events`."""
    return _sealed(tables.device_events, dict(event))


def event_of(row: Row) -> DeviceHistoryEntry:
    """Return the event of a row of `device_events`."""
    return DeviceHistoryEntry.model_validate(_only(row, DeviceHistoryEntry.model_fields))


def attempt_event_of(row: Row) -> DeviceHistoryEntry:
    """Return the history entry of its device for a row of `attempts`."""
    ended = row["ended_at"]
    ending = f"{row['state']} after {ended - row['leased_at']:.1f} s" if ended else "still runs"
    return DeviceHistoryEntry(
        device_id=row["device_id"],
        at=row["leased_at"],
        state=DeviceState.BUSY,
        who=row["agent_id"],
        why=f"run {row['run_id']}, attempt {row['number']}: {ending}",
    )


def spent_of(row: Row) -> Spent:
    """Return the device time of an ended attempt's row, with the user of its sweep."""
    return Spent(
        user=row["user"] or ADMIN,
        ended_at=row["ended_at"],
        seconds=_lasted_s(row) * (1 + len(row["partners"] or ())),
    )


def took_of(row: Row) -> Took:
    """Return the time that an attempt took, from a row that joins it, its run and cell."""
    fields = _only({**row, "device": row["device_id"]}, Took.model_fields)
    return Took.model_validate({**fields, "seconds": _lasted_s(row)})


def _lasted_s(row: Row) -> float:
    """Return the seconds of an ended attempt, from a row with its run's deadline."""
    return lasted_s(row["leased_at"], row["ended_at"], row["deadline_s"])


def token_of(row: Row) -> Token:
    """Return the token of a row of `tokens`."""
    said = _only(row, Token.model_fields)
    return Token.model_validate({name: value for name, value in said.items() if value is not None})


def token_row(token: Token) -> Row:
    """Return the row of `tokens`."""
    return _sealed(tables.tokens, dict(token))


def _sealed(table: Table, row: Row) -> Row:
    return {**row, "checksum": seal_of_row(table, row)}


def _presence(registered: RegisteredAgent | RegisteredDevice) -> Row:
    return {"online": registered.online, "since": registered.since}


def _only(row: Row, names: Mapping[str, object] | tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}
