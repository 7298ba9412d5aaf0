"""`benchfarm models …`: models and data sets of mobile tasks, by a process of their side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from controller.cli import models_fetch
from controller.cli.common import Json, show_json, show_table
from controller.cli.plugins_view import warn_of_left_out
from controller.contracts.catalog import load_catalog
from controller.contracts.models import Added, ModelStatus, SetName, SetRequest
from controller.platform.terminal import say
from controller.runtime.models import add_to_models, model_statuses, prepare_set

app = typer.Typer(no_args_is_help=True)
app.command()(models_fetch.fetch)


@app.command("list")
def list_models(json: Json = False) -> None:
    """List models and data sets, and which are in the store."""
    warn_of_left_out(load_catalog())
    _show(model_statuses("list"), json)


@app.command()
def verify(json: Json = False) -> None:
    """Check stored files: checksums, and the signature of each model.

    Files that manifests name, and weights; other files of the store are not looked at. A file that
    was added with --as and is gone is wrong, too.

    Exit status 1 if anything is wrong.
    """
    found = model_statuses("verify")
    _show([status for status in found if status.there or status.trouble], json)
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
    for one in add_to_models(path, key):
        say(f"{one.path}: {one.stack or one.workload or ', '.join(one.keys)}")
        for key in one.keys if one.stack else ():
            say(f"add its file: benchfarm models add FILE --as {key}")
        _say_note(one)


@app.command()
def prepare(
    name: Annotated[SetName, typer.Argument(metavar="SET", help="Data set.")],
    path: Annotated[Path, typer.Argument(help="Folder with the set as it is published.")],
) -> None:
    """Add a published data set to all tasks that use it.

    If the published archive is in the folder, too, its checksum is checked and its files are
    compared with those that are used: only then do runs with the set meet the suite's run rules.

    Finds its files in the folder, checks that it is whole and that every image can be decoded, and
    makes what tasks need. Images that are not in an archive stay where they are.
    """
    for one in prepare_set(SetRequest(name=name, path=path.absolute())):
        say(f"{one.path}: {', '.join(one.keys)}")
        _say_note(one)


def _say_note(added: Added) -> None:
    if added.note:
        say(added.note)


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
