"""Which queued run goes to which free device. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from controller.contracts.catalog import Catalog
from controller.contracts.device import Device, RegisteredDevice
from controller.contracts.run import AttemptState, Run
from controller.contracts.sweep import Cell
from controller.scheduling.fair_share import Claims, FairShare
from controller.scheduling.hosts import chosen_hosts, hosts_of
from controller.scheduling.plugins import plugin_objections
from controller.scheduling.queued import QueuedRuns, asked
from controller.scheduling.runtimes import REMEDY, lacks_runtime
from controller.scheduling.selector import parse_selector

NO_CLAIMS = Claims()


def objections(cell: Cell, device: Device, catalog: Catalog) -> list[str]:
    """Return the reasons that exclude a device for a cell, whether or not the device is free."""
    found = []
    if gone := missing(cell, catalog):
        return [gone]
    for stack in dict.fromkeys(side.stack for side in cell.sides()):
        kinds = catalog.stacks[stack].device_kinds
        if device.kind not in kinds:
            found.append(f"stack {stack} (it runs on {' or '.join(kinds)})")
        elif lacks_runtime(catalog.stacks[stack], device):
            built_for = " or ".join(catalog.stacks[stack].architectures)
            why = f"its runtime is for {built_for}, not {device.architecture}; {REMEDY}"
            found.append(f"stack {stack} ({why})")
    found += plugin_objections(cell, device, catalog)
    if selector := parse_selector(cell.selector).objection(device):
        found.append(selector)
    return found


def missing(cell: Cell, catalog: Catalog) -> str | None:
    """Return what excludes every device, as long as a manifest of the cell is gone; else None."""
    for side in cell.sides():
        if side.stack not in catalog.stacks or cell.workload not in catalog.workloads:
            return f"this release, which has no {cell.workload} on stack {side.stack}"
    if cell.scenario not in catalog.scenarios:
        return f"this release, which has no scenario {cell.scenario}"
    return None


def place(
    queued: QueuedRuns,
    free: Sequence[Device],
    busy_cores: Mapping[str, Collection[int]],
    host_of: Mapping[str, str],
    catalog: Catalog,
    claims: Claims = NO_CLAIMS,
    withheld: Collection[str] = (),
) -> Iterator[tuple[Run, Device]]:
    """Pair queued runs with free devices, at most one run a device; claims give the order of users.

    A run on several hosts is paired with all its devices at once or with none: one pair follows the
    other, its lead's first.

    Runs of one user and priority go in queue order. busy_cores: host → cores of measurements under
    way; two leases on one host never share a core. A device on which the run failed before is used
    only if no other fits. withheld: sweeps of which no run is placed. Costs as much as there are
    lines of queued runs and placed runs, however many are queued.
    """
    available = {device.id: device for device in free}
    taken = {host: set(cores) for host, cores in busy_cores.items()}
    fair_share = FairShare(queued.lines(withheld), claims.spent_s)
    takers = Takers(free, catalog)
    while available and (run := fair_share.take()):
        fitting = (
            device
            for device in takers.of(run.cell)
            if device.id in available
            and claims.admits(run, device.id)
            and has_cores(device, taken, host_of)
        )
        chosen = _choose(run, fitting)
        if not chosen:
            fair_share.close()  # those behind it ask the same
            continue
        fair_share.granted(len(chosen))
        for device in chosen:
            del available[device.id]
            taken.setdefault(host_of[device.id], set()).update(device.host_cores)
            yield run, device


def cores_in_use(busy: Iterable[RegisteredDevice]) -> dict[str, set[int]]:
    """Return the cores of each host on which busy devices measure."""
    cores: dict[str, set[int]] = defaultdict(set)
    for known in busy:
        cores[known.agent_id] |= known.device.host_cores
    return cores


def has_cores(
    device: Device, taken: Mapping[str, Collection[int]], host_of: Mapping[str, str]
) -> bool:
    """Return whether nothing measures on a device's cores; taken: cores in use of each host."""
    return device.host_cores.isdisjoint(taken.get(host_of[device.id], ()))


def _choose(run: Run, fitting: Iterator[Device]) -> list[Device]:
    """Return the devices that a run gets, its lead's first, or none."""
    hosts = hosts_of(run.cell.knobs)
    failed = (attempt for attempt in run.attempts if attempt.state is AttemptState.FAILED)
    failed_on = {device_id for attempt in failed for device_id in attempt.device_ids}
    if hosts == 1 and not failed_on:
        return [*islice(fitting, 1)]  # the others need no look
    return chosen_hosts(sorted(fitting, key=lambda device: device.id in failed_on), hosts)


class Takers:
    """The devices that fit a cell, computed once for all cells with the same requirements."""

    def __init__(self, devices: Sequence[Device], catalog: Catalog) -> None:
        self._devices = devices
        self._catalog = catalog
        self._known: dict[tuple[str, ...], list[Device]] = {}

    def of(self, cell: Cell) -> list[Device]:
        """Return the devices that fit the cell, in order."""
        if (asks := asked(cell)) not in self._known:
            self._known[asks] = [
                device for device in self._devices if not objections(cell, device, self._catalog)
            ]
        return self._known[asks]
