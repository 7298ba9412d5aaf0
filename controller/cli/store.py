"""`benchfarm store …`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import home
from controller.contracts.errors import UserError
from controller.platform.locks import is_locked
from controller.platform.terminal import say
from controller.store import integrity
from controller.store.wal import lock_of

app = typer.Typer(no_args_is_help=True)


@app.command()
def check() -> None:
    """Read the whole store and list what is damaged.

    Reads all artifacts, too, and lists those that are missing, damaged, or of no run. Exit status 1
    if anything is listed.
    """
    path = home().store
    found = integrity.check(path)
    counts = ", ".join(f"{number} {noun}" for noun, number in found.sound.items())
    for line in (*found.damage, *found.artefacts):
        say(line)
    if not (found.damage or found.artefacts):
        say(f"{path}: sound: {counts}")
        return
    lines = len(found.damage) + len(found.artefacts)
    say(f"{path}: {lines} lines of damage; undamaged: {counts}")
    if found.artefacts:
        say("artifacts that are missing or damaged may still be on the hosts of their agents;")
        say("results have their figures without them")
    if found.damage:
        say("stop the farm and copy what is undamaged into a new store:")
        say("  benchfarm down && benchfarm store salvage NEWFILE")
    sys.exit(1)


@app.command()
def salvage(
    output: Annotated[Path, typer.Argument(help="Store to create; the file must not exist.")],
) -> None:
    """Copy everything undamaged into a new store.

    The farm has to be stopped.
    """
    path = home().store
    _require_stopped(path)
    found = integrity.salvage(path, output)
    for line in found.damage:
        say(f"lost: {line}")
    counts = ", ".join(f"{number} {noun}" for noun, number in found.sound.items() if number)
    say(f"{output}: {counts or 'nothing'}")
    say("to use it, set the damaged store aside and rename the new one before the farm starts:")
    say(f"  mv {path} {path}.damaged && rm -f {path}-wal {path}-shm", lines=True)
    say(f"  mv {output} {path}")


def _require_stopped(path: Path) -> None:
    """Raise UserError if a farm writes to a store: what it adds later would not be in the copy."""
    try:
        written = is_locked(lock_of(path))
    except OSError as error:
        why = error.strerror or str(error)
        say(f"benchfarm: cannot tell whether a farm writes to {path}: {why}", err=True)
        say("benchfarm: what it stores after this copy would be lost: stop it first", err=True)
        return
    if written:
        why = "the farm is writing to it, and what it adds would not be in the copy"
        raise UserError(f"salvage {path}", why, "Stop the farm first, by `benchfarm down`.")
