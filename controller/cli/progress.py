"""Progress of a sweep: bars on a terminal, plain lines elsewhere. Redrawn on events only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from controller.cli.common import home, reading
from controller.cli.references import DeviceNames
from controller.cli.waiting_view import Ask, WaitNotes, waits_in_store
from controller.contracts.run import Run
from controller.contracts.sweep import Side, side_labels
from controller.contracts.wire import RunEvent
from controller.platform.terminal import visible
from controller.runtime.client import FarmClient
from controller.runtime.watch import SweepView, follow, stored_runs


def show_sweep(client: FarmClient, sweep_id: str, console: Console) -> None:
    """Follow a sweep of the farm that is meant to its end; raises NotFound, FarmUnavailable."""
    stored = partial(_runs_of, sweep_id)
    runs = {run.run_id: run for run in stored()}
    waits = partial(waits_in_store, sweep_id)
    views = follow(home(), client, sweep_id, stored)
    show_progress(views, runs, console, waits, DeviceNames())


def _runs_of(sweep_id: str) -> list[Run]:
    with reading() as store:
        return stored_runs(store, sweep_id)


def show_progress(
    views: Iterable[SweepView],
    runs: Mapping[str, Run],
    console: Console,
    waits: Ask,
    named: Callable[[str], str] = str,
) -> None:
    """Show views until they end, and what runs wait for; `runs` tells how they differ.

    named: the name of a device, by its id.
    """
    names = {id_: describe(run, runs.values()) for id_, run in runs.items()}
    notes = WaitNotes(waits, named=named)
    if console.is_terminal:
        _bars(views, names, console, notes)
    else:
        _lines(views, names, console, notes, named)


def describe(run: Run, among: Iterable[Run]) -> str:
    """Name a run by what tells it from the others: workload, stack, differing knobs, repeat."""
    others = list(among)
    if run.cell.versus:
        one = Side(stack=run.cell.stack, knobs=run.cell.knobs)
        return f"{run.cell.workload} {' vs '.join(side_labels(one, run.cell.versus))}"
    differing = [
        f"{name}={value}"
        for name, value in run.cell.knobs.items()
        if any(other.cell.knobs.get(name) != value for other in others)
    ]
    if any(other.cell.scenario != run.cell.scenario for other in others):
        differing.insert(0, run.cell.scenario)
    return " ".join([run.cell.workload, run.cell.stack, *differing, f"#{run.repeat + 1}"])


def _lines(
    views: Iterable[SweepView],
    names: Mapping[str, str],
    console: Console,
    notes: WaitNotes,
    named: Callable[[str], str],
) -> None:
    for view in views:
        event = view.last
        if event and event.progress is None:
            where = f" on {named(event.device_id)}" if event.device_id else ""
            tally = f"[{view.ended}/{len(view.states)}]"
            _print(
                console, f"{tally} {names.get(event.run_id, event.run_id)}: {event.state}{where}"
            )
        for line in notes.after(view):
            _print(console, line)


def _print(console: Console, line: str) -> None:
    console.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def _bars(
    views: Iterable[SweepView], names: Mapping[str, str], console: Console, notes: WaitNotes
) -> None:
    with _progress(console) as bars:
        total = bars.add_task("runs", total=None, note="")
        running: dict[str, TaskID] = {}
        for view in views:
            bars.update(total, total=len(view.states), completed=view.ended)
            if view.last:
                _update(bars, running, view.last, names.get(view.last.run_id, view.last.run_id))
            for line in notes.after(view):
                _print(bars.console, line)
            bars.refresh()


def _update(bars: Progress, running: dict[str, TaskID], event: RunEvent, name: str) -> None:
    if event.state.terminal:
        if event.run_id in running:
            bars.remove_task(running.pop(event.run_id))
        return
    progress = event.progress
    if progress is None:
        return
    if event.run_id not in running:
        running[event.run_id] = bars.add_task(visible(name), total=progress.total, note="")
    note = " ".join(f"{key} {value:.4g}" for key, value in progress.values.items())
    bars.update(
        running[event.run_id],
        total=progress.total,
        completed=progress.done,
        note=visible(f"{progress.phase} {note}"),
    )


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    # No automatic refresh: redrawing ten times a second would take CPU from what is measured.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        yield progress
