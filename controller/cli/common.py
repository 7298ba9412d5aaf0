"""What the verbs share: options, reading the store, and the two forms of output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from controller.contracts.base import Contract
    from controller.runtime.home import Home
    from controller.store.protocol import StoreReader

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY=VALUE", help="A label of this host; may be repeated."),
]
MetricsAddress = Annotated[
    str,
    typer.Option(
        metavar="IP", help="Where Prometheus finds metrics: this host's address in the cluster."
    ),
]


def home() -> Home:
    """Return the home this call is about."""
    from controller.runtime.home import Home

    return Home.from_environment()


@contextmanager
def reading() -> Iterator[StoreReader]:
    """Give the store to read; works whether or not a farm is up. Raises NotFound."""
    from controller.store.sqlite import SqliteStore

    store = SqliteStore.open_reader(home().store)
    try:
        yield store
    finally:
        store.close()


def console() -> Console:
    """Return a console on standard output; as wide as it takes where that is no terminal."""
    from rich.console import Console

    plain = Console()
    return plain if plain.is_terminal else Console(width=200)


def show_table(table: Table) -> None:
    """Print a table for people."""
    console().print(table)


def show_json(records: Sequence[Contract] | Contract) -> None:
    """Print contracts as JSON: an array, or one object."""
    import json

    from controller.contracts.base import Contract

    if isinstance(records, Contract):
        typer.echo(records.model_dump_json(indent=2))
        return
    typer.echo(json.dumps([record.model_dump(mode="json") for record in records], indent=2))


def write_file(path: Path, text: str) -> None:
    """Write what a user asked for to a file, UTF-8; raises UserError."""
    from controller.contracts.errors import UserError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"writing {path}", error.strerror or str(error), "name a file you can write"
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder with those above it, unless it is there; raises UserError."""
    from controller.contracts.errors import UserError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"making folder {path}", error.strerror or str(error), "name a folder you can write to"
        ) from error


def parse_labels(labels: Sequence[str] | None) -> dict[str, str]:
    """Return KEY=VALUE options as a mapping; raises UserError."""
    from controller.contracts.errors import UserError

    parsed: dict[str, str] = {}
    for label in labels or ():
        key, found, value = label.partition("=")
        if not (found and key.isidentifier() and value):
            raise UserError(
                f"option --label {label!r}",
                "it is not KEY=VALUE",
                "write a name, '=' and a value, such as --label rack=b2",
            )
        parsed[key] = value
    return parsed
