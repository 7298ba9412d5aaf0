"""`benchfarm suite …`"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from controller.cli import suite_run
from controller.cli.common import Json, reading, show_json, show_table
from controller.cli.meant import warn_if_away
from controller.cli.references import DeviceNames
from controller.cli.suite_view import show_session, show_sessions, summaries_of
from controller.contracts.suite_rules import UNVERIFIED, TaskRules, load_suites
from controller.contracts.suite_session import NOT_VERIFIED
from controller.platform.terminal import say
from controller.runtime.suite_sessions import read_sessions, session_ids
from controller.scheduling.references import find_session

app = typer.Typer(no_args_is_help=True)
app.command()(suite_run.run)


@app.command("list")
def list_suites(json: Json = False) -> None:
    """List versions of the suite with tasks and scenarios.

    In the order in which `suite run` runs them.
    """
    if json:
        show_json(load_suites())
        return
    table = Table(f"suite (results are {UNVERIFIED})", "task", "scenarios", "data sets", "targets")
    for rules in load_suites():
        for name, task in rules.tasks.items():
            sets, targets = ", ".join(task.datasets), dict.fromkeys(t.metric for t in task.targets)
            shown = ", ".join(targets) or "none printed"
            table.add_row(rules.title, name, ", ".join(_scenarios(task)), sets, shown)
    show_table(table)
    say(NOT_VERIFIED)


def _scenarios(task: TaskRules) -> Iterator[str]:
    for scenario in task.scenarios:
        yield scenario + (" (optional)" if scenario in task.optional else "")


@app.command()
def status(json: Json = False) -> None:
    """List sessions, and how many rules each meets."""
    with reading() as store:
        warn_if_away()
        found = summaries_of(store, read_sessions(store, session_ids(store)))
    if json:
        show_json(found)
    elif found:
        show_sessions(found)
    else:
        say("no session yet; start one with: benchfarm suite run VERSION --device DEVICE")


@app.command()
def show(
    session: Annotated[
        str, typer.Argument(help="Session, or the beginning of its id; see `suite status`.")
    ],
    json: Json = False,
) -> None:
    """Show a session's results, and which rules it meets."""
    with reading() as store:
        meant = find_session(session, session_ids(store))
        (found,) = summaries_of(store, read_sessions(store, [meant]))
    if json:
        show_json(found)
        return
    show_session(found, DeviceNames()(found.device))
