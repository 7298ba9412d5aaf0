"""`benchfarm phone …`"""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

import typer

from controller.cli.common import Json, home, show_json, show_table

app = typer.Typer(help="Android phones, real and virtual.", no_args_is_help=True)

Address = Annotated[
    str,
    typer.Argument(help="HOST[:PORT] of a phone that listens for adb; PORT is 5555 if not given."),
]
AdbServer = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Which of the agent's adb servers, if it uses several."),
]


@app.command("list")
def list_phones(json: Json = False) -> None:
    """List the phones that this host's agent sees, and why it doesn't use some."""
    from rich.table import Table

    from controller.runtime.phones import phones_here

    found = phones_here(home())
    if json:
        show_json(found)
        return
    table = Table("device", "adb serial", "adb server", "complaint")
    for phone in found:
        complaint = str(phone.complaint.error()) if phone.complaint else ""
        table.add_row(phone.device_id or "", phone.serial, phone.adb_server, complaint)
    show_table(table)


@app.command()
def connect(address: Address, adb_server: AdbServer = None) -> None:
    """Have this host's agent reach a phone over TCP; it then registers by itself."""
    from controller.runtime.phones import connect_phone

    _say_joined(connect_phone(home(), address, adb_server), address)


@app.command()
def clean(device: Annotated[str, typer.Argument(help="Device id; see device list.")]) -> None:
    """Remove what runs have put on a phone: bundles, models, data; the next run pushes anew."""
    from controller.runtime.phones import clean_phone

    typer.echo(f"{device}: {clean_phone(home(), device) / 1e6:.1f} MB freed")


@app.command()
def virtual(
    profile: Annotated[str, typer.Option(help="flagship, midrange, old, or a YAML file.")],
    serial: Annotated[str | None, typer.Option(help="Instead of the profile's.")] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="A fault from the start, such as offline.")
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect/--no-connect", help="Join the farm of BENCHFARM_HOME.")
    ] = True,
    adb_server: AdbServer = None,
) -> None:
    """Be a virtual phone until Ctrl-C; what it measures is marked virtual everywhere."""
    from controller.runtime.phones import adb_key, connect_phone, started_phone

    options = [f"--serial={serial}"] if serial else []
    options += [f"--fault={one}" for one in fault or ()]
    key = adb_key(home(), adb_server) if connect else None
    with started_phone(profile, key, options=options) as phone:
        typer.echo(json_module.dumps(phone.facts))
        if connect:
            _say_joined(connect_phone(home(), phone.address, adb_server), phone.address)
        try:
            sys.exit(phone.process.wait())
        except KeyboardInterrupt:
            sys.exit(0)


def _say_joined(device: str, address: str) -> None:
    typer.echo(f"{device} has joined by {address}; see: benchfarm device list")
