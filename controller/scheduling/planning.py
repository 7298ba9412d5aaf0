"""The plan of a sweep: its work for each device, before it is submitted. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any, Final

from controller.contracts.base import Contract, canonical_json
from controller.contracts.catalog import Catalog
from controller.contracts.device import (
    Booking,
    Device,
    DeviceKind,
    DeviceState,
    Hold,
    shown_names,
)
from controller.contracts.errors import NoMatchingDevice
from controller.contracts.records import Took
from controller.contracts.sweep import Cell, Sweep
from controller.scheduling.binding import bind, left_out
from controller.scheduling.hosts import hosts_of
from controller.scheduling.model_files import HostFiles, needed_files
from controller.scheduling.placement import objections

ABSENT = (DeviceState.OFFLINE, DeviceState.UNAUTHORIZED, DeviceState.LOST, DeviceState.QUARANTINED)
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_Likeness = tuple[object, ...]
"""What attempts that are alike have in common."""


class DevicePlan(Contract):
    """The work that a sweep would give one device."""

    device: str
    device_name: str
    """Its name for people."""
    likeness: str = ""
    """See Device.likeness."""
    cells: int
    runs: int
    hours: float | None
    """None if no similar cell was ever measured."""
    unknown: int
    """Cells of unknown duration, which `hours` leaves out."""
    queued: int = 0
    """Runs of other sweeps that are queued and will most likely go to it first."""
    bookings: tuple[Booking, ...] = ()
    """Its bookings that have not ended, which `hours` leaves out."""
    away: str = ""
    """Why it is away or in quarantine, if the sweep awaits it; else empty."""
    draining: Hold | None = None
    """Set if its agent is drained: its runs wait for the end of that, which `hours` leaves out."""
    files: dict[str, str | None] = {}
    """Files of the model store that its cells need: key → published checksum, if any."""


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
    left_out: tuple[str, ...] = ()
    """Devices that fit but are away or in quarantine, if the sweep is for each; with why."""
    without_files: tuple[HostFiles, ...] = ()
    """Hosts that lack files that their devices' cells need, or of which that is unknown."""


def plan_sweep(
    sweep: Sweep,
    cells: Sequence[Cell],
    devices: Iterable[tuple[Device, DeviceState]],
    catalog: Catalog,
    history: Sequence[Took],
    queued: Mapping[str, int] = NOTHING,
    bookings: Mapping[str, tuple[Booking, ...]] = NOTHING,
    draining: Mapping[str, Hold] = NOTHING,
) -> SweepPlan:
    """Spread a sweep's cells as placement would, and add up the durations of earlier attempts.

    queued: device → runs that are queued for it; bookings: device → its bookings; draining: device
    → the drain of its agent, if any.
    """
    devices = list(devices)
    there = [device for device, state in devices if state not in ABSENT]
    out = [(device, f"its state, {state}") for device, state in devices if state in ABSENT]
    names = shown_names(device for device, _ in devices)
    loads = {device.id: _Load(device, names[device.id]) for device in there}
    absent = {d.id: _Load(d, names[d.id], why) for d, why in out if sweep.awaits}
    unmatched, shared = [], 0
    planned: set[str] = set()
    durations = Durations(history, {device.id for device, _ in devices if device.emulated})
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
            fitting = _fitting(each, loads, catalog) or _fitting(each, absent, catalog)
            shared += len(fitting) > 1
            fitting.sort(key=lambda load: (load.device.id in draining, load.seconds, load.cells))
            for least in fitting[: hosts_of(each.knobs)]:
                least.add(sweep.repeats, durations.of(each, least.device))
                least.files |= needed_files(each, catalog)
    return SweepPlan(
        devices=tuple(
            load.plan(queued.get(id_, 0), bookings.get(id_, ()), draining.get(id_))
            for id_, load in {**loads, **absent}.items()
            if load.cells
        ),
        shared_cells=shared,
        unmatched=tuple(unmatched),
        left_out=tuple(left_out(sweep, cells, out, catalog)),
    )


def _fitting(cell: Cell, loads: Mapping[str, _Load], catalog: Catalog) -> list[_Load]:
    return [load for load in loads.values() if not objections(cell, load.device, catalog)]


class Durations:
    """How long attempts took; those on emulated devices tell nothing about others."""

    def __init__(self, history: Iterable[Took], emulated: Collection[str] = ()) -> None:
        self._emulated = emulated
        self._seconds: dict[_Likeness, list[float]] = defaultdict(list)
        self._medians: dict[_Likeness, float] = {}
        for took in history:
            for likeness in self._likenesses(took, took.device, took.device_kind):
                self._seconds[likeness].append(took.seconds)

    def of(self, cell: Cell, device: Device) -> float | None:
        """Return the median seconds of the attempts most similar to a cell's, or None without any.

        In this order: the same cell on the device; on its kind; the same workload, stack and
        scenario on the device; on its kind.
        """
        for likeness in self._likenesses(cell, device.id, device.kind):
            if seconds := self._seconds.get(likeness):
                if likeness not in self._medians:  # asked for each open run
                    self._medians[likeness] = median(seconds)
                return self._medians[likeness]
        return None

    def _likenesses(self, done: Took | Cell, device: str, kind: DeviceKind) -> list[_Likeness]:
        """Return what attempts can have in common with one, the most similar first."""
        work = (done.workload, done.stack, done.scenario, device in self._emulated)
        versus = done.versus and canonical_json(done.versus.model_dump(mode="json"))
        cell = (*work, frozenset(done.knobs.items()), versus)
        return [(place, *which) for which in (cell, work) for place in (("id", device), kind)]


class _Load:
    """The work planned for one device so far."""

    def __init__(self, device: Device, name: str, away: str = "") -> None:
        self.device, self.name = device, name
        self.away = away
        self.cells = self.runs = self.unknown = 0
        self.seconds = 0.0
        self.files: dict[str, str | None] = {}

    def add(self, repeats: int, expected: float | None) -> None:
        self.cells += 1
        self.runs += repeats
        self.unknown += expected is None
        self.seconds += repeats * (expected or 0.0)

    def plan(self, queued: int, bookings: tuple[Booking, ...], draining: Hold | None) -> DevicePlan:
        known = self.unknown < self.cells
        return DevicePlan(
            device=self.device.id,
            device_name=self.name,
            likeness=self.device.likeness,
            cells=self.cells,
            runs=self.runs,
            hours=self.seconds / 3600 if known else None,
            unknown=self.unknown,
            queued=queued,
            bookings=bookings,
            away=self.away,
            draining=draining,
            files=self.files,
        )


def _unmatched(cell: Cell, why: str) -> Unmatched:
    return Unmatched(
        cell=cell.key, selector=cell.selector, workload=cell.workload, stack=cell.stack, why=why
    )
