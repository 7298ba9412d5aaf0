"""`benchfarm profile topdown`: what perf and PerfSpect counted, shown and kept with a profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, show_json
from controller.cli.profile_source import write_profile
from controller.platform.terminal import say
from controller.profiles.files import read
from controller.profiles.topdown import read_topdown
from controller.reports.topdown_lines import topdown_lines


def topdown_(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Output of `perf stat -x,` or -j, or PerfSpect's CSV."),
    ],
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Profile to keep it in; replaces an earlier."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the top-down shares that perf or PerfSpect counted.

    Levels 1 and 2: which pipeline slots did work, and what held up the others.
    """
    found = read_topdown(file)
    if into:
        profile = read(into)
        summary = profile.summary.model_copy(update={"topdown": found})
        write_profile(replace(profile, summary=summary), into)
    if json:
        show_json(found)
        return
    for line in topdown_lines(found):
        say(line)
    if into:
        say(f"kept in {into}")
