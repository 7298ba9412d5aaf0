"""A device: what it is, who holds it and why, and its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from controller.api import reads
from controller.api.queries import NoQuery, ResultQuery
from controller.api.reads import Reading
from controller.contracts.device import DeviceHistoryEntry
from controller.contracts.errors import NotFound
from controller.contracts.facts import unit_of
from controller.contracts.records import StoredResult
from controller.page.fleet import fleet_now
from controller.page.kept import Kept
from controller.platform.terminal import LONGEST
from controller.reports.figures import fact_label
from controller.reports.views.conditions import fact_text
from controller.runtime.fleet import DeviceOverview

ENTRIES: Final = 100
"""Entries of a history on a page."""
RESULTS: Final = 10


class HistoryQuery(NoQuery):
    """Parameters of a device's page."""

    before: float | None = Field(default=None, ge=0, le=1e12, description="Seconds: older ones.")


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device with its history."""

    device_id: str
    now: DeviceOverview | None
    """None for one that was removed."""
    facts: Sequence[tuple[str, str]]
    history: Sequence[DeviceHistoryEntry]
    """The newest first."""
    before: float | None
    """Where older entries begin; None without older ones."""
    results: Sequence[StoredResult]
    """The newest."""


def device_view(farm: Reading, kept: Kept, device_id: str, asked: HistoryQuery) -> DeviceView:
    """Return a device; raises NotFound for one that never was, StoreDamaged."""
    fleet = fleet_now(farm, kept)
    now = next((one for one in fleet.devices if one.device.id == device_id), None)
    history = farm.store.recent_history(device_id, ENTRIES, asked.before)
    if now is None and not history:
        tried = f"show device {device_id[:LONGEST]!r}"
        raise NotFound(tried, "there is none with this id", "See the fleet.")
    facts = now.device.facts if now else {}
    newest = ResultQuery(device=device_id, sort="-stored", limit=RESULTS)
    return DeviceView(
        device_id=device_id,
        now=now,
        facts=[
            (fact_label(name), fact_text(value, unit_of(name, {}))) for name, value in facts.items()
        ],
        history=history,
        before=history[-1].at if len(history) >= ENTRIES else None,
        results=reads.results(farm, newest, {}).items,
    )
