"""`benchfarm bench …`: what benchfarm itself costs, and how far it can be trusted."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from controller.cli.common import Json, show_json, show_table
from controller.contracts.bench import PlantedTrials
from controller.platform.terminal import say
from controller.reports.overhead import overhead_of
from controller.reports.planted import judged, judged_table
from controller.runtime.api_bench import measure_api
from controller.runtime.overhead import measure_overhead
from controller.runtime.planted import run_planted

app = typer.Typer(
    help="What benchfarm itself costs, and how far to trust it.", no_args_is_help=True
)


@app.command()
def harness(
    pairs: Annotated[int, typer.Option(min=10, help="Interleaved pairs of 64 queries.")] = 48,
    workload: Annotated[str, typer.Option(help="A workload that runs on devices.")] = (
        "shapes_classifier"
    ),
    numerics: Annotated[str, typer.Option(help="Which of its models.")] = "fp32",
    json: Json = False,
) -> None:
    """Measure our overhead on a query of about 5 ms against a bare loop of `invoke`."""
    samples = measure_overhead(workload, numerics, pairs)
    found = overhead_of(samples.pairs)
    if json:
        show_json(found)
        return
    say(
        f"{found.query_s * 1e3:.2f} ms a query, {found.pairs} interleaved pairs: LoadGen and "
        f"our runner take {found.ratio:.4f}× [{found.ratio_low:.4f}, {found.ratio_high:.4f}] (95 %)"
    )


@app.command()
def compare(
    trials: Annotated[int, typer.Option(min=1, help="Comparisons of each planted effect.")] = 200,
    effect: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, help="How much more work B does; may be repeated."),
    ] = None,
    loads: Annotated[
        int | None, typer.Option(min=0, help="Processes of random load beside; one a core.")
    ] = None,
    width: Annotated[
        float, typer.Option(min=1e-4, max=9, help="As in `benchfarm compare`.")
    ] = 0.03,
    seed: Annotated[int, typer.Option(help="Of the load and of who goes first.")] = 0,
    time_limit: Annotated[
        float, typer.Option(min=1, max=86400, metavar="SECONDS", help="Of all of it.")
    ] = 900.0,
    json: Json = False,
) -> None:
    """Compare real work of known difference beside a random load: how often is the interval right?

    Planted are 0, 2, 5 and 10 % unless told otherwise.
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
        f"{found.trials} comparisons: {found.coverage:.1%} of the intervals hold the truth, "
        f"{found.false_verdicts:.1%} of the verdicts are false"
    )


@app.command()
def api(
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="How long they send.")] = 60.0,
    json: Json = False,
) -> None:
    """Measure how long one user waits for the controller while another sends all that is allowed.

    The controller's core runs in a process and on a store of its own; no farm is needed.
    """
    found = measure_api(seconds)
    if json:
        show_json(found)
        return
    say(
        f"{found.requests} requests beside {found.hostile_requests} of a hostile user "
        f"({found.hostile_refused} refused): median {found.median_s * 1e3:.0f} ms, 99 % within "
        f"{found.p99_s * 1e3:.0f} ms, longest {found.longest_s * 1e3:.0f} ms"
    )
    say(
        f"{found.hostile_bytes / 1e6:.1f} MB sent, the store grew by {found.store_bytes / 1e6:.1f} "
        f"MB: {found.store_bytes / found.hostile_bytes:.1f}×"
    )
