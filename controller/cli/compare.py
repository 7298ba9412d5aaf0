"""`benchfarm compare`: two cells in turns on one device."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from controller.cli.common import Json, show_json, show_table
from controller.cli.comparison_options import (
    Knobs,
    Scenario,
    SideA,
    SideB,
    TimeLimit,
    Workload,
    wanted_of,
)
from controller.cli.comparison_run import run_comparison
from controller.cli.references import device_id_of
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Validity
from controller.contracts.sweep import Stopping
from controller.platform.terminal import say
from controller.reports.comparison import Comparison
from controller.reports.tables import comparison_table

STOPPING = Stopping()


def compare(
    a: SideA,
    b: SideB,
    workload: Workload,
    scenario: Scenario = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Device. [default: any that can run both sides]"),
    ] = None,
    knob: Knobs = None,
    width: Annotated[
        float,
        typer.Option(
            min=1e-4,
            max=9,
            help="Stop when the 95 % interval is narrower than this fraction of the ratio.",
        ),
    ] = STOPPING.width,
    time_limit: TimeLimit = STOPPING.time_limit_s,
    json: Json = False,
) -> None:
    """Compare two cells in alternating batches on one device.

    Needs a farm: run `benchfarm up`. Exit status 0 unless the comparison is INVALID.
    """
    catalog = load_catalog()
    device = None if device is None else device_id_of(device)
    wanted = wanted_of(catalog, a, b, workload, scenario, knob, device)
    stopping = Stopping(width=width, time_limit_s=time_limit)
    run = run_comparison(catalog, wanted, stopping, quiet=json)
    if run.comparison is None:
        for line in run.failures:
            say(line, err=True)
        sys.exit(1)
    show_comparison(run.comparison, json=json)
    sys.exit(1 if run.comparison.validity is Validity.INVALID else 0)


def show_comparison(found: Comparison, *, json: bool) -> None:
    """Print a comparison: as JSON, or in a few lines."""
    if json:
        show_json(found)
        return
    show_table(comparison_table(found))
    say(found.verdict)
    for reason in found.reasons:
        say(f"{found.validity}: {reason}")
