"""`benchfarm results artifacts`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, make_folder, reading, show_json, show_table
from controller.cli.references import run_id_of
from controller.contracts.artefacts import ArtefactPlace, ArtefactRecord
from controller.contracts.errors import UserError
from controller.platform.terminal import say
from controller.runtime.run_files import RunFiles

NONE_YET = "They are sent after a run, while its host and the head measure nothing."


def list_artifacts(
    run_id: Annotated[str, typer.Argument(help="Run id, or its beginning; see `results list`.")],
    fetch: Annotated[
        list[str] | None,
        typer.Option(
            "--fetch",
            metavar="NAME",
            help="Fetch this one, or all that a pattern such as '*.txt' fits; repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to fetch into.")
    ] = Path(),
    json: Json = False,
) -> None:
    """List or fetch the files that a run left.

    Lists name, bytes, SHA-256, and where each is: on the head, still with its agent, or expired.
    """
    with reading() as store:
        files = RunFiles(store, run_id_of(store, run_id))
        if fetch:
            for one in files.meant(fetch):
                _fetch(files, one, output)
            return
    if json:
        show_json(files.listed)
    elif files.listed:
        show_table(_table(files.listed))
    else:
        say(f"no artifacts of run {files.run_id} are known. {NONE_YET}")


def _table(found: Sequence[ArtefactRecord]) -> Table:
    table = Table("name", "bytes", "where", "sha256")
    for one in found:
        where = f"agent {one.agent_id}" if one.where is ArtefactPlace.AGENT else one.where.value
        table.add_row(one.path, f"{one.size:,}", where, one.sha256)
    return table


def _fetch(files: RunFiles, one: ArtefactRecord, output: Path) -> None:
    """Write an artefact below a folder, under its own name; raises UserError."""
    target = output / one.path
    tried = f"fetch {one.path}"
    make_folder(target.parent)
    if target.exists() or target.is_symlink():
        raise UserError(tried, f"{target} exists already", "Remove it, or name another folder.")
    try:
        files.keep(one, target)
    except OSError as error:
        seen = error.strerror or str(error)
        raise UserError(tried, seen, "Name a folder that you can write to.") from error
    say(f"{target}  {one.size:,} bytes, sha256 {one.sha256}")
