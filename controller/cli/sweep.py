"""`benchfarm sweep …`"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import sweep_annotations
from controller.cli.cells_view import show_cells
from controller.cli.common import (
    Json,
    console,
    context_elsewhere,
    farm_elsewhere,
    home,
    reading,
    show_json,
    write_file,
)
from controller.cli.host_files import hosts_without_files, planned_with_files
from controller.cli.meant import farm_client, warn_if_away, where
from controller.cli.outcome_options import OfTags
from controller.cli.plan_view import show_plan
from controller.cli.plugins_view import warn_of_left_out
from controller.cli.progress import show_sweep
from controller.cli.sweep_annotations import SweepId
from controller.cli.sweep_reference import sweep_id_of
from controller.cli.sweep_view import all_met_rules, show_status, show_summary
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import Device, RegisteredAgent, RegisteredDevice
from controller.contracts.documents import MAX_BYTES
from controller.contracts.errors import SweepInvalid, UserError
from controller.contracts.sweep import Cell, Sweep
from controller.contracts.sweep_file import parse_sweep
from controller.platform.terminal import say
from controller.runtime import manifests
from controller.runtime.client import FarmClient
from controller.runtime.fleet import devices_now
from controller.runtime.up_command import anew
from controller.runtime.waiting import waiting_now
from controller.runtime.watch import follow_from_elsewhere
from controller.scheduling.expansion import cells_of
from controller.scheduling.planning import plan_sweep
from controller.scheduling.runtimes import without_runtime
from controller.scheduling.unmatched import unmatched_clauses

app = typer.Typer(no_args_is_help=True)
app.command()(sweep_annotations.tag)
app.command()(sweep_annotations.note)

File = Annotated[str, typer.Argument(help="Sweep file (YAML); - reads standard input.")]


@app.command()
def new(
    file: Annotated[
        str, typer.Argument(help="File to write; - prints it.", show_default=True)
    ] = "sweep.yaml",
) -> None:
    """Write a sweep file with comments, to be edited.

    Leaves a file that is there as it is, and fails.
    """
    text = (files("controller.cli") / "new_sweep.yaml").read_text(encoding="utf-8")
    if file == "-":
        say(text, lines=True, end="")
        return
    write_file(Path(file), text, replace=False)
    say(f"{file}: edit it, then check it with: benchfarm sweep validate {shlex.quote(file)}")


@app.command()
def validate(file: File, json: Json = False) -> None:
    """Check a sweep file without a farm.

    Lists what differs between its cells, the known devices that no stack of it has a runtime for,
    and the known hosts that lack models or data sets; this host, if none is known. Warns of clauses
    in `devices` that no known device matches.
    """
    sweep, catalog = read_sweep(file), load_catalog()
    warn_of_left_out(catalog)
    cells, fleet = cells_of(sweep, catalog, file), _known_fleet()
    devices = [registered.labelled for registered in fleet[1]]
    for line in unmatched_clauses(sweep.devices, devices):
        say(f"benchfarm: key devices: {line}", err=True)
    if json:
        show_json(cells)
        return
    show_cells(cells, catalog)
    say(f"{file}: {len(cells)} cells × {sweep.repeats} repeats, no errors")
    if sweep.awaits:
        say("await: runs wait for devices that match but are away, if the farm has had them")
    for line in _without_runtime(cells, catalog, devices):
        say(line)
    for host in hosts_without_files(sweep, cells, catalog, fleet):
        say(host.line)


@app.command()
def submit(
    file: File,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Follow the sweep; exit status 1 if one fails or is INVALID."),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again if it was submitted before.")
    ] = False,
    json: Json = False,
) -> None:
    """Queue a sweep's runs on the farm.

    Submitting the same sweep twice adds nothing; see --again.
    """
    if json and wait:
        why = "--wait prints lines while the sweep runs"
        raise UserError("print JSON", why, "Run `benchfarm sweep status SWEEP --json` at its end.")
    sweep, catalog = read_sweep(file), load_catalog()
    warn_of_left_out(catalog)
    cells_of(sweep, catalog, file)  # complain in terms of the file before asking the farm
    _warn_of_manifests()
    submission = farm_client().submit(sweep, again=again)
    if json:
        show_json(submission)
        return
    say(f"sweep {submission.sweep_id}: {submission.new_runs} runs queued", end="")
    if submission.known_runs:
        say(f", {submission.known_runs} known already (--again measures them again)", end="")
    say()
    if submission.left_out:
        say(f"left out, because they are away: {'; '.join(submission.left_out)}")
    if submission.awaited:
        say(f"runs wait for devices that are away: {'; '.join(submission.awaited)}")
    if ended := submission.ended_runs:
        remedy = f"to queue them again: benchfarm sweep resume {submission.sweep_id}"
        say(f"{ended} of them have failed or were cancelled; {remedy}")
    if wait:
        sys.exit(watch_to_end(submission.sweep_id))


@app.command()
def watch(sweep_id: SweepId) -> None:
    """Follow a sweep to its end, then show its results.

    Exit status 0 if all runs are VALID or DISTURBED.
    """
    sys.exit(watch_to_end(sweep_id_of(sweep_id)))


@app.command()
def status(
    sweep_id: Annotated[str | None, typer.Argument(help="Sweep. [default: all sweeps]")] = None,
    tag: OfTags = None,
    json: Json = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print one sweep's cells as CSV, a line a metric.")
    ] = False,
) -> None:
    """Show all sweeps, or the results of one so far."""
    if csv and (json or sweep_id is None):
        why = "--json asks for another format" if json else "no sweep is named"
        raise UserError("print CSV", why, "Run `benchfarm sweep status SWEEP --csv`.")
    if tag and sweep_id is not None:
        remedy = "Leave out the sweep, or --tag."
        raise UserError("list sweeps by tag", f"sweep {sweep_id} is named", remedy)
    with reading() as store:
        warn_if_away()
        if sweep_id is None:
            show_status(store, frozenset(tag or ()), json=json)
        else:
            show_summary(store, sweep_id, "json" if json else "csv" if csv else "table")


@app.command()
def cancel(sweep_id: SweepId) -> None:
    """Cancel a sweep's queued runs and stop its current ones."""
    meant = sweep_id_of(sweep_id)
    say(f"sweep {meant}: {farm_client().cancel(meant)} runs cancelled")


