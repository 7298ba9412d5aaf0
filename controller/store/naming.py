"""What people call devices and sweeps, beside what was measured, as it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from controller.contracts.device_names import told_apart
from controller.store import tables
from controller.store.snapshot import Measured, Snapshot


@dataclass(frozen=True, slots=True)
class ShownNames:
    """The names of devices, and the tags of sweeps."""

    of_devices: Mapping[str, str]
    of_sweeps: Mapping[str, Sequence[str]]

    def device(self, device_id: str) -> str:
        """Return the shown name of a device; its id if it has none."""
        return self.of_devices.get(device_id, device_id)

    def tags(self, sweep_id: str) -> Sequence[str]:
        """Return the tags of a sweep."""
        return self.of_sweeps.get(sweep_id, ())


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
