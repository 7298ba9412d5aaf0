"""`benchfarm device …`"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.common import Json, home, reading, show_json, show_table

app = typer.Typer(help="What can be measured on.", no_args_is_help=True)


@app.command("list")
def list_devices(json: Json = False) -> None:
    """List all devices that ever registered, and what they do now."""
    from rich.table import Table

    from controller.runtime.fleet import devices_now

    with reading() as store:
        devices = devices_now(home(), store)
    if json:
        show_json(devices)
        return
    table = Table("device", "kind", "state", "model", "labels", "agent")
    for status in devices:
        device = status.device
        model = str(device.facts.get("cpu_model", device.facts.get("model", "")))
        labels = " ".join(f"{key}={value}" for key, value in sorted(device.labels.items()))
        kind = f"{device.kind} (virtual)" if device.virtual else str(device.kind)
        table.add_row(device.id, kind, status.state, model, labels, status.agent_id)
    show_table(table)


@app.command()
def show(device: Annotated[str, typer.Argument(help="Device id.")], json: Json = False) -> None:
    """Show all that is known of a device."""
    from rich.table import Table

    from controller.contracts.errors import NotFound
    from controller.runtime.fleet import devices_now

    with reading() as store:
        found = {status.device.id: status for status in devices_now(home(), store)}
    if device not in found:
        known = ", ".join(found) or "none has registered yet"
        raise NotFound(f"looking for device {device}", "there is none", f"known: {known}")
    status = found[device]
    if json:
        show_json(status)
        return
    table = Table("fact", "value", title=f"{device}: {status.state}", title_justify="left")
    for name, value in {**status.device.labels, **status.device.facts}.items():
        table.add_row(name, " ".join(value) if isinstance(value, tuple) else str(value))
    show_table(table)
