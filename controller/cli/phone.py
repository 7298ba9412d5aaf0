"""`benchfarm phone …`"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, exit_if_to_mend, home, show_checks, show_json, show_table
from controller.cli.references import phone_of
from controller.contracts.adb_status import Offer
from controller.contracts.errors import UserError
from controller.platform.terminal import say
from controller.runtime.phone_doctor import (
    examined_phone,
    kept_settings,
    restored_phone,
    set_up_phone,
)
from controller.runtime.phones import (
    clean_phone,
    connect_phone,
    disconnect_phone,
    key_to_let_in,
    phones_here,
    started_phone,
)
from controller.runtime.wireless import nearby_phones, pair_phone


class RunPolicy(StrEnum):
    """The conditions a run is to be in; docs/phones.md has their limits."""

    CI = "ci"
    LAB = "lab"
    MLPERF = "mlperf"


app = typer.Typer(no_args_is_help=True)

Address = Annotated[
    str,
    typer.Argument(help="HOST[:PORT] of a phone that listens for adb. [default port: 5555]"),
]
Phone = Annotated[str, typer.Argument(help="HOST[:PORT], device id or name; see `phone list`.")]
AdbServer = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT|SOCKET",
        help="The agent's adb server to use; required if it has several.",
    ),
]


@app.command("list")
def list_phones(
    nearby: Annotated[
        bool,
        typer.Option(
            "--nearby", help="Listen 3 s for phones that announce themselves by mDNS, too."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List the phones that this host's agent sees.

    Says why the agent does not use some of them.
    """
    found = phones_here(home())
    if nearby:
        found += nearby_phones(home(), {phone.serial for phone in found})
    if json:
        show_json(found)
        return
    table = Table("device", "adb serial", "adb server", "problem")
    for phone in found:
        complaint = str(phone.complaint.error()) if phone.complaint else ""
        device = phone.device_id or phone.last_device_id or ""
        table.add_row(device, phone.serial, phone.adb_server, complaint)
    show_table(table)


@app.command()
def connect(address: Address, adb_server: AdbServer = None) -> None:
    """Connect this host's agent to a phone over TCP.

    The phone then registers as a device by itself.
    """
    _say_joined(connect_phone(home(), address, adb_server), address)


@app.command()
def pair(
    address: Annotated[
        str, typer.Argument(help="HOST:PORT that the phone shows with its pairing code.")
    ],
    code: Annotated[
        str, typer.Argument(help="Pairing code; - asks for it, or reads it from a pipe.")
    ] = "-",
    adb_server: AdbServer = None,
) -> None:
    """Pair with a phone for wireless debugging.

    Needs Android 11 or later. Run `benchfarm phone connect` afterwards.
    """
    if code == "-":
        asked = sys.stdin.isatty()
        code = typer.prompt("Pairing code", hide_input=True) if asked else sys.stdin.readline(100)
    found = pair_phone(home(), address, code.strip(), adb_server)
    host = address.rpartition(":")[0]
    say(f"paired; now: benchfarm phone connect {found or f'{host}:PORT'}")
    if not found:
        say("PORT is on the phone's screen 'Wireless debugging'; it is not the pairing port")


@app.command()
def disconnect(phone: Phone) -> None:
    """Disconnect a phone that is connected over TCP.

    The agent does not reconnect to it until `benchfarm phone connect`.
    """
    say(f"{disconnect_phone(home(), phone_of(phone))}: disconnected")
    _say_kept()


@app.command()
def clean(
    device: Annotated[str, typer.Argument(help="Device id or name; see `device list`.")],
) -> None:
    """Remove what runs have put on a phone.

    Removes bundles, models and data; the next run pushes them again.
    """
    device = phone_of(device)
    say(f"{device}: {clean_phone(home(), device) / 1e6:.1f} MB freed")


@app.command()
def doctor(
    phone: Annotated[str, typer.Argument(help="Device id, name or adb serial; see `phone list`.")],
    policy: Annotated[
        RunPolicy, typer.Option(help="Policy whose limits to check.")
    ] = RunPolicy.MLPERF,
    set_: Annotated[
        bool,
        typer.Option(
            "--set", help="Change settings that adb can change; `phone restore` undoes it."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before --set changes settings.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what would make a phone's runs fail, and remedies.

    Also shows what would make results INVALID. Exit status 1 while anything is to be mended.
    """
    if set_ and not yes and (json or not sys.stdin.isatty()):
        seen = "there is no terminal to confirm it on"
        raise UserError("use --set", seen, "Add `--yes`.")
    phone = phone_of(phone)
    found = examined_phone(home(), phone, policy)
    if not (set_ and found.offers):
        show_checks(found.checks, json=json)
        if found.offers and not json:
            say(f"adb can set {_keys(found.offers)}: benchfarm phone doctor {phone} --set")
        return exit_if_to_mend(found.checks)
    if not json:
        for offer in found.offers:
            say(f"{offer.key}: {offer.former or 'not set'} -> {offer.value}")
    if yes or typer.confirm("Change these settings?"):
        found = set_up_phone(home(), phone, policy, [offer.key for offer in found.offers])
    show_checks(found.checks, json=json)
    return exit_if_to_mend(found.checks)


@app.command()
def restore(
    phone: Annotated[str, typer.Argument(help="Device id, name or adb serial; see `phone list`.")],
    json: Json = False,
) -> None:
    """Restore the settings that `phone doctor --set` changed.

    Leaves settings that were changed since.
    """
    checks = restored_phone(home(), phone_of(phone)).checks
    show_checks(checks, json=json)
    exit_if_to_mend(checks)


def _say_kept() -> None:
    for device in kept_settings(home()):
        say(
            f"{device}: settings are still changed; run: benchfarm phone restore {device}", err=True
        )


def _keys(offers: Sequence[Offer]) -> str:
    return ", ".join(offer.key for offer in offers)


@app.command()
def virtual(
    profile: Annotated[
        str,
        typer.Option(help="Profile: flagship, midrange, old, … (docs/phones.md), or a YAML file."),
    ],
    serial: Annotated[str | None, typer.Option(help="Serial. [default: the profile's]")] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="Fault from the start, such as offline; repeatable.")
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect/--no-connect", help="Connect to the farm of BENCHFARM_HOME.")
    ] = True,
    adb_server: AdbServer = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public adb keys to accept, as in adbkey.pub. [default: the agent's key]",
        ),
    ] = None,
    any_key: Annotated[
        bool, typer.Option("--any-key", help="Accept every user of this host; for tests.")
    ] = False,
) -> None:
    """Run a virtual phone until Ctrl-C.

    Its results are marked virtual everywhere.
    """
    if key and any_key:
        seen = "--key and --any-key are both given"
        raise UserError("start a virtual phone", seen, "Give one of them.")
    options = [f"--serial={serial}"] if serial else []
    options += [f"--fault={one}" for one in fault or ()]
    options += ["--any-key"] if any_key else []
    if not key and not any_key:
        key = key_to_let_in(home(), adb_server)
    with started_phone(profile, key, options=options) as phone:
        say(phone.facts.model_dump_json())
        if connect:
            _say_joined(connect_phone(home(), phone.address, adb_server), phone.address)
        try:
            sys.exit(phone.process.wait())
        except KeyboardInterrupt:
            sys.exit(0)


def _say_joined(device: str, address: str) -> None:
    say(f"{device} has joined by {address}; see: benchfarm device list")
