"""Running a paired comparison on the farm, from its sides to what came out."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from controller.cli.common import console, reading
from controller.cli.meant import farm_client
from controller.cli.progress import show_sweep
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.result import used
from controller.contracts.sweep import PairedComparison, Stopping, Sweep
from controller.platform.terminal import say
from controller.reports.comparison import Comparison, compare_pairs
from controller.reports.result_selection import Wanted
from controller.reports.sides import with_omitted
from controller.reports.time_plan import Expected, expected_of, plan_text
from controller.scheduling.expansion import cells_of

NAME = "compare"
"""Of the sweep that a comparison is."""
ENDING_S = 120.0
"""What an attempt may take beyond its limit: a pair that is slower than the one before, and the
end of both sides."""
LOOKED_AT = 20
"""How many earlier comparisons are searched for one of the same sides."""


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """A comparison that the farm ran, and what came out."""

    sweep_id: str
    comparison: Comparison | None
    """None if nothing was compared."""
    failures: tuple[str, ...] = ()
    """Why nothing was compared, a line each."""


def check_comparison(catalog: Catalog, wanted: Wanted, stopping: Stopping) -> None:
    """Raise UserError for sides that no farm can compare."""
    cells_of(_sweep(wanted, stopping), catalog, NAME)


def run_comparison(
    catalog: Catalog, wanted: Wanted, stopping: Stopping, *, quiet: bool
) -> ComparisonRun:
    """Submit a comparison, follow it to its end, and return what came out.

    quiet: show the progress on standard error. Raises UserError and FarmUnavailable; exits with
    status 130 if interrupted, while the comparison continues.
    """
    check_comparison(catalog, wanted, stopping)  # complain before asking the farm
    client = farm_client()
    sweep_id = client.submit(_sweep(wanted, stopping), again=True).sweep_id
    say(plan_text(stopping.time_limit_s, _expected(wanted, catalog)), err=quiet)
    try:
        show_sweep(client, sweep_id, console(stderr=quiet))
    except KeyboardInterrupt:
        say(err=True)
        say(f"the comparison continues; cancel it: benchfarm sweep cancel {sweep_id}", err=True)
        sys.exit(130)
    return _outcome(sweep_id)


def _expected(wanted: Wanted, catalog: Catalog) -> Expected | None:
    """Return how long the newest comparison of the same sides took, if one is stored."""
    with reading() as store:
        named = [record.sweep_id for record in store.sweeps() if record.sweep.name == NAME]
        newest = named[: -LOOKED_AT - 1 : -1]
        stored = (result for name in newest for result in store.results(name))
        return expected_of((with_omitted(result, catalog) for result in stored), wanted)


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


def _outcome(sweep_id: str) -> ComparisonRun:
    with reading() as store:
        results, failures = store.results(sweep_id), store.failures(sweep_id)
    results = [result for result in results if result.counted]
    compared = [result for result in used(results) if result.pairs]
    if not compared:
        told = [f"{f.shown_device}: {f.blame}: {f.message}" for f in failures]
        told += [f"{r.shown_device}: {r.validity}: {'; '.join(r.reasons)}" for r in results]
        last = f"nothing was compared; see: benchfarm sweep status {sweep_id}"
        return ComparisonRun(sweep_id, None, (*told, last))
    catalog = load_catalog()
    whole = [with_omitted(result, catalog) for result in compared]
    return ComparisonRun(sweep_id, compare_pairs(whole, catalog))
