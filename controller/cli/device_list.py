"""`benchfarm device list`, which imports nothing that runs a sweep, and no client of HTTP."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from rich.table import Table

from controller.cli.common import (
    Json,
    context_elsewhere,
    home,
    reading,
    show_json,
    show_table,
)
from controller.cli.meant import warn_if_away, warn_of_clocks, where
from controller.contracts.catalog import load_catalog
from controller.platform.terminal import say
from controller.runtime.fleet import DeviceOverview, agents_now, devices_now
from controller.runtime.phones import complaints_here
from controller.runtime.waiting import waiting_now
from controller.scheduling.runtimes import without_runtime


def list_devices(json: Json = False) -> None:
    """List all devices that ever registered, with their states."""
    catalog = cache(load_catalog)
    with reading() as store:
        warn_if_away()
        farm, runs = where(), store.runs(open_only=True)
        devices = devices_now(farm, store, runs, waiting_now(farm, store, runs, catalog))
        _warn_of_phones({status.device.id for status in devices})
        warn_of_clocks(agents_now(farm, store))
    if json:
        return show_json(devices)
    show_table(_table(devices))
    stacks = catalog().stacks.values()
    for status in devices:
        if line := without_runtime(status.device, stacks):
            say(line)
    return None


def _table(devices: Sequence[DeviceOverview]) -> Table:
    table = Table(
        "device", "kind", "state", "since (UTC)", "who", "why", "queued", "model", "labels", "agent"
    )
    for status in devices:
        device = status.device
        model = str(device.facts.get("cpu_model", device.facts.get("model", "")))
        labels = " ".join(f"{key}={value}" for key, value in sorted(device.labels.items()))
        kind = f"{device.kind}{device.likeness}"
        since = status.model_dump(mode="json")["since"][:19].replace("T", " ")
        why = "; ".join(filter(None, (status.why, status.locked)))
        stands = (status.state, since, status.who, why, str(status.queued or ""))
        table.add_row(status.name, kind, *stands, model, labels, status.agent_id)
    return table


def _warn_of_phones(shown: Collection[str]) -> None:
    """Say on standard error which phones of this host can't be used and why, in a line each.

    shown: ids of devices that are shown, and so are their states.
    """
    for error in () if context_elsewhere() else complaints_here(home(), shown):
        say(f"benchfarm: {error}", err=True)
