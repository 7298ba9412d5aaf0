"""`benchfarm results explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.common import Json, reading, show_json
from controller.cli.references import record_of
from controller.contracts.catalog import load_catalog, ranking_metrics
from controller.platform.terminal import say
from controller.reports.explanation.explaining import earlier_of, explain, result_of
from controller.reports.explanation.lines import RATIO, explanation_lines
from controller.scheduling.references import find_run


def explain_run(
    run_id: Annotated[str, typer.Argument(help="Run id, or its beginning; see `results list`.")],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP",
            help="Sweep to compare with. [default: the newest earlier runs, at most 10]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Say why a run differs from earlier ones of its cell.

    Compares with runs of the same cell on the same device, and ranks what changed: model, delegate,
    threads, other load, heat, clock, software.
    """
    with reading() as store:
        sweep = None if against is None else record_of(store, against).sweep_id
        results, failures = store.results(), store.failures()
    meant = find_run(run_id, dict.fromkeys(record.run_id for record in (*results, *failures)))
    result = result_of(meant, results)
    earlier = earlier_of(result, results, sweep)
    metric = (
        RATIO
        if result.versus
        else ranking_metrics({result.scenario}).get(result.scenario, "its ranking metric")
    )
    found = explain(result, earlier, metric, load_catalog().own_facts)
    if json:
        show_json(found)
        return
    for line in explanation_lines(found):
        say(line)
