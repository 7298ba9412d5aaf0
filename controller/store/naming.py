"""What people call devices and sweeps, beside what was measured, as it is now."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from controller.contracts.device_names import told_apart
from controller.contracts.shown_names import ShownNames
from controller.store import tables
from controller.store.snapshot import Measured, Snapshot


def names_now(connection: Connection) -> ShownNames:
    """Return the present names and tags.

    A device whose record is damaged has its id, and damaged tags are left out: whoever reads the
    devices or the tags is told of it, since no outcome is damaged by it.
    """
    silent = Snapshot(connection, lambda *_: None)
    names = told_apart(
        (row["device_id"], row["facts"], (row["life"] or {}).get("name"))
        for row in silent.records(tables.devices, "device", "device_id")
    )
    return ShownNames(names, {row["sweep_id"]: row["tags"] for row in silent.annotations()})


def with_names(
    outcomes: Sequence[Measured], snapshot: Snapshot, connection: Connection
) -> list[Measured]:
    """Return rows of outcomes with `device_name` and `tags`, see `names_now`."""
    if not outcomes:
        return []
    shown = names_now(connection)
    return [
        (
            {
                **row,
                "device_name": shown.device(row["device_id"]),
                "tags": shown.tags(row["sweep_id"]),
            },
            measured,
        )
        for row, measured in outcomes
    ]
