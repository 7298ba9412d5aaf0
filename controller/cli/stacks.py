"""`benchfarm stacks …`: the software stacks of this host. A process of the agents' side does it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.table import Table

from controller.cli.common import Json, home, show_json, show_table
from controller.cli.knob_table import show_knobs
from controller.cli.plugins_view import warn_of_left_out
from controller.contracts.catalog import load_catalog
from controller.contracts.stacks import StackDetails, StackRequest, StackStatus
from controller.platform.helper import Helper
from controller.platform.programs import python_module
from controller.platform.terminal import say

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Stack; see `benchfarm stacks list`.")]


@app.command("list")
def list_stacks(json: Json = False) -> None:
    """List all stacks and whether this host can run them."""
    warn_of_left_out(load_catalog())
    stacks = list(_helper("list the stacks").stream(_request("list"), StackStatus))
    if json:
        show_json(stacks)
        return
    packages = {stack.name: stack.plugin.named for stack in stacks if stack.plugin}
    heading = ("package",) if packages else ()
    table = Table("stack", "title", "devices", "ready", "location, or what to do", *heading)
    for stack in stacks:
        ready = "yes" if stack.ready else "no"
        package = (packages.get(stack.name, ""),) if packages else ()
        kinds = " ".join(stack.device_kinds)
        table.add_row(stack.name, stack.title, kinds, ready, stack.detail, *package)
    show_table(table)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show a stack's packages, oneDNN and knobs."""
    warn_of_left_out(catalog := load_catalog())
    stack = _helper(f"show stack {name}").ask(_request("show", name), StackDetails)
    if json:
        show_json(stack)
        return
    table = Table("what", "value", title=f"{name}: {stack.title}", title_justify="left")
    table.add_row("ready", "yes" if stack.ready else "no")
    table.add_row("location, or what to do", stack.detail)
    if stack.plugin:
        table.add_row("package", stack.plugin.recorded)
    facts = {"interpreter": stack.interpreter, **stack.environment, "packages": stack.packages}
    for fact, value in facts.items():
        if value not in (None, ()):
            table.add_row(
                fact, " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            )
    show_table(table)
    show_knobs({**catalog.stacks[name].knobs, **catalog.launch_knobs(name)})


@app.command()
def install(name: Name) -> None:
    """Install a stack's own environment.

    Continues an interrupted installation; does nothing if the stack is installed.
    """
    _helper(f"install stack {name}").ask(_request("install", name), StackStatus)


def _helper(tried: str) -> Helper:
    return Helper(python_module("agents.stacks"), tried, on_progress=say)


def _request(verb: Literal["list", "show", "install"], stack: str = "") -> StackRequest:
    return StackRequest(verb=verb, home=home().path, stack=stack)
