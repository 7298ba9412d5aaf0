"""`benchfarm demo`: the main job on embedded defaults, from nothing to a table."""

from __future__ import annotations

import signal
import sys
from importlib.resources import files

import typer

from controller.cli.common import home


def demo() -> None:
    """Bring up a farm, run a real sweep on this machine, show what came out, leave nothing running.

    A farm that is already up is used and left up.
    """
    from controller.cli.sweep import watch_to_end
    from controller.contracts.sweep_file import parse_sweep
    from controller.runtime.client import FarmClient
    from controller.runtime.lifetime import bring_down, bring_up

    sweep = parse_sweep(files("controller.cli").joinpath("demo_sweep.yaml").read_bytes(), "demo")
    signal.signal(signal.SIGTERM, _exit)  # so that `finally` ends the farm then, too
    typer.echo("starting Ray, the controller and an agent on this machine …")
    farm = bring_up(home(), {}, with_agent=True)
    try:
        submission = FarmClient(home()).submit(sweep, again=True)
        typer.echo(f"sweep {submission.sweep_id}: {submission.new_runs} training runs")
        status = watch_to_end(submission.sweep_id)
    finally:
        if farm.started:
            bring_down(home())
    typer.echo(f"stored in {home().store}; see also: benchfarm results list")
    sys.exit(status)


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)
