"""`benchfarm bench …`: what benchfarm itself costs."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.common import Json, show_json

app = typer.Typer(help="What benchfarm itself costs.", no_args_is_help=True)


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
    from controller.reports.overhead import overhead_of
    from controller.runtime.overhead import measure_overhead

    samples = measure_overhead(workload, numerics, pairs)
    found = overhead_of(samples.harness_s, samples.bare_s)
    if json:
        show_json(found)
        return
    typer.echo(
        f"{found.query_s * 1e3:.2f} ms a query, {found.pairs} interleaved pairs: LoadGen and "
        f"our runner take {found.ratio:.4f}× [{found.ratio_low:.4f}, {found.ratio_high:.4f}] (95 %)"
    )
