"""How a plan of a sweep is shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from controller.cli.common import show_table
from controller.contracts.sweep import Sweep
from controller.platform.terminal import say
from controller.scheduling.planning import SweepPlan


def show_plan(plan: SweepPlan, sweep: Sweep, without_runtime: Sequence[str]) -> None:
    """Print the work of each device, its bookings, devices that are away or have no runtime, then
    cells that match none."""
    table = Table("device", "cells", "runs", "hours", "cells without history", "queued before")
    for each in plan.devices:
        hours = "unknown" if each.hours is None else f"{each.hours:.2f}"
        counts = (str(each.unknown), str(each.queued))
        table.add_row(each.device_name, str(each.cells), str(each.runs), hours, *counts)
    show_table(table)
    for each in plan.devices:
        for booking in each.bookings:
            say(f"{each.device_name} is booked {booking.words}: {booking.why}")
    for each in plan.devices:
        if each.away:
            what = f"{each.runs} runs wait until it is back ({each.away})"
            say(f"{each.device_name} is awaited: {what}")
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
    say(
        f"{sweep.name}: {cells} cells on {len(plan.devices)} devices, "
        f"{plan.shared_cells} can run on several; {len(plan.unmatched)} without a device; {hours}"
    )
