"""What people call devices and sweeps, beside what was measured, as it is now."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from controller.contracts.device_names import told_apart
from controller.store import tables
from controller.store.snapshot import Measured, Snapshot


def with_names(
    outcomes: Sequence[Measured], snapshot: Snapshot, connection: Connection
) -> list[Measured]:
    """Return rows of outcomes with `device_name`, the shown name of the device or its id, and
    `tags`, those of the sweep.

    A device whose record is damaged has its id, and damaged tags are left out: whoever reads the
    devices or the tags is told of it, since no outcome is damaged by it.
    """
    if not outcomes:
        return []
    silent = Snapshot(connection, lambda *_: None)
    names = told_apart(
        (row["device_id"], row["facts"], (row["life"] or {}).get("name"))
        for row in silent.records(tables.devices, "device", "device_id")
    )
    tags = {row["sweep_id"]: row["tags"] for row in silent.annotations()}
    return [
        (
            {
                **row,
                "device_name": names.get(row["device_id"], row["device_id"]),
                "tags": tags.get(row["sweep_id"], ()),
            },
            measured,
        )
        for row, measured in outcomes
    ]
