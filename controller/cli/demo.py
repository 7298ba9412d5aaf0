"""`benchfarm demo`: the main job on embedded defaults, from nothing to a table."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.resources import files
from typing import TYPE_CHECKING

import typer

from controller.cli.common import home

if TYPE_CHECKING:
    from controller.runtime.lifetime import FarmUp

PHONES = ("flagship", "midrange")


def demo() -> None:
    """Bring up a farm and two virtual phones, run real sweeps, show the tables, leave nothing.

    A farm that is already up is used and left up.
    """
    from controller.contracts.processes import adopt_orphans
    from controller.runtime.lifetime import bring_down, bring_up

    adopt_orphans()
    signal.signal(signal.SIGTERM, _exit)  # so that `finally` ends the farm then, too
    typer.echo("starting Ray, the controller and an agent on this machine …")
    farm = bring_up(home(), {}, with_agent=True)
    try:
        with ExitStack() as stack:
            sweeps = ["demo_sweep.yaml"]
            sweeps += ["demo_phones.yaml"] if _phones_join(farm, stack) else []
            statuses = _run(sweeps)
    finally:
        if farm.started:
            bring_down(home())
    typer.echo(f"stored in {home().store}; see also: benchfarm results list")
    sys.exit(max(statuses))


def _phones_join(farm: FarmUp, stack: ExitStack) -> bool:
    """Start virtual phones and have them register; False, and said why, where they can't run."""
    from controller.contracts.errors import FarmUnavailable
    from controller.runtime.phones import (
        PhoneUnavailable,
        adb_key,
        await_devices,
        connect_phone,
        started_phone,
    )

    typer.echo(f"starting two virtual phones: {', '.join(PHONES)} …")
    serials = []
    try:
        for profile in PHONES:
            phone = stack.enter_context(
                started_phone(profile, adb_key(home()), farm.cluster.instance)
            )
            connect_phone(home(), phone.address)
            serials.append(str(phone.facts["serial"]))
        await_devices(home(), serials)
    except (PhoneUnavailable, FarmUnavailable) as error:
        typer.echo(f"no virtual phones in this demo: {error}", err=True)
        return False
    return True


def _run(names: Sequence[str]) -> list[int]:
    """Submit embedded sweeps and follow each to its end; return their exit statuses."""
    from controller.cli.sweep import watch_to_end
    from controller.contracts.sweep_file import parse_sweep
    from controller.runtime.client import FarmClient

    folder = files("controller.cli")
    sweeps = [parse_sweep(folder.joinpath(name).read_bytes(), name) for name in names]
    submitted = [FarmClient(home()).submit(sweep, again=True) for sweep in sweeps]
    for submission in submitted:
        typer.echo(f"sweep {submission.sweep_id}: {submission.new_runs} runs")
    return [watch_to_end(submission.sweep_id) for submission in submitted]


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)
