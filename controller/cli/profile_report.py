"""`benchfarm profile report`, which alone draws whole profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import write_file
from controller.cli.profile_source import HELP, METAVAR, name_of_profile, read_profile
from controller.platform.terminal import say
from controller.reports.html.profile import profile_html
from controller.reports.html.profiles import profiles_html


def report_(
    subjects: Annotated[list[str], typer.Argument(metavar=f"{METAVAR}...", help=HELP)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write. [default: DIR.html; of several, profiles.html]",
        ),
    ] = None,
) -> None:
    """Write a profile as one HTML page, or several side by side.

    One is shown as tree, shares, roofline and tables; of several, the shares of primitives. Needs
    no network.
    """
    names = _names_of(subjects)
    if len(subjects) == 1:
        path = output or Path(f"{names[0]}.html")
        page = profile_html(read_profile(subjects[0]), f"Profile {names[0]}")
    else:
        path = output or Path("profiles.html")
        profiles = map(read_profile, subjects)
        named = [*zip(names, profiles, strict=True)]
        page = profiles_html(named, f"Profiles {', '.join(names)}")
    write_file(path, page)
    say(f"report written to {path}")


def _names_of(subjects: Sequence[str]) -> list[str]:
    """Return the profiles' names, or, where two have the same, what was given."""
    names = [name_of_profile(subject) for subject in subjects]
    return names if len(set(names)) == len(names) else [*subjects]
