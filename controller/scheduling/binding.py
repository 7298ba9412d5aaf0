"""Cells → runs on a fleet. Pure: equal sweeps on equal fleets give equal runs with equal ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.contracts.catalog import Catalog
from controller.contracts.device import Device, shown_names
from controller.contracts.errors import NoMatchingDevice
from controller.contracts.grid import Grid
from controller.contracts.run import Run
from controller.contracts.sweep import Cell, Sweep
from controller.scheduling.hosts import too_few_hosts
from controller.scheduling.limits import require_placed
from controller.scheduling.placement import objections
from controller.scheduling.queued import asked

Out = Sequence[tuple[Device, str]]
"""Devices that are excluded now, each with the reason."""
Judged = dict[tuple[str, ...], dict[str, list[str]]]
"""A cell's requirements → device id → objections to the device."""


def place_cells(
    sweep: Sweep,
    cells: Iterable[Cell],
    devices: Sequence[Device],
    catalog: Catalog,
    out: Out = (),
) -> list[Cell]:
    """Bind cells to devices: `each` makes a copy of a cell for each device, a number so many.

    A sweep that awaits takes devices that are out, too, after the others. Raises
    NoMatchingDevice, naming what excluded each device, if a cell has no device, and SweepInvalid if
    there are too many cells.
    """
    bound: dict[str, Cell] = {}
    judged: Judged = {}
    for cell in cells:
        found = bind(sweep, cell, devices, catalog, out, judged)
        require_placed(sweep, len(bound) + len(found) if sweep.run_on != "any" else 0)
        bound.update((each.key, each) for each in found)
    return shared_order(list(bound.values()), catalog)


def bind(
    sweep: Sweep,
    cell: Cell,
    devices: Sequence[Device],
    catalog: Catalog,
    out: Out = (),
    judged: Judged | None = None,
) -> list[Cell]:
    """Return the copies of one cell bound to devices; raises NoMatchingDevice.

    judged: a cache of objections to the same devices.
    """
    judged = {} if judged is None else judged
    away = [device for device, _ in out] if sweep.awaits else []
    if (asks := asked(cell)) not in judged:
        judged[asks] = {d.id: objections(cell, d, catalog) for d in (*devices, *away)}
    excluded = judged[asks]
    matching = [
        *sorted(device.id for device in devices if not excluded[device.id]),
        *sorted(device.id for device in away if not excluded[device.id]),
    ]
    wanted = sweep.run_on if isinstance(sweep.run_on, int) else 1
    fitting = [device for device in (*devices, *away) if not excluded[device.id]]
    few = too_few_hosts(cell, fitting) if fitting else None
    if len(matching) < wanted or few:
        absent = {d.id: [why] for d, why in out if not objections(cell, d, catalog)}
        names = shown_names({d.id: d for d in (*(d for d, _ in out), *devices)}.values())
        why_not = {names[id_]: why for id_, why in {**absent, **excluded}.items()}
        raise _nowhere(sweep, cell, why_not, wanted, few)
    if sweep.run_on == "any":
        return [cell]
    chosen = matching if sweep.run_on == "each" else matching[:wanted]
    return [cell.model_copy(update={"selector": only(id_)}) for id_ in chosen]


def only(*device_ids: str) -> str:
    """Return the selector that matches these devices, of which there is one at least."""
    return " or ".join(f'device == "{each}"' for each in device_ids)


def left_out(sweep: Sweep, cells: Iterable[Cell], out: Out, catalog: Catalog) -> list[str]:
    """Return the devices that a sweep for each device leaves out, since they are out; with why.

    cells: the sweep's cells, bound to devices.
    """
    if sweep.run_on != "each" or sweep.awaits:
        return []
    unbound = (
        cell.model_copy(update={"selector": selector})
        for cell in cells
        for selector in sweep.devices
    )
    return _fitting(unbound, out, catalog)


def awaited(
    sweep: Sweep, cells: Iterable[Cell], devices: Sequence[Device], out: Out, catalog: Catalog
) -> list[str]:
    """Return the devices that a sweep's cells wait for, since they are out; with why.

    cells: the sweep's cells, bound to devices; devices: those that may get runs now.
    """
    if not sweep.awaits:
        return []
    if sweep.run_on != "any":
        selectors = {cell.selector for cell in cells}
        return [f"{device.shown} ({why})" for device, why in out if only(device.id) in selectors]
    different = {asked(cell): cell for cell in cells}.values()
    stuck = (cell for cell in different if all(objections(cell, d, catalog) for d in devices))
    return _fitting(stuck, out, catalog)


def _fitting(cells: Iterable[Cell], out: Out, catalog: Catalog) -> list[str]:
    """Return the devices that fit any of the cells, with why each is out."""
    different = {asked(cell): cell for cell in cells}.values()
    return [
        f"{device.shown} ({why})"
        for device, why in out
        if not all(objections(cell, device, catalog) for cell in different)
    ]


_PUSHED = ("numerics", "dataset")
"""Knobs that decide, with the workload, which files are pushed to a device."""


def shared_order(cells: Sequence[Cell], catalog: Catalog) -> list[Cell]:
    """Group the cells of a device's own runtime that need the same bundle and files.

    So each model is pushed to a device once, and prepared once on a host; while one phone cools
    down, others run the same model. The order of other cells, and within a group, stays as in the
    sweep.
    """
    groups: dict[object, int] = {}
    return sorted(cells, key=lambda cell: groups.setdefault(_group(cell, catalog), len(groups)))


def _group(cell: Cell, catalog: Catalog) -> object:
    bundle = catalog.stacks[cell.stack].bundle
    if bundle is None:
        return None
    return bundle, cell.workload, *(cell.knobs.get(name) for name in _PUSHED)


def runs_of(sweep: Sweep, sweep_id: str, cells: Iterable[Cell], now: float) -> list[Run]:
    """Return the QUEUED runs of a sweep; repeats are interleaved so that drift affects all cells
    equally."""
    return [*Grid(sweep_id, [*cells], sweep.repeats, sweep.deadline_s, now).runs()]


def _nowhere(
    sweep: Sweep,
    cell: Cell,
    excluded: Mapping[str, Sequence[str]],
    wanted: int,
    few: str | None = None,
) -> NoMatchingDevice:
    """Return the refusal; few: why the devices that fit are too few together."""
    number = f" on {wanted} devices" if wanted > 1 else ""
    tried = f"place {cell.workload} on stack {cell.stack}{number} (devices: {cell.selector})"
    if not excluded:
        return NoMatchingDevice(
            tried,
            "the farm has no device",
            "Start an agent with `benchfarm up` or `benchfarm agent start`.",
        )
    reasons = "; ".join(
        f"{device} is excluded by {', '.join(why)}" for device, why in excluded.items() if why
    )
    if fitting := [device for device, why in excluded.items() if not why]:
        only_ = f"only {', '.join(fitting)} matches"
        reasons = "; ".join(filter(None, (few, only_, reasons)))
    remedy = "Change the selector, or run `benchfarm device list` to see the devices."
    if sweep.awaits:
        remedy = f"A sweep awaits only devices that the farm has had. {remedy}"
    return NoMatchingDevice(tried, reasons, remedy)
