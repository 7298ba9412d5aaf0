"""`benchfarm bench …`: what benchfarm itself costs, and how far it can be trusted."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from controller.cli.common import Json, show_json, show_table
from controller.contracts.bench import PlantedTrials
from controller.contracts.sweep import Stopping
from controller.platform.terminal import say
from controller.reports.overhead import overhead_of
from controller.reports.planted import judged, judged_table
from controller.runtime.api_bench import measure_api
from controller.runtime.overhead import measure_overhead
from controller.runtime.planted import run_planted

app = typer.Typer(no_args_is_help=True)


@app.command()
def harness(
    pairs: Annotated[
        int, typer.Option(min=10, help="Number of interleaved pairs, each of 64 queries a side.")
    ] = 48,
    workload: Annotated[str, typer.Option(help="Workload to run; it must be one for devices.")] = (
        "shapes_classifier"
    ),
    numerics: Annotated[str, typer.Option(help="Number format of the model.")] = "fp32",
    json: Json = False,
) -> None:
    """Measure the overhead on a query of about 5 ms.

    Compares LoadGen and the runner with a bare loop of `invoke`.
    """
    samples = measure_overhead(workload, numerics, pairs)
    found = overhead_of(samples.pairs)
    if json:
        show_json(found)
        return
    say(
        f"{found.query_s * 1e3:.2f} ms per query, {found.pairs} interleaved pairs: LoadGen and "
        f"the runner take {found.ratio:.4f}× [{found.ratio_low:.4f}, {found.ratio_high:.4f}] (95 %)"
    )


@app.command()
def compare(
    trials: Annotated[
        int, typer.Option(min=1, help="Number of comparisons for each effect.")
    ] = 200,
    effect: Annotated[
        list[float] | None,
        typer.Option(
            min=0,
            max=1,
            help="Extra work of side B, as a fraction; repeatable. [default: 0, 0.02, 0.05, 0.1]",
        ),
    ] = None,
    loads: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of processes that make random load. [default: one per core]"
        ),
    ] = None,
    width: Annotated[
        float,
        typer.Option(
            min=1e-4, max=9, help="Relative width of the interval at which a comparison stops."
        ),
    ] = Stopping().width,
    seed: Annotated[
        int, typer.Option(help="Seed of the random load and of the order of sides.")
    ] = 0,
    time_limit: Annotated[
        float,
        typer.Option(
            min=1, max=86400, metavar="SECONDS", help="Seconds for all comparisons together."
        ),
    ] = 900.0,
    json: Json = False,
) -> None:
    """Check how often intervals contain a known difference.

    Compares two sides of known work while other processes make random load.
    """
    wanted = PlantedTrials(
        effects=tuple(effect or (0.0, 0.02, 0.05, 0.10)),
        trials=trials,
        loads=len(os.sched_getaffinity(0)) if loads is None else loads,
        width=width,
        seed=seed,
        time_limit_s=time_limit,
    )
    found = judged(list(run_planted(wanted)))
    if json:
        show_json(found)
        return
    show_table(judged_table(found))
    say(
        f"{found.trials} comparisons: {found.coverage:.1%} of the intervals contain the true "
        f"difference, {found.false_verdicts:.1%} of the verdicts are wrong"
    )


@app.command()
def api(
    seconds: Annotated[
        float, typer.Option(min=1, max=3600, help="Seconds to send requests.")
    ] = 60.0,
    json: Json = False,
) -> None:
    """Measure how long a flood of requests delays others.

    Times one user's requests while another user sends as many as the quota allows. The controller's
    core runs in a process and on a store of its own; no farm is needed.
    """
    found = measure_api(seconds)
    if json:
        show_json(found)
        return
    say(
        f"{found.requests} requests while a hostile user sent {found.hostile_requests} "
        f"({found.hostile_refused} refused): median {found.median_s * 1e3:.0f} ms, 99 % within "
        f"{found.p99_s * 1e3:.0f} ms, longest {found.longest_s * 1e3:.0f} ms"
    )
    say(
        f"{found.hostile_bytes / 1e6:.1f} MB sent, the store grew by {found.store_bytes / 1e6:.1f} "
        f"MB: {found.store_bytes / found.hostile_bytes:.1f}×"
    )
