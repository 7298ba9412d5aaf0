"""`benchfarm demo`: the main job on embedded defaults, from nothing to a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

from controller.cli import demo_metrics
from controller.cli.common import home, unwound
from controller.cli.report import write_report
from controller.cli.sweep import watch_to_end
from controller.contracts.errors import FarmUnavailable, PhoneUnavailable
from controller.contracts.sweep_file import parse_sweep
from controller.platform.processes import adopt_orphans
from controller.platform.terminal import say
from controller.runtime.client import FarmClient
from controller.runtime.lifetime import FarmUp, UpOptions, bring_down, bring_up
from controller.runtime.phones import adb_key, await_devices, connect_phone, started_phone

PHONES = ("flagship", "midrange")


@unwound()  # so that `finally` ends the farm then, too
def demo() -> None:
    """Run real sweeps on this host and two virtual phones.

    Starts a farm, prints the results as tables, writes reports, and stops the farm. A farm that
    is already up is used and left running. If Prometheus is installed, the demo fails unless
    Prometheus shows what was measured.
    """
    adopt_orphans()
    say("starting Ray, the controller and an agent on this machine …")
    home().prepare()
    lost = home().wanted.exists()  # a farm of the user's, which comes back with its options
    farm = bring_up(home(), UpOptions())
    try:
        with ExitStack() as stack:
            sweeps = ["demo_sweep.yaml"]
            sweeps += ["demo_phones.yaml"] if _phones_join(farm, stack) else []
            watch = demo_metrics.begin(stack)
            sweep_ids = _submit(sweeps)
            statuses = [watch_to_end(sweep_id) for sweep_id in sweep_ids]
            statuses += [demo_metrics.conclude(watch)] if watch else []
    finally:
        if farm.started and not lost:
            bring_down(home())
    say(f"stored in {home().store}; see also: benchfarm results list")
    for sweep_id in sweep_ids:
        say(f"report: {_report(sweep_id)}")
    sys.exit(max(statuses))


def _phones_join(farm: FarmUp, stack: ExitStack) -> bool:
    """Start virtual phones and have them register; False, and said why, where they can't run."""
    say(f"starting two virtual phones: {', '.join(PHONES)} …")
    serials = []
    try:
        for profile in PHONES:
            phone = stack.enter_context(
                started_phone(profile, adb_key(home()), farm.cluster.instance)
            )
            connect_phone(home(), phone.address)
            serials.append(phone.facts.serial)
        await_devices(home(), serials)
    except (PhoneUnavailable, FarmUnavailable) as error:
        say(f"no virtual phones in this demo: {error}", err=True)
        return False
    return True


def _submit(names: Sequence[str]) -> list[str]:
    """Submit embedded sweeps; return their ids."""
    folder = files("controller.cli")
    sweeps = [parse_sweep(folder.joinpath(name).read_bytes(), name) for name in names]
    submitted = [FarmClient(home()).submit(sweep, again=True) for sweep in sweeps]
    for submission in submitted:
        say(f"sweep {submission.sweep_id}: {submission.new_runs} runs")
    return [submission.sweep_id for submission in submitted]


def _report(sweep_id: str) -> Path:
    """Write a sweep's report into the home; return where."""
    path = home().reports / f"{sweep_id}.html"
    path.parent.mkdir(exist_ok=True)
    write_report([sweep_id], path)
    return path