@app.command()
def resume(sweep_id: SweepId) -> None:
    """Queue a sweep's failed and cancelled runs again.

    Each becomes a new attempt.
    """
    meant = sweep_id_of(sweep_id)
    say(f"sweep {meant}: {farm_client().resume(meant)} runs queued again")


@app.command()
def plan(file: File, json: Json = False) -> None:
    """Show the devices and hours that a sweep would take.

    Also lists cells that match no device, and devices without a runtime.
    """
    sweep, catalog = read_sweep(file), load_catalog()
    warn_of_left_out(catalog)
    cells = cells_of(sweep, catalog, file)
    with reading() as store:
        runs = store.runs(open_only=True)
        waits = waiting_now(where(), store, runs, lambda: catalog)
        devices = devices_now(where(), store, runs, waits)
        found = plan_sweep(
            *(sweep, cells, [(d.device, d.state) for d in devices], catalog, store.took(cells)),
            queued={d.device.id: d.queued for d in devices},
            bookings={d.device.id: d.bookings for d in devices},
            draining={d.device.id: d.draining for d in devices if d.draining},
        )
        hosts = {known.agent.id: known.agent.host for known in store.fleet()[0]}
    owners = {d.device.id: d.agent_id for d in devices}
    found = planned_with_files(found, cells, catalog, owners, hosts)
    if json:
        show_json(found)
        return
    show_plan(found, sweep, _without_runtime(cells, catalog, [d.device for d in devices]))


def _warn_of_manifests() -> None:
    """Say on standard error, in a line, that the farm here works with former manifests."""
    if not (farm_elsewhere() or context_elsewhere()) and manifests.have_changed(home()):
        remedy = manifests.REMEDY.format(anew(home()))
        say(f"benchfarm: {manifests.CHANGED}. {remedy}", err=True)


def _without_runtime(
    cells: Iterable[Cell], catalog: Catalog, devices: Iterable[Device]
) -> list[str]:
    """Return a line for each device that no stack of the cells has a runtime for."""
    names = {side.stack for cell in cells for side in cell.sides()}
    stacks = [catalog.stacks[name] for name in sorted(names)]
    return [line for device in devices if (line := without_runtime(device, stacks))]


def _known_fleet() -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
    """Return the fleet of this host's farm, whether or not it is up; nothing if there never was."""
    if farm_elsewhere() or not (context_elsewhere() or home().has_store()):
        return [], []
    with reading() as store:
        return store.fleet()


def read_sweep(file: str) -> Sweep:
    """Read a sweep file, or standard input for `-`; raises SweepInvalid."""
    if not file:
        remedy = "Name a YAML file, or `-` for standard input."
        raise SweepInvalid("read a sweep", "the file's name is empty", remedy)
    try:
        raw = _content(file)
    except OSError as error:
        other = f"Name a YAML file; {_current_folder()}."
        raise SweepInvalid(f"read sweep {file}", error.strerror or str(error), other) from error
    return parse_sweep(raw, "standard input" if file == "-" else file)


def _content(file: str) -> bytes:
    """Return a file's content, but at most a byte more than a sweep may have: it may be endless."""
    if file == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(file).open("rb") as opened:
        return opened.read(MAX_BYTES + 1)


def _current_folder() -> str:
    try:
        return f"paths are relative to {Path.cwd()}"
    except OSError:
        return "the current folder is gone"


def watch_to_end(sweep_id: str) -> int:
    """Show progress until a sweep has ended, then its summary; return the exit status."""
    client = farm_client()
    if farm_elsewhere():
        return _watch_from_elsewhere(client, sweep_id)
    try:
        show_sweep(client, sweep_id, console())
    except KeyboardInterrupt:
        say(err=True)
        say(f"the sweep continues; follow it with: benchfarm sweep watch {sweep_id}", err=True)
        return 130
    with reading() as store:
        show_summary(store, sweep_id)
        return 0 if all_met_rules(store, sweep_id) else 1


def _watch_from_elsewhere(client: FarmClient, sweep_id: str) -> int:
    all_met_rules = False
    for sweep_status in follow_from_elsewhere(client, sweep_id):
        runs = ", ".join(f"{count} {state}" for state, count in sweep_status.runs.items() if count)
        say(f"{sweep_id}: {runs}")
        for group in sweep_status.waiting:
            say(group.line)
        all_met_rules = sweep_status.all_met_rules
    return 0 if all_met_rules else 1
