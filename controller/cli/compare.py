"""`benchfarm compare`: two cells in turns on one device."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from controller.cli.common import Json, console, home, reading, show_json, show_table
from controller.cli.comparison_options import Knobs, Scenario, SideA, SideB, Workload, wanted_of
from controller.cli.progress import show_sweep
from controller.cli.references import device_id_of
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Validity, used
from controller.contracts.sweep import PairedComparison, Stopping, Sweep
from controller.platform.terminal import say
from controller.reports.comparison import Comparison, compare_pairs
from controller.reports.result_selection import Wanted
from controller.reports.tables import comparison_table
from controller.reports.time_plan import Expected, expected_of, plan_text
from controller.runtime.client import FarmClient
from controller.scheduling.expansion import cells_of

STOPPING = Stopping()
NAME = "compare"
"""Of the sweep that a comparison is."""
ENDING_S = 120.0
"""What an attempt may take beyond its limit: a pair that is slower than the one before, and the
end of both sides."""
LOOKED_AT = 20
"""How many earlier comparisons are searched for one of the same sides."""


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
    time_limit: Annotated[
        float,
        typer.Option(
            min=1,
            max=86400,
            metavar="SECONDS",
            help="Seconds for the whole comparison once a device is free: start, compilation,"
            " warm-up and pairs.",
        ),
    ] = STOPPING.time_limit_s,
    json: Json = False,
) -> None:
    """Compare two cells in alternating batches on one device.

    Needs a farm: run `benchfarm up`. Exit status 0 unless the comparison is INVALID.
    """
    catalog = load_catalog()
    device = None if device is None else device_id_of(device)
    wanted = wanted_of(catalog, a, b, workload, scenario, knob, device)
    sweep = _sweep(wanted, Stopping(width=width, time_limit_s=time_limit))
    cells_of(sweep, catalog, NAME)  # complain before asking the farm
    submission = FarmClient(home()).submit(sweep, again=True)
    say(plan_text(time_limit, _expected(wanted)), err=json)
    sys.exit(_follow(submission.sweep_id, json=json))


def _expected(wanted: Wanted) -> Expected | None:
    """Return how long the newest comparison of the same sides took, if one is stored."""
    with reading() as store:
        named = [record.sweep_id for record in store.sweeps() if record.sweep.name == NAME]
        newest = named[: -LOOKED_AT - 1 : -1]
        return expected_of((r for name in newest for r in store.results(name)), wanted)


def _sweep(wanted: Wanted, stopping: Stopping) -> Sweep:
    return Sweep(
        name=NAME,
        workload=(wanted.workload,),
        scenario=(wanted.scenario,),
        knobs={name: (value,) for name, value in wanted.knobs.items()},
        devices=(f'device == "{wanted.device}"' if wanted.device else "any",),
        deadline_s=stopping.time_limit_s + ENDING_S,
        paired=PairedComparison(a=wanted.a, b=(wanted.b,), **stopping.model_dump()),
    )


def _follow(sweep_id: str, *, json: bool) -> int:
    """Follow a comparison to its end and show what came out; return the exit status."""
    try:
        show_sweep(FarmClient(home()), sweep_id, console(stderr=json))
    except KeyboardInterrupt:
        say(err=True)
        say(f"the comparison continues; cancel it: benchfarm sweep cancel {sweep_id}", err=True)
        return 130
    return _show(sweep_id, json=json)


def _show(sweep_id: str, *, json: bool) -> int:
    with reading() as store:
        results, failures = store.results(sweep_id), store.failures(sweep_id)
    results = [result for result in results if result.counted]
    if not results:
        for failure in failures:
            say(f"{failure.shown_device}: {failure.blame}: {failure.message}", err=True)
        say(f"nothing was compared; see: benchfarm sweep status {sweep_id}", err=True)
        return 1
    metric = load_catalog().scenarios[results[0].scenario].metric
    found = compare_pairs(used(results), metric)
    show_comparison(found, json=json)
    return 1 if found.validity is Validity.INVALID else 0


def show_comparison(found: Comparison, *, json: bool) -> None:
    """Print a comparison: as JSON, or in a few lines."""
    if json:
        show_json(found)
        return
    show_table(comparison_table(found))
    say(found.verdict)
    for reason in found.reasons:
        say(f"{found.validity}: {reason}")
