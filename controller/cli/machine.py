"""`benchfarm machine …`: what this host can do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, home, show_json, show_table
from controller.cli.comparison_options import Knobs, knobs_of
from controller.contracts.profile import Peaks, PeaksRequest
from controller.platform.helper import Helper
from controller.platform.programs import python_module

app = typer.Typer(no_args_is_help=True)


@app.callback()
def machine() -> None:
    """Have verbs, though there is one."""


@app.command()
def peaks(
    stack: Annotated[str, typer.Option(help="Stack to measure matrix products with.")] = "torch",
    knob: Knobs = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again instead of using stored values.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure peak matrix products and memory copying.

    Values are stored per host; profiles draw their roofline from them. Knobs are launch settings,
    such as threads and cores.
    """
    helper = Helper(python_module("agents.machine_peaks"), "measure this host's peaks")
    knobs = knobs_of(knob or ())
    request = PeaksRequest(home=home().path, stack=stack, knobs=knobs, again=again)
    found = helper.ask(request, Peaks)
    if json:
        show_json(found)
        return
    table = Table("what", "peak", title=f"this host, stack {stack}", title_justify="left")
    for dtype, flops in found.gemm_flops.items():
        table.add_row(f"matrix product, {dtype}", f"{flops * 1e-9:.0f} GFLOP/s")
    table.add_row("copy", f"{found.copy_bytes * 1e-9:.1f} GB/s")
    show_table(table)
