"""`benchfarm models …`: models and data sets of mobile tasks, by a process of their side."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.table import Table

from controller.cli.common import Json, show_json, show_table
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.models import Added, ModelStatus
from controller.platform.programs import python_module
from controller.platform.terminal import say

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_models(json: Json = False) -> None:
    """List models and data sets, and which are in the store."""
    _show(_statuses("list"), json)


@app.command()
def verify(json: Json = False) -> None:
    """Check checksums and the signature of each model.

    Exit status 1 if anything is wrong.
    """
    found = _statuses("verify")
    _show([status for status in found if status.there], json)
    if any(status.trouble for status in found):
        raise typer.Exit(1)


@app.command()
def add(
    path: Annotated[Path, typer.Argument(help="File, or folder to search for files.")],
    key: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="KEY", help="Key of the file, if no published checksum identifies it."
        ),
    ] = None,
) -> None:
    """Add a model, data set, task or stack to the store."""
    said = _asked("add", str(path.absolute()), *([key] if key else []))
    for one in TypeAdapter(list[Added]).validate_json(said):
        say(f"{one.path}: {one.stack or one.workload or ', '.join(one.keys)}")
        for key in one.keys if one.stack else ():
            say(f"add its file: benchfarm models add FILE --as {key}")


def _show(statuses: list[ModelStatus], json: bool) -> None:
    if json:
        show_json(statuses)
        return
    table = Table("item", "in store", "checksum", "source, or what is wrong")
    for status in statuses:
        name = f"{status.key} (surrogate)" if status.surrogate else status.key
        there = "yes" if status.there else "no"
        checksum = (status.checksum or "pinned when added")[:23]
        table.add_row(name, there, checksum, status.trouble or status.source or "")
    show_table(table)


def _statuses(verb: str) -> list[ModelStatus]:
    return TypeAdapter(list[ModelStatus]).validate_json(_asked(verb))


def _asked(*arguments: str) -> str:
    """Return what the models' side prints; raises UserError with its complaint."""
    command = python_module("models.mobile", *arguments)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 2:
        raise ErrorPayload.model_validate_json(done.stdout).error()
    if done.returncode:
        raise typer.Exit(done.returncode)
    return done.stdout
