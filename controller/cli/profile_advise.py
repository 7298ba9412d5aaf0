"""`benchfarm profile advise`: what a profile shows to be avoidable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, show_json
from controller.cli.comparison_options import TimeLimit
from controller.contracts.sweep import Stopping
from controller.platform.terminal import say
from controller.profiles.advising.advise import advise
from controller.profiles.files import read
from controller.reports.advice_lines import advice_lines

STOPPING = Stopping()


def advise_(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder that `profile run` or `profile import` wrote."),
    ],
    top: Annotated[int, typer.Option(min=1, help="Pieces of advice to show or prove.")] = 12,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Compare the profiled cell with each advised knob."),
    ] = False,
    time_limit: TimeLimit = STOPPING.time_limit_s,
    json: Json = False,
) -> None:
    """Advise what to change, most seconds saved first.

    Each line has the seconds that a change is predicted to save, their interval, the rule, the knob
    or setting to change, and the evidence. No second is counted twice. With --prove, each knob is
    compared on this host, and what it saves is shown against the prediction. That needs a farm: run
    `benchfarm up`.
    """
    profile = read(folder)
    found = advise(profile)
    if prove:
        # Late: what reaches the farm takes time to load.
        from controller.cli.profile_prove import prove_advice

        prove_advice(folder, profile.summary, found, top, time_limit, json=json)
        return
    if json:
        show_json(found)
        return
    for line in advice_lines(found, top):
        say(line)
