"""`benchfarm stacks …`: the software stacks of this host. A process of the agents' side does it."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.table import Table

from controller.cli.common import Json, home, show_json, show_table
from controller.contracts.catalog import load_catalog
from controller.contracts.stacks import StackDetails, StackStatus
from controller.platform.programs import python_module

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Stack; see `benchfarm stacks list`.")]


@app.command("list")
def list_stacks(json: Json = False) -> None:
    """List all stacks and whether this host can run them."""
    stacks = TypeAdapter(list[StackStatus]).validate_json(_asked("list"))
    if json:
        show_json(stacks)
        return
    table = Table("stack", "title", "devices", "ready", "location, or what to do")
    for stack in stacks:
        ready = "yes" if stack.ready else "no"
        table.add_row(stack.name, stack.title, " ".join(stack.device_kinds), ready, stack.detail)
    show_table(table)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show a stack's packages, oneDNN and knobs."""
    stack = StackDetails.model_validate_json(_asked("show", name))
    if json:
        show_json(stack)
        return
    table = Table("what", "value", title=f"{name}: {stack.title}", title_justify="left")
    table.add_row("ready", "yes" if stack.ready else "no")
    table.add_row("location, or what to do", stack.detail)
    facts = {"interpreter": stack.interpreter, **stack.environment, "packages": stack.packages}
    for fact, value in facts.items():
        if value not in (None, ()):
            table.add_row(
                fact, " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            )
    catalog = load_catalog()
    for knob, k in {**catalog.stacks[name].knobs, **catalog.launch_knobs(name)}.items():
        table.add_row(f"knob {knob}", f"{k.default} – {k.description}")
    show_table(table)


@app.command()
def install(name: Name) -> None:
    """Install a stack's own environment.

    Continues an interrupted installation; does nothing if the stack is installed.
    """
    sys.exit(subprocess.run(_command("install", name), check=False).returncode)


def _command(*arguments: str) -> tuple[str, ...]:
    return python_module("agents.stacks", str(home().path), *arguments)


def _asked(*arguments: str) -> str:
    """Return what the agents' side prints; ends with its exit status if it can't."""
    done = subprocess.run(_command(*arguments), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
    return done.stdout
