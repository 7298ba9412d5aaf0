"""`benchfarm profile diff`: what two profiles differ in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, PageToWrite, show_json, show_table, write_page
from controller.cli.profile_source import Subject, name_of_profile, read_profile
from controller.contracts.errors import UserError
from controller.contracts.profile import ProfileSummary
from controller.contracts.profile_diff import ProfileDiff
from controller.platform.garbage import leave_to_the_end, no_collections
from controller.platform.terminal import say
from controller.profiles.diffing import diff
from controller.reports.profile_diff_lines import answer_lines, ratio_tables


def diff_(
    a: Subject,
    b: Subject,
    output: PageToWrite = None,
    top: Annotated[int, typer.Option(min=1, help="Changes and rows to show.")] = 12,
    json: Json = False,
) -> None:
    """Show what two profiles differ in, largest difference first.

    A and B may be of other stacks, switches, data, machines or versions, and imported from others.
    Each second of both is in one change: operations that only one has; other data types, shapes,
    numbers of calls, reorders, implementations, layouts; the same work in another time.
    """
    with no_collections():
        one, other = read_profile(a), read_profile(b)
        _check_units(a, one.summary, b, other.summary)
        found = diff(one, other, (a, b))
        leave_to_the_end()
    if output:
        _write_page(found, output, _names_of(a, b))
    if json:
        show_json(found)
        return
    say(f"A: {a}, B: {b}")
    for line in answer_lines(found, top):
        say(line)
    for table in ratio_tables(found, top):
        show_table(table)


def _names_of(a: str, b: str) -> tuple[str, str]:
    """Return the profiles' names, or, where they are the same, what was given."""
    names = name_of_profile(a), name_of_profile(b)
    return (a, b) if names[0] == names[1] else names


def _write_page(found: ProfileDiff, path: Path, names: tuple[str, str]) -> None:
    # Late: Jinja and its templates take time to load.
    from controller.reports.html.profile_diff import profile_diff_html

    title = f"Profiles {names[0]} and {names[1]}"
    write_page(path, profile_diff_html(found, title, names))


def _check_units(a: str, one: ProfileSummary, b: str, other: ProfileSummary) -> None:
    if (one.steps is None) is (other.steps is None):
        return
    whole = a if one.steps is None else b
    raise UserError(
        f"diff {a} and {b}",
        f"nothing tells the steps of {whole} apart, so its times are those in all",
        f"Import {whole} again, with --steps N.",
    )
