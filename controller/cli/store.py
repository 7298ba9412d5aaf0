"""`benchfarm store …`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import home
from controller.platform.terminal import say
from controller.store import integrity

app = typer.Typer(help="The store: find damage, save what is whole.", no_args_is_help=True)


@app.command()
def check() -> None:
    """Read all that is stored and name what is damaged; exit status 1 if anything is."""
    path = home().store
    found = integrity.check(path)
    counts = ", ".join(f"{number} {noun}" for noun, number in found.sound.items())
    for line in found.damage:
        say(line)
    if not found.damage:
        say(f"{path}: sound: {counts}")
        return
    say(f"{path}: {len(found.damage)} lines of damage; sound are {counts}")
    say("stop the farm, save what is sound, and put it in the place of the store:")
    say("  benchfarm down && benchfarm store salvage NEWFILE")
    sys.exit(1)


@app.command()
def salvage(
    output: Annotated[Path, typer.Argument(help="Store to make; there must be no such file yet.")],
) -> None:
    """Copy all that is sound into a new store."""
    path = home().store
    found = integrity.salvage(path, output)
    for line in found.damage:
        say(f"lost: {line}")
    counts = ", ".join(f"{number} {noun}" for noun, number in found.sound.items() if number)
    say(f"{output}: {counts or 'nothing'}")
    say("to use it, stop the farm, keep the damaged store elsewhere, and move this into its place:")
    say(f"  benchfarm down && mv {path} {path}.damaged && rm -f {path}-wal {path}-shm", lines=True)
    say(f"  mv {output} {path}")
