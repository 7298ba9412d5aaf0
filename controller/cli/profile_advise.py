"""`benchfarm profile advise`: what a profile shows to be avoidable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, PageToWrite, show_json, write_page
from controller.cli.profile_source import Subject, name_of_profile, read_profile
from controller.contracts.advice import Advised
from controller.contracts.errors import UserError
from controller.contracts.profile import ProfileSummary
from controller.contracts.proof import Proven
from controller.contracts.sweep import Stopping
from controller.platform.terminal import say
from controller.profiles.advising.advise import advise
from controller.reports.advice_lines import advice_lines
from controller.reports.html.profile_advice import profile_advice_html

STOPPING = Stopping()


def advise_(
    subject: Subject,
    output: PageToWrite = None,
    top: Annotated[
        int, typer.Option(min=1, help="Pieces of advice to show, or changes to prove.")
    ] = 12,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Compare the profiled cell with each advised knob."),
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            min=1,
            max=86400,
            metavar="SECONDS",
            help=f"With --prove: seconds for each comparison. [default: {STOPPING.time_limit_s:g}]",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="With --prove: device to compare on. [default: that profiled, or one with its CPU]"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Advise what to change, most seconds saved first.

    Each line has the seconds that a change is predicted to save, their interval, the rule, the knob
    or setting to change, and the evidence. No second is counted twice. With --prove, each knob is
    compared on a device of the farm with the profile's CPU, and what it saves is shown against the
    prediction, also on the page. That needs a farm: run `benchfarm up`.
    """
    if time_limit is not None and not prove:
        seen = "it limits comparisons, and without --prove there are none"
        raise UserError("use --time-limit", seen, "Add --prove, or leave it out.")
    if device is not None and not prove:
        seen = "it is for comparisons, and without --prove there are none"
        raise UserError("use --device", seen, "Add --prove, or leave it out.")
    profile = read_profile(subject)
    found = advise(profile)
    title = f"Advice for {name_of_profile(subject)}"
    if output:
        # Also before proofs, which take hours: a file that can't be written is said at once.
        _write_page(output, title, profile.summary, found)
    if prove:
        # Late: what reaches the farm takes time to load.
        from controller.cli.profile_prove import prove_advice

        limit_s = STOPPING.time_limit_s if time_limit is None else time_limit
        proven = prove_advice(subject, profile, found, top, limit_s, device, json=json)
        if output:
            _write_page(output, title, profile.summary, found, proven)
        return
    if json:
        show_json(found)
        return
    for line in advice_lines(found, top):
        say(line)


def _write_page(
    path: Path, title: str, summary: ProfileSummary, found: Advised, proven: Proven | None = None
) -> None:
    write_page(path, profile_advice_html(summary, found, title, proven))
