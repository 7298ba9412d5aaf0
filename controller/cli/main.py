"""The `benchfarm` command. Nouns are groups, one file each; importing this loads neither ray nor
torch, and verbs import what they need when they run."""

from __future__ import annotations

import sys

import typer

from controller.cli import (
    agent,
    bench,
    bundle,
    compare,
    dashboards,
    demo,
    device,
    farm,
    kernels,
    phone,
    prometheus,
    results,
    stacks,
    sweep,
)

app = typer.Typer(
    name="benchfarm",
    help="Run AI workload sweeps on a fleet of servers and phones; see which is best, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("up")(farm.up)
app.command("down")(farm.down)
app.command("demo")(demo.demo)
app.command("compare")(compare.compare)
app.add_typer(agent.app, name="agent")
app.add_typer(device.app, name="device")
app.add_typer(sweep.app, name="sweep")
app.add_typer(results.app, name="results")
app.add_typer(phone.app, name="phone")
app.add_typer(prometheus.app, name="prometheus")
app.add_typer(dashboards.app, name="dashboards")
app.add_typer(bundle.app, name="bundle")
app.add_typer(stacks.app, name="stacks")
app.add_typer(bench.app, name="bench")
app.add_typer(kernels.app, name="kernels")


def main() -> None:
    """Run the command line; the user's own mistakes are one line and exit status 2."""
    try:
        app()
    except Exception as error:
        from controller.contracts.errors import BenchfarmError, UserError

        if not isinstance(error, BenchfarmError):
            raise
        typer.echo(f"benchfarm: {error}", err=True)
        sys.exit(2 if isinstance(error, UserError) else 1)


if __name__ == "__main__":
    main()
