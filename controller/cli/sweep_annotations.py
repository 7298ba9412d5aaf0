"""`benchfarm sweep tag` and `note`: words of people about a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from controller.cli.common import Json, checked, farm_elsewhere, reading, show_json
from controller.cli.meant import farm_client
from controller.cli.references import record_of
from controller.cli.sweep_reference import sweep_id_of
from controller.contracts.annotations import (
    AnnotationChange,
    Note,
    NoteRemoval,
    NoteRequest,
    SweepAnnotations,
    TagRequest,
)
from controller.contracts.errors import UserError
from controller.platform.terminal import LONGEST, say

SweepId = Annotated[
    str, typer.Argument(help="Sweep: its id, the beginning of it, or the newest of a name.")
]


def tag(
    sweep_id: SweepId,
    tags: Annotated[
        list[str] | None,
        typer.Argument(help="Tags to add: lower-case letters, digits, `.`, `_`, `-`."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="TAG", help="Tag to remove; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Add or remove a sweep's tags, or show them.

    Tags change no result. `sweep status`, `results list` and `results export` filter by --tag.
    """
    add, gone = tags or [], remove or []
    if both := {*add} & {*gone}:
        tried = f"tag the sweep with {min(both)[:LONGEST]!r}"
        raise UserError(tried, "--remove names it, too", "Leave one of them out.")
    change = None
    if add or gone:
        typed = _typed("add", "tag", add) | _typed("remove", "--remove", gone)
        change = checked(TagRequest, typed, add=tuple(add), remove=tuple(gone))
    now = _changed(sweep_id, change)
    if json:
        show_json(now)
        return
    say(f"sweep {now.sweep_id}: {', '.join(now.tags) or 'no tags'}")


def note(
    sweep_id: SweepId,
    text: Annotated[str | None, typer.Argument(help="Note to add, one line.")] = None,
    remove: Annotated[
        int | None, typer.Option("--remove", metavar="NUMBER", help="Number of a note to remove.")
    ] = None,
    json: Json = False,
) -> None:
    """Add or remove a note on a sweep, or show its notes.

    Each note is kept with who wrote it and when. Notes change no result.
    """
    if text is not None and remove is not None:
        seen = "a note and --remove are both given"
        raise UserError("note this on the sweep", seen, "Give one of them.")
    change: AnnotationChange | None = None
    if text is not None:
        change = checked(NoteRequest, {"text": f"note {text[:LONGEST]!r}"}, text=text)
    elif remove is not None:
        change = checked(NoteRemoval, {"number": f"--remove {remove}"}, number=remove)
    now = _changed(sweep_id, change)
    if json:
        show_json(now)
        return
    for line in note_lines(now.notes) or ["no notes"]:
        say(f"sweep {now.sweep_id}: {line}")


def note_lines(notes: Iterable[Note]) -> list[str]:
    """Return a line for each note, with its number."""
    return [f"note {note.number}: {note.line}" for note in notes]


def _changed(given: str, change: AnnotationChange | None) -> SweepAnnotations:
    """Change a sweep's annotations on the farm, or read them here; return them."""
    if change is not None:
        return farm_client().annotate(sweep_id_of(given), change)
    if farm_elsewhere():
        there = farm_client().sweep_status(given)
        return SweepAnnotations(sweep_id=there.sweep_id, tags=there.tags, notes=there.notes)
    with reading() as store:
        sweep_id = record_of(store, given).sweep_id
        none = SweepAnnotations(sweep_id=sweep_id)
        return store.annotations(sweep_id).get(sweep_id, none)


def _typed(field: str, option: str, tags: Sequence[str]) -> dict[str, str]:
    """Return what the user typed for each item of a field, see `checked`."""
    items = {f"{field}.{place}": f"{option} {tag[:LONGEST]!r}" for place, tag in enumerate(tags)}
    return {field: f"so many tags ({len(tags)})"} | items
