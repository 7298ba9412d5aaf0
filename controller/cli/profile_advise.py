"""`benchfarm profile advise`: what a profile shows to be avoidable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, show_json
from controller.platform.terminal import say
from controller.profiles.advising.advise import advise
from controller.profiles.files import read
from controller.reports.advice_lines import advice_lines


def advise_(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder that `profile run` or `profile import` wrote."),
    ],
    top: Annotated[int, typer.Option(min=1, help="Pieces of advice to show.")] = 12,
    json: Json = False,
) -> None:
    """Advise what to change, most seconds saved first.

    Each line has the seconds that a change is predicted to save, their interval, the rule, the knob
    or setting to change, and the evidence. No second is counted twice.
    """
    found = advise(read(folder))
    if json:
        show_json(found)
        return
    for line in advice_lines(found, top):
        say(line)
