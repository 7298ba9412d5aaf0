"""`benchfarm profile budget`: a step's time, what the peaks allow, and what is in between."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.common import Json, show_json, show_table
from controller.cli.profile_source import Subject, read_profile
from controller.platform.terminal import say
from controller.profiles.budget import budget_of
from controller.reports.budget_lines import budget_lines, budget_tables
from controller.reports.profile_origin import identity_lines


def budget_(
    subject: Subject,
    top: Annotated[int, typer.Option(min=1, help="Operations to show.")] = 12,
    json: Json = False,
) -> None:
    """Show what is between a step's time and the machine's peaks.

    By phase and by operation: what is above the roofline, what has no known roof, waiting, and what
    is in no op. The columns add up to the step.
    """
    profile = read_profile(subject)
    found = budget_of(profile)
    if json:
        show_json(found)
        return
    for line in identity_lines(profile.summary):
        say(line)
    for table in budget_tables(found, profile.summary, top):
        show_table(table)
    for line in budget_lines(found, profile.summary):
        say(line)
