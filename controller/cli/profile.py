"""`benchfarm profile …`: where the time of a training step goes, and how much is left."""

from __future__ import annotations

import resource
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, make_folder, show_json, show_table, write_file
from controller.cli.comparison_options import Knobs
from controller.cli.profile_advise import advise_
from controller.cli.profile_budget import budget_
from controller.cli.profile_diff import diff_
from controller.cli.profile_project import (
    TIME_LIMIT_S,
    live_profile,
    projected_here,
    show_agreement,
)
from controller.cli.profile_report import report_
from controller.cli.profile_run import profiled_folder
from controller.cli.profile_source import Subject, read_profile, write_profile
from controller.cli.profile_topdown import topdown_
from controller.contracts.errors import UserError
from controller.platform.terminal import say
from controller.profiles.benchdnn import benchdnn_batches
from controller.profiles.exports import chrome_trace, collapsed_stacks
from controller.profiles.files import read
from controller.profiles.importing import import_file
from controller.profiles.live_check import Named, checked
from controller.profiles.model import Profile
from controller.reports.counter_lines import counts_table
from controller.reports.profile_lines import tables_of
from controller.reports.profile_origin import identity_lines
from controller.reports.profile_tables import lines_table, summary_lines

app = typer.Typer(no_args_is_help=True)
Top = Annotated[int, typer.Option(min=1, help="Number of rows in each table.")]
Out = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Folder to write the profile to."),
]


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Log or trace, plain or gzip.")],
    output: Out = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Steps that FILE holds. [default: those that FILE tells of]"),
    ] = None,
    project: Annotated[
        bool,
        typer.Option("--project", help="Replay a log's primitives on this host: its efficiency."),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --project: compare it with a profile of the same work from `profile run`.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=86400,
            metavar="SECONDS",
            help="With --project: begin no replay after so long. [default: 300]",
        ),
    ] = None,
    top: Top = 12,
    json: Json = False,
) -> None:
    """Import a oneDNN verbose log or a torch.profiler trace.

    Reads logs of oneDNN 1.x to 3.x and the CPU's part of traces, of any size. If steps are not
    known, times are those in all. With --project, needs a quiet machine: that of the log. With
    --against, exit status 1 if the efficiencies differ by more than 10 %.
    """
    for name, given in (("--time-limit", time_limit), ("--against", against)):
        if given is not None and not project:
            raise UserError(f"use {name}", "it is about replays", "Add --project, or leave it out.")
    wall, core = time.perf_counter(), time.process_time()
    profile = import_file(file, steps)
    wall, core = time.perf_counter() - wall, time.process_time() - core
    live = live_profile(against, Named(str(file), profile)) if against else None
    again = None
    if project:
        projected = projected_here(profile, file, time_limit or TIME_LIMIT_S, live)
        profile, again = projected.log, projected.live
    if output:
        write_profile(profile, output)
    if live and again:
        show_agreement(checked(Named(str(file), profile), live, again), top, json=json)
        return
    _show(profile, top, json=json)
    if not json:
        say(_reading_line(file.stat().st_size, wall, core))


@app.command()
def show(subject: Subject, top: Top = 12, json: Json = False) -> None:
    """Show a profile's top ops, primitives and modules."""
    _show(read_profile(subject), top, json=json)


@app.command()
def run(
    workload: Annotated[str, typer.Argument(help="Workload; it must be a training workload.")],
    stack: Annotated[str, typer.Option(help="Stack to run it on.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write the profile to.")
    ],
    knob: Knobs = None,
    device: Annotated[
        str | None, typer.Option(help="Device id, of this host. [default: its CPU]")
    ] = None,
    top: Top = 12,
    json: Json = False,
) -> None:
    """Time, profile and replay a training workload.

    Each is done in a worker process of its own. Needs a farm: run `benchfarm up`. Exit
    status 0 if there is a profile.
    """
    folder = profiled_folder(workload, stack, knob, device, quiet=json)
    if folder is None:
        sys.exit(1)
    profile = read(folder)
    write_profile(profile, output)
    _show(profile, top, json=json)


app.command("diff")(diff_)
app.command("advise")(advise_)
app.command("report")(report_)
app.command("budget")(budget_)
app.command("topdown")(topdown_)


class Form(StrEnum):
    """What a profile can be exported as."""

    COLLAPSED = "collapsed"
    CHROME = "chrome"
    BENCHDNN = "benchdnn"


@app.command()
def export(
    subject: Subject,
    form: Annotated[
        Form, typer.Argument(help="Format: flame graph stacks, a trace, or batch files.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="PATH", help="File to write; for benchdnn, a folder."
        ),
    ],
) -> None:
    """Export a profile for another program.

    collapsed is for flamegraph.pl and speedscope, chrome for Perfetto, benchdnn for benchdnn.
    """
    profile = read_profile(subject)
    for reason in profile.summary.reasons:
        say(f"the profile is {profile.summary.validity}: {reason}", err=True)
    if form is Form.BENCHDNN:
        _export_batches(profile, output)
        return
    forms = {Form.COLLAPSED: collapsed_stacks, Form.CHROME: chrome_trace}
    write_file(output, forms[form](profile))
    say(f"{form} written to {output}")


def _export_batches(profile: Profile, folder: Path) -> None:
    batches = benchdnn_batches(profile)
    make_folder(folder)
    for name, text in batches.texts.items():
        path, driver = folder / f"{name}.batch", name.partition("-")[0]
        write_file(path, text)
        say(f"benchdnn --{driver} --mode=P --batch={path}")
    for kind, count in batches.left_out.items():
        say(f"left out: {count} distinct {kind}, whose driver takes other problems")


def _reading_line(size: int, wall_s: float, core_s: float) -> str:
    """Return how fast a file was read, and the most memory that this process ever had.

    The rate is that of a core: others may have had it for a part of the time.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    rate = size / max(core_s, 1e-9)
    return (
        f"read {size * 1e-6:.1f} MB in {wall_s:.2f} s, {core_s:.2f} s of a core: "
        f"{rate * 1e-6:.0f} MB/s; peak memory {peak * 1e-6:.0f} MB"
    )


def _show(profile: Profile, top: int, *, json: bool) -> None:
    if json:
        show_json(profile.summary)
        return
    for line in identity_lines(profile.summary):
        say(line)
    for found in tables_of(profile):
        show_table(lines_table(found, top))
    if counters := profile.summary.counters:
        show_table(counts_table(counters))
        for note in counters.notes:
            say(f"the run that counts: {note}")
    for line in summary_lines(profile.summary):
        say(line)
