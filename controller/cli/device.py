"""`benchfarm device …`"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer
from rich.table import Table

from controller.cli import capabilities as known
from controller.cli.common import (
    Json,
    checked,
    home,
    parse_labels,
    parse_seconds,
    reading,
    show_json,
    show_table,
    warn_if_away,
    warn_of_clocks,
    warn_of_phones,
)
from controller.contracts.administration import BookRequest, LabelRequest, Reason
from controller.contracts.base import Contract
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceStatus
from controller.contracts.errors import NotFound, UserError
from controller.platform.terminal import say
from controller.runtime.client import FarmClient
from controller.runtime.fleet import agents_now, devices_now
from controller.scheduling.runtimes import without_runtime

DeviceId = Annotated[str, typer.Argument(help="Device id.")]
Why = Annotated[str, typer.Option("--why", help="Kept in the device's history.")]

app = typer.Typer(help="What can be measured on.", no_args_is_help=True)


@app.command("list")
def list_devices(json: Json = False) -> None:
    """List all devices that ever registered, and what they do now."""
    with reading() as store:
        warn_if_away()
        devices = devices_now(home(), store)
        warn_of_phones({status.device.id for status in devices})
        warn_of_clocks(agents_now(home(), store))
    if json:
        show_json(devices)
        return
    table = Table(
        "device", "kind", "state", "since (UTC)", "who", "why", "model", "labels", "agent"
    )
    for status in devices:
        device = status.device
        model = str(device.facts.get("cpu_model", device.facts.get("model", "")))
        labels = " ".join(f"{key}={value}" for key, value in sorted(device.labels.items()))
        kind = f"{device.kind}{device.likeness}"
        since = status.model_dump(mode="json")["since"][:19].replace("T", " ")
        stands = (status.state, since, status.who, status.why)
        table.add_row(device.id, kind, *stands, model, labels, status.agent_id)
    show_table(table)
    stacks = load_catalog().stacks.values()
    for status in devices:
        if line := without_runtime(status.device, stacks):
            say(line)


@app.command()
def show(device: Annotated[str, typer.Argument(help="Device id.")], json: Json = False) -> None:
    """Show all that is known of a device."""
    with reading() as store:
        found = {status.device.id: status for status in devices_now(home(), store)}
    if device not in found:
        known = ", ".join(found) or "none has registered yet"
        raise NotFound(f"looking for device {device}", "there is none", f"known: {known}")
    status = found[device]
    if json:
        show_json(status)
        return
    table = Table(
        "fact", "value", title=f"{device}: {status.state} ({status.why})", title_justify="left"
    )
    for name, value in {**status.device.labels, **status.device.facts}.items():
        table.add_row(name, " ".join(value) if isinstance(value, tuple) else str(value))
    show_table(table)


@app.command()
def capabilities(
    device: DeviceId,
    probe: Annotated[
        bool, typer.Option("--probe", help="Find it out first, by short runs of all that is there.")
    ] = False,
    build: Annotated[
        str | None,
        typer.Option(
            "--build",
            metavar="FINGERPRINT",
            help="Show an earlier build of its system. [default: the one it runs]",
            show_default=False,
        ),
    ] = None,
    all_builds: Annotated[
        bool, typer.Option("--all-builds", help="Show all builds, one below the other.")
    ] = False,
    json: Json = False,
) -> None:
    """Show which tasks run on a device, and how much of each graph a delegate really takes."""
    if build is not None and all_builds:
        raise UserError("choosing builds", "--build and --all-builds are both given", "give one")

    with reading() as store:
        found = {one.device.id: one.device for one in store.fleet()[1]}
    if device not in found:
        raise NotFound(
            f"looking for device {device}", "there is none", "see: benchfarm device list"
        )
    if probe:
        known.probe(found[device])
    known.show(found[device], build, all_builds=all_builds, json=json)


@app.command()
def history(device: DeviceId, json: Json = False) -> None:
    """Show what became of a device: since when, by whom and why; its runs among it."""
    with reading() as store:
        known = [d.device.id for d in store.fleet()[1]]
        if device not in known:
            names = ", ".join(known) or "none has registered yet"
            raise NotFound(f"looking for device {device}", "there is none", f"known: {names}")
        events = store.history(device)
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
    """Take a device out of the fleet; a run it has is finished."""
    _do(device, "quarantine", checked(Reason, why=why))


@app.command()
def release(device: DeviceId, why: Why = "by hand") -> None:
    """Let a device out of quarantine, and end its bookings."""
    _do(device, "release", checked(Reason, why=why))


@app.command()
def probe(device: DeviceId, why: Why = "by hand") -> None:
    """Probe a device at once that failures have put in quarantine; it is let out if it passes."""
    _do(device, "probe", checked(Reason, why=why))
    say(f"what comes of it: benchfarm device history {device}")


@app.command()
def reserve(
    device: DeviceId,
    length: Annotated[str, typer.Option("--for", metavar="TIME", help="Such as 90m, 2h or 3d.")],
    user: Annotated[str, typer.Option(help="Whose runs it takes.")] = "admin",
    starts_in: Annotated[str, typer.Option("--in", metavar="TIME", help="When it begins.")] = "0m",
    why: Why = "reserved",
) -> None:
    """Keep a device for one user for a while; what runs when that begins is finished."""
    _book(device, length, starts_in, user, why)


@app.command()
def maintain(
    device: DeviceId,
    length: Annotated[str, typer.Option("--for", metavar="TIME", help="Such as 90m, 2h or 3d.")],
    starts_in: Annotated[str, typer.Option("--in", metavar="TIME", help="When it begins.")] = "0m",
    why: Why = "maintenance",
) -> None:
    """Keep a device from everyone for a while; what runs when that begins is finished."""
    _book(device, length, starts_in, None, why)


@app.command()
def label(
    device: DeviceId,
    labels: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE…", help="KEY- takes a label away.")
    ],
) -> None:
    """Label a device; from then on selectors match it by its new labels."""
    gone = dict.fromkeys(word[:-1] for word in labels if word.endswith("-") and "=" not in word)
    words = [word for word in labels if "=" in word or not word.endswith("-")]
    remedy = "write rack=b2 to set a label, rack- to take it away"
    given = parse_labels(words, f"label of {device}", remedy)
    _do(device, "label", checked(LabelRequest, labels={**gone, **given}))


def _book(device: str, length: str, starts_in: str, user: str | None, why: str) -> None:
    starts_in_s, for_s = parse_seconds("--in", starts_in), parse_seconds("--for", length)
    typed = {
        "for_s": f"option --for {length}",
        "starts_in_s": f"option --in {starts_in}",
        "user": f"option --user {user}",
        "why": f"option --why {why}",
    }
    _do(
        device,
        "book",
        checked(BookRequest, typed, user=user, starts_in_s=starts_in_s, for_s=for_s, why=why),
    )


def _do(device: str, verb: str, body: Contract) -> None:
    path = f"devices/{quote(device, safe='')}/{verb}"
    now = FarmClient(home()).administer(DeviceStatus, path, body)
    say(f"device {device}: {now.state} ({now.why})")
