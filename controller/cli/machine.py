"""`benchfarm machine …`: what this host can do."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, home, show_json, show_table
from controller.cli.comparison_options import Knobs, knobs_of
from controller.contracts.base import canonical_json
from controller.contracts.profile import Peaks
from controller.platform.programs import python_module

app = typer.Typer(help="What this host can do at best.", no_args_is_help=True)


@app.callback()
def machine() -> None:
    """Have verbs, though there is one."""


@app.command()
def peaks(
    stack: Annotated[str, typer.Option(help="The stack whose matrix products count.")] = "torch",
    knob: Knobs = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure anew what is known already.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure this host's peaks: matrix products by data type, and copying; kept per host.

    Knobs are launch settings (threads, cores …). Profiles draw their roofline from the same.
    """
    settings = canonical_json(knobs_of(knob or ()))
    which = "again" if again else "kept"
    command = python_module("agents.machine_peaks", str(home().path), stack, settings, which)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
    found = Peaks.model_validate_json(done.stdout)
    if json:
        show_json(found)
        return
    table = Table("what", "peak", title=f"this host, stack {stack}", title_justify="left")
    for dtype, flops in found.gemm_flops.items():
        table.add_row(f"matrix product, {dtype}", f"{flops * 1e-9:.0f} GFLOP/s")
    table.add_row("copy", f"{found.copy_bytes * 1e-9:.1f} GB/s")
    show_table(table)
