"""How a plan of a sweep is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from controller.cli.common import show_table
from controller.contracts.base import utc_minute
from controller.contracts.sweep import Sweep
from controller.platform.terminal import say
from controller.scheduling.planning import DevicePlan, SweepPlan


def show_plan(plan: SweepPlan, sweep: Sweep, without_runtime: Sequence[str]) -> None:
    """Print the work of each device, its bookings, devices that are away or have no runtime, then
    cells that match none."""
    table = Table("device", "cells", "runs", "hours", "cells without history", "queued before")
    for each in plan.devices:
        hours = "unknown" if each.hours is None else f"{each.hours:.2f}"
        counts = (str(each.unknown), str(each.queued))
        device = f"{each.device_name}{each.likeness}"
        table.add_row(device, str(each.cells), str(each.runs), hours, *counts)
    show_table(table)
    for each in plan.devices:
        for line in _notes(each):
            say(line)
    for host in plan.without_files:
        say(host.line)
    if plan.left_out:
        say(f"left out, because they are away: {'; '.join(plan.left_out)}")
    for line in without_runtime:
        say(line)
    for lost in plan.unmatched:
        what = f"{lost.workload} on stack {lost.stack}, devices: {lost.selector}"
        say(f"no device for {what}: {lost.why}")
    known = [each.hours for each in plan.devices if each.hours is not None]
    cells = sum(each.cells for each in plan.devices)
    hours = f"about {max(known):.2f} hours" if known else "no history says how long it takes"
    said = f"{sweep.name}: {_counted(cells, 'cell')} on {_counted(len(plan.devices), 'device')}"
    if plan.shared_cells:
        said += f", {plan.shared_cells} can run on several"
    if plan.unmatched:
        said += f"; {len(plan.unmatched)} without a device"
    say(f"{said}; {hours}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _notes(planned: DevicePlan) -> Iterator[str]:
    """Return what keeps a device from taking its runs."""
    name = f"{planned.device_name}{planned.likeness}"
    for booking in planned.bookings:
        yield f"{name} is booked {booking.words}: {booking.why}"
    if drain := planned.draining:
        since = f"since {utc_minute(drain.since)}, by {drain.who}: {drain.why}"
        yield f"{name} takes no runs: its host is draining {since}"
    if planned.away:
        yield f"{name} is awaited: {planned.runs} runs wait until it is back ({planned.away})"
