"""The plan of a sweep: its work for each device, before it is submitted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from controller.contracts.base import Contract
from controller.contracts.catalog import Catalog
from controller.contracts.device import Device, DeviceState
from controller.contracts.errors import NoMatchingDevice
from controller.contracts.records import Took
from controller.contracts.sweep import Cell, Sweep
from controller.scheduling.binding import bind
from controller.scheduling.placement import objections

ABSENT = (DeviceState.OFFLINE, DeviceState.UNAUTHORIZED, DeviceState.LOST, DeviceState.QUARANTINED)
Alike = Callable[[Took, Cell, Device], bool]


class DevicePlan(Contract):
    """The work that a sweep would give one device."""

    device: str
    cells: int
    runs: int
    hours: float | None
    """None if no similar cell was ever measured."""
    unknown: int
    """Cells of unknown duration, which `hours` leaves out."""


class Unmatched(Contract):
    """A cell that no device can run, and the reason."""

    cell: str
    selector: str
    workload: str
    stack: str
    why: str


class SweepPlan(Contract):
    """A sweep's plan for the fleet as it is now."""

    devices: tuple[DevicePlan, ...]
    shared_cells: int
    """Cells that any of several devices can run; the plan gives them to the least loaded one."""
    unmatched: tuple[Unmatched, ...]


def plan_sweep(
    sweep: Sweep,
    cells: Sequence[Cell],
    devices: Iterable[tuple[Device, DeviceState]],
    catalog: Catalog,
    history: Sequence[Took],
) -> SweepPlan:
    """Spread a sweep's cells as placement would, and add up the durations of earlier attempts."""
    devices = list(devices)
    there = [device for device, state in devices if state not in ABSENT]
    out = [(device, f"its state, {state}") for device, state in devices if state in ABSENT]
    loads = {device.id: _Load(device) for device in there}
    unmatched, shared = [], 0
    planned: set[str] = set()
    emulated = {device.id for device, _ in devices if device.emulated}
    for cell in cells:
        try:
            bound = bind(sweep, cell, there, catalog, out)
        except NoMatchingDevice as error:
            unmatched.append(_unmatched(cell, error.seen))
            continue
        for each in bound:
            if each.key in planned:  # two selectors may match one device
                continue
            planned.add(each.key)
            fitting = [
                load for load in loads.values() if not objections(each, load.device, catalog)
            ]
            shared += len(fitting) > 1
            least = min(fitting, key=lambda load: (load.seconds, load.cells))
            alike = [t for t in history if (t.device in emulated) == least.device.emulated]
            least.add(sweep.repeats, expected_s(each, least.device, alike))
    return SweepPlan(
        devices=tuple(load.plan() for load in loads.values() if load.cells),
        shared_cells=shared,
        unmatched=tuple(unmatched),
    )


def expected_s(cell: Cell, device: Device, history: Sequence[Took]) -> float | None:
    """Return the median seconds of the attempts most similar to a cell's, or None without any.

    In this order: the same cell on the device; on its kind; the same workload, stack and scenario.
    """
    for alike in _ALIKE:
        if found := [took.seconds for took in history if alike(took, cell, device)]:
            return median(found)
    return None


def _same_work(took: Took, cell: Cell) -> bool:
    return (took.workload, took.stack, took.scenario) == (cell.workload, cell.stack, cell.scenario)


def _same_cell(took: Took, cell: Cell) -> bool:
    return _same_work(took, cell) and (took.knobs, took.versus) == (cell.knobs, cell.versus)


_ALIKE: tuple[Alike, ...] = (
    lambda took, cell, device: took.device == device.id and _same_cell(took, cell),
    lambda took, cell, device: took.device_kind == device.kind and _same_cell(took, cell),
    lambda took, cell, device: took.device == device.id and _same_work(took, cell),
    lambda took, cell, device: took.device_kind == device.kind and _same_work(took, cell),
)


class _Load:
    """The work planned for one device so far."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.cells = self.runs = self.unknown = 0
        self.seconds = 0.0

    def add(self, repeats: int, expected: float | None) -> None:
        self.cells += 1
        self.runs += repeats
        self.unknown += expected is None
        self.seconds += repeats * (expected or 0.0)

    def plan(self) -> DevicePlan:
        known = self.unknown < self.cells
        return DevicePlan(
            device=self.device.id,
            cells=self.cells,
            runs=self.runs,
            hours=self.seconds / 3600 if known else None,
            unknown=self.unknown,
        )


def _unmatched(cell: Cell, why: str) -> Unmatched:
    return Unmatched(
        cell=cell.key, selector=cell.selector, workload=cell.workload, stack=cell.stack, why=why
    )
