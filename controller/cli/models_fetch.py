"""`benchfarm models fetch`: downloads, with bars on a terminal and plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from controller.cli.common import console, show_json
from controller.contracts.errors import UserError
from controller.contracts.models import FetchEvent, FetchRequest
from controller.platform.terminal import say, visible
from controller.runtime.models import fetch_models

OUTCOMES: Final = frozenset({"there", "added", "manual", "failed"})
"""States after which a file has no other."""
UNDER_WAY: Final = frozenset({"checking", "loading"})
"""States that are told again and again, with the bytes that are done."""


def fetch(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Workloads, as `models list` has them.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="All tasks of this version of MLPerf Mobile: v4.0."),
    ] = None,
    numerics: Annotated[
        list[str] | None,
        typer.Option(help="Number format of models; repeatable. [default: all]"),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            help="Weights of models that train; repeatable. [default: all that can be downloaded]"
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Size of data sets; repeatable. [default: all that can be downloaded whole]"
        ),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FOLDER|URL",
            help="Mirror that has the files under their names. [default: where they are published]",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print what became of each file as JSON, at the end."),
    ] = False,
) -> None:
    """Download the models, weights and data sets of workloads.

    Skips what is whole in the store, and continues what was cut off. Each file is checked before it
    enters the store.
    """
    if not tasks and suite is None:
        raise UserError("fetch models", "no task is named", "Name tasks, or --suite VERSION.")
    if mirror and "://" not in mirror:
        mirror = str(Path(mirror).absolute())
    request = FetchRequest(
        tasks=tuple(tasks or ()),
        suite=suite,
        numerics=tuple(numerics or ()),
        weights=tuple(weights or ()),
        datasets=tuple(dataset or ()),
        mirror=mirror,
    )
    events = fetch_models(request)
    if json:
        show_outcomes(events)
    else:
        show_events(events, console())


def show_outcomes(events: Iterable[FetchEvent]) -> None:
    """Print the last event of each file as JSON, also if an error ends them."""
    outcomes: list[FetchEvent] = []
    try:
        outcomes.extend(event for event in events if event.state in OUTCOMES)
    finally:
        show_json(outcomes)


def show_events(events: Iterable[FetchEvent], shown: Console) -> None:
    """Show what becomes of files: a bar for the one that is read or loading, a line for all else.

    A single failure is the error that ends the events, and has no line of its own.
    """
    failed: list[FetchEvent] = []
    try:
        others = _without_failed(events, failed)
        _show_bars(others, shown) if shown.is_terminal else _show_lines(others)
    finally:
        for event in failed if len(failed) > 1 else ():
            _say(event)


def _without_failed(events: Iterable[FetchEvent], failed: list[FetchEvent]) -> Iterator[FetchEvent]:
    for event in events:
        if event.state == "failed":
            failed.append(event)
        else:
            yield event


def _show_lines(events: Iterable[FetchEvent]) -> None:
    last = ("", "")
    for event in events:
        if event.state not in UNDER_WAY or (event.state, event.name) != last:
            _say(event)
        last = (event.state, event.name)


def _show_bars(events: Iterable[FetchEvent], shown: Console) -> None:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=shown, auto_refresh=False, transient=True) as bars:
        bar: TaskID | None = None
        last = ("", "")
        for event in events:
            if bar is not None and (event.state, event.name) != last:
                bars.remove_task(bar)
                bar = None
            last = (event.state, event.name)
            if bar is None and event.state != "checking":
                _say(event)
            if event.state in UNDER_WAY:
                if bar is None:
                    bar = bars.add_task(visible(_under_way(event)))
                bars.update(bar, total=event.total, completed=event.done, refresh=True)


def _under_way(event: FetchEvent) -> str:
    return f"checking {event.name}" if event.state == "checking" else event.name


def line_of(event: FetchEvent) -> str:
    """Return an event as one line."""
    size = "" if event.total is None else decimal(event.total)
    match event.state:
        case "checking":
            return f"{event.name}: in the store, checking its {size}"
        case "sizing":
            return f"looking up the size of {event.name}"
        case "planned":
            return f"fetching {event.name}, {size}" + (f" and {event.note}" if event.note else "")
        case "manual":
            return f"{event.name}: not to be downloaded. {event.note}"
        case "there":
            return f"{event.name}: in the store already"
        case "waiting":
            return f"{event.name}: another process fetches it; waiting for that"
        case "loading":
            begun = f", {decimal(event.done)} of it are here" if event.done else ""
            return f"{event.name}: {size or 'size unknown'}{begun}, {event.note}"
        case "added":
            return f"{event.name}: added, {size}" + (f"; {event.note}" if event.note else "")
        case "failed":
            return event.note


def _say(event: FetchEvent) -> None:
    say(line_of(event), err=event.state == "failed")
