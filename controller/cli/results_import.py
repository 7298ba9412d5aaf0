"""`benchfarm results import`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.common import home
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import HomeUnusable, UserError
from controller.contracts.imported import ImportedResult
from controller.imported.doubles import sifted
from controller.imported.published import Published, read_published
from controller.imported.rounds import ROUND, known_rounds
from controller.platform.terminal import LONGEST, say
from controller.store.imported import ImportedResults, Kept

_Double = tuple[ImportedResult, ImportedResult]
LINES_SAID: Final = 100
"""Lines of each kind that are printed."""
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
    _require_round(round_)
    try:
        found = read_published(path, load_catalog(), round_)
    except OSError as error:
        raise UserError(f"read {path}", error.strerror or str(error), _LAYOUTS) from error
    kept, doubles = _kept(found)
    left_out = [*found.left_out, *_known_otherwise(kept)]
    _say_some("left out", left_out)
    _say_some("same run", [_double_line(*double) for double in doubles])
    _say_some("not known", [*_unknown(kept)])
    if not kept.new and not kept.known and not doubles:
        seen = f"it has no result that can be imported, and {_files(len(left_out))} left out"
        raise UserError(f"import {path}", seen, _LAYOUTS)
    known = f", {len(kept.known)} were imported before" if kept.known else ""
    known += f", {len(doubles)} are of runs imported before" if doubles else ""
    others = f", {_files(len(left_out))} left out" if left_out else ""
    say(f"{len(kept.new)} results imported{known}{others}")


def _require_round(given: str | None) -> None:
    """Raise UserError for a round that neither suite has."""
    if given is not None and not ROUND.fullmatch(given):
        tried = f"use --round {given[:LONGEST]!r}"
        raise UserError(tried, "a round is named like v4.0", "Write --round v4.0.")
    if given is not None and given not in (rounds := known_rounds()):
        remedy = f"Give one of {', '.join(sorted(rounds))}."
        raise UserError(f"use --round {given}", "there is no such round", remedy)


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def _kept(found: Published) -> tuple[Kept, Sequence[_Double]]:
    """Store what is new; return what became of it, and what is of a run that is there already."""
    folder = home().path
    try:
        stored = ImportedResults(folder)
        known, _ = stored.results()
        found_once = sifted(found.results, known)
        return stored.keep(found_once.kept), found_once.doubles
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


def _double_line(came: ImportedResult, known: ImportedResult) -> str:
    mine, theirs = came.imported, known.imported
    return f"{mine.source}: {mine.benchmark} is imported from {theirs.source} as {known.run_id}"


def _unknown(kept: Kept) -> Iterator[str]:
    """Yield what the logs of new results lack, with the number of results."""
    told = Counter(why for result in kept.new for why in result.imported.unknown)
    for why, count in told.items():
        yield f"{why} ({count} result{'s' * (count != 1)})"


def _say_some(heading: str, lines: Sequence[str]) -> None:
    for line in lines[:LINES_SAID]:
        say(f"{heading}: {line}", err=True)
    if (more := len(lines) - LINES_SAID) > 0:
        say(f"{heading}: {more} more", err=True)
