"""`benchfarm results import`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.common import home
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import HomeUnusable, UserError
from controller.imported.published import Published, read_published
from controller.imported.rounds import ROUND
from controller.platform.terminal import LONGEST, say
from controller.store.imported import ImportedResults, Kept

LINES_SAID: Final = 100
"""Lines about what is left out that are printed."""
_LAYOUTS: Final = (
    "Name a tree as the rounds have it, or the app's JSON: see docs/imported-results.md."
)


def import_results(
    path: Annotated[
        Path,
        typer.Argument(help="Tree of a round or part of one, or a JSON file of the mobile app."),
    ],
    round_: Annotated[
        str | None,
        typer.Option(
            "--round", metavar="vN.N", help="Round. [default: what path, app or seeds say]"
        ),
    ] = None,
) -> None:
    """Import published results, to rank beside yours.

    Of MLPerf Mobile, of edge CPUs in MLPerf Inference, and of MLPerf's mobile app.
    """
    if round_ is not None and not ROUND.fullmatch(round_):
        tried = f"use --round {round_[:LONGEST]!r}"
        raise UserError(tried, "a round is named like v4.0", "Write --round v4.0.")
    try:
        found = read_published(path, load_catalog(), round_)
    except OSError as error:
        raise UserError(f"read {path}", error.strerror or str(error), _LAYOUTS) from error
    kept = _kept(found)
    left_out = [*found.left_out, *_known_otherwise(kept)]
    _say_left_out(left_out)
    if not kept.new and not kept.known:
        seen = f"it has no result that can be imported, and {_files(len(left_out))} left out"
        raise UserError(f"import {path}", seen, _LAYOUTS)
    known = f", {len(kept.known)} were imported before" if kept.known else ""
    others = f", {_files(len(left_out))} left out" if left_out else ""
    say(f"{len(kept.new)} results imported{known}{others}")


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def _kept(found: Published) -> Kept:
    folder = home().path
    try:
        return ImportedResults(folder).keep(found.results)
    except OSError as error:
        tried, seen = f"store imported results in {folder}", error.strerror or str(error)
        raise HomeUnusable(tried, seen, "Make room there, or make it yours.") from error


def _known_otherwise(kept: Kept) -> list[str]:
    """Return a line for each result that is known as something else, such as another round's."""
    return [
        f"{came.imported.source}: imported before as {known.imported.title} {known.imported.source}"
        if came.imported != known.imported
        else f"{came.imported.source}: imported before, by a release that read it otherwise"
        for came, known in kept.other
    ]


def _say_left_out(lines: Sequence[str]) -> None:
    for line in lines[:LINES_SAID]:
        say(f"left out: {line}", err=True)
    if (more := len(lines) - LINES_SAID) > 0:
        say(f"left out: {more} more", err=True)
