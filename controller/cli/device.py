"""`benchfarm device …`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli import capabilities as known
from controller.cli.common import (
    Json,
    checked,
    parse_labels,
    parse_seconds,
    reading,
    show_json,
    show_table,
)
from controller.cli.device_list import list_devices
from controller.cli.device_naming import DeviceId, Why, device_path, forget, rename
from controller.cli.meant import farm_client, where
from controller.cli.references import device_of
from controller.contracts.administration import (
    BookRequest,
    ChangedDevice,
    DeviceBookings,
    LabelRequest,
    NewBooking,
    Reason,
    ReleaseRequest,
)
from controller.contracts.base import Contract, utc_minute
from controller.contracts.errors import UserError
from controller.platform.terminal import say
from controller.runtime.fleet import DeviceOverview, devices_now

app = typer.Typer(no_args_is_help=True)
app.command("list")(list_devices)
app.command()(rename)
app.command()(forget)


@app.command()
def show(device: DeviceId, json: Json = False) -> None:
    """Show a device's state, labels and facts."""
    with reading() as store:
        meant = device_of(store, device).device.id
        (status,) = (
            each
            for each in devices_now(where(), store, store.runs(open_only=True))
            if each.device.id == meant
        )
    if json:
        show_json(status)
        return
    title = f"{status.name}: {status.state} ({status.why})"
    table = Table("fact", "value", title=title, title_justify="left")
    for name, value in {"id": meant, **status.device.labels, **status.device.facts}.items():
        table.add_row(name, " ".join(value) if isinstance(value, tuple) else str(value))
    show_table(table)


@app.command()
def capabilities(
    device: DeviceId,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="First run each task briefly. [default: use stored outcomes]"),
    ] = False,
    build: Annotated[
        str | None,
        typer.Option(
            "--build",
            metavar="FINGERPRINT",
            help="Build of the system to show. [default: the current one]",
            show_default=False,
        ),
    ] = None,
    all_builds: Annotated[bool, typer.Option("--all-builds", help="Show all builds.")] = False,
    json: Json = False,
) -> None:
    """Show which tasks run on a device, and how.

    Includes how many nodes of each graph a delegate really runs.
    """
    if build is not None and all_builds:
        seen = "--build and --all-builds are both given"
        raise UserError("choose a build", seen, "Give one of them.")

    with reading() as store:
        meant = device_of(store, device).labelled
    if probe:
        known.probe(meant)
    known.show(meant, build, all_builds=all_builds, json=json)


@app.command()
def history(device: DeviceId, json: Json = False) -> None:
    """Show a device's changes of state, with who and why.

    Includes its runs.
    """
    with reading() as store:
        events = store.history(device_of(store, device, or_forgotten=True).device.id)
    if json:
        show_json(events)
        return
    table = Table("since (UTC)", "state", "who", "why")
    for event in events:
        since = event.model_dump(mode="json")["at"][:19].replace("T", " ")
        table.add_row(since, event.state, event.who, event.why)
    show_table(table)


@app.command()
def quarantine(device: DeviceId, why: Why) -> None:
    """Take a device out of the fleet.

    Its current run finishes first.
    """
    _do(device, "quarantine", checked(Reason, why=why))


@app.command()
def release(
    device: DeviceId,
    why: Why = "by hand",
    everyone: Annotated[
        bool, typer.Option("--all", help="End the reservations of other users, too.")
    ] = False,
) -> None:
    """End a device's quarantine, maintenance and your bookings."""
    _do(device, "release", checked(ReleaseRequest, why=why, everyone=everyone))


@app.command()
def bookings(json: Json = False) -> None:
    """List the reservations and maintenance of all devices."""
    with reading() as store:
        devices = devices_now(where(), store, store.runs(open_only=True))
    if json:
        show_json([_bookings(status) for status in devices if status.bookings])
        return
    table = Table("device", "for", "from (UTC)", "to (UTC)", "who", "why")
    for status in devices:
        for each in status.bookings:
            begins, ends = (utc_minute(at)[:16] for at in (each.begins, each.ends))
            whose = each.user or "maintenance"
            table.add_row(status.name, whose, begins, ends, each.who, each.why)
    show_table(table)


@app.command()
def probe(device: DeviceId, why: Why = "by hand") -> None:
    """Probe a quarantined device now.

    Needs a device that failures put in quarantine; if it passes, it is released.
    """
    meant = _do(device, "probe", checked(Reason, why=why))
    say(f"see the outcome: benchfarm device history {meant}")


@app.command()
def reserve(
    device: DeviceId,
    length: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Length, such as 90m, 2h or 3d.")
    ],
    user: Annotated[str, typer.Option(help="User whose runs it takes.")] = "admin",
    starts_in: Annotated[
        str, typer.Option("--in", metavar="TIME", help="Time until it begins, such as 2h.")
    ] = "0m",
    why: Why = "reserved",
) -> None:
    """Reserve a device for one user.

    A run in progress at the beginning is finished.
    """
    _book(device, length, starts_in, user, why)


@app.command()
def maintain(
    device: DeviceId,
    length: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Length, such as 90m, 2h or 3d.")
    ],
    starts_in: Annotated[
        str, typer.Option("--in", metavar="TIME", help="Time until it begins, such as 2h.")
    ] = "0m",
    why: Why = "maintenance",
) -> None:
    """Reserve a device for maintenance; no run starts on it.

    A run in progress at the beginning is finished.
    """
    _book(device, length, starts_in, None, why)


@app.command()
def label(
    device: DeviceId,
    labels: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE…", help="Labels to set; KEY- removes one.")
    ],
) -> None:
    """Set or remove a device's labels.

    Selectors match the new labels at once.
    """
    gone = dict.fromkeys(word[:-1] for word in labels if word.endswith("-") and "=" not in word)
    words = [word for word in labels if "=" in word or not word.endswith("-")]
    remedy = "Write `rack=b2` to set a label, `rack-` to remove it."
    given = parse_labels(words, f"label {device} with", remedy)
    _do(device, "label", checked(LabelRequest, labels={**gone, **given}))


def _book(device: str, length: str, starts_in: str, user: str | None, why: str) -> None:
    starts_in_s, for_s = parse_seconds("--in", starts_in), parse_seconds("--for", length)
    typed = {
        "for_s": f"--for {length}",
        "starts_in_s": f"--in {starts_in}",
        "user": f"--user {user!r}",
        "why": f"--why {why}",
    }
    body = checked(BookRequest, typed, user=user, starts_in_s=starts_in_s, for_s=for_s, why=why)
    made = farm_client().administer(NewBooking, device_path(device, "book"), body)
    say(
        f"device {made.status.device_name}: booked {made.booking.words} ({made.booking.why}); "
        f"now {made.status.state} ({made.status.why})"
    )


def _bookings(of: DeviceOverview) -> DeviceBookings:
    return DeviceBookings(device=of.device.id, device_name=of.name, bookings=of.bookings)


def _do(device: str, verb: str, body: Contract) -> str:
    """Ask for a change of a device, say its state, and return its id."""
    now = farm_client().administer(ChangedDevice, device_path(device, verb), body)
    say(f"device {now.device_name}: {now.state} ({now.why})")
    return now.device
