"""`benchfarm machine …`: what this host can do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, home, show_json, show_table
from controller.cli.comparison_options import Knobs, knobs_of
from controller.contracts.peaks import Peaks, PeaksRequest
from controller.platform.helper import Helper
from controller.platform.programs import python_module
from controller.reports.profile_origin import rate_name, rate_text

app = typer.Typer(no_args_is_help=True)


@app.callback()
def machine() -> None:
    """Have verbs, though there is one."""


@app.command()
def peaks(
    stack: Annotated[str, typer.Option(help="Stack to measure matrix products with.")] = "torch",
    knob: Knobs = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again; a better stored value remains.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure peak matrix products, copies and fused updates.

    Values are stored per host; profiles draw their roofline from them. Those shown are the best
    over stacks and over time with these cores and threads. What was measured while the host was
    not quiet is not stored. Knobs are launch settings, such as threads and cores.
    """
    helper = Helper(python_module("agents.machine_peaks"), "measure this host's peaks")
    knobs = knobs_of(knob or ())
    request = PeaksRequest(home=home().path, stack=stack, knobs=knobs, again=again)
    found = helper.ask(request, Peaks)
    if json:
        show_json(found)
        return
    table = Table(
        "what", "peak", "median then", "from", "date", title="this host", title_justify="left"
    )
    for name, roof in found.roofs.items():
        peak, middle = (rate_text(name, rate) for rate in (roof.best, roof.median))
        table.add_row(rate_name(name), peak, middle, roof.source, roof.date)
    show_table(table)
