"""How the cells of a sweep are shown: what they share in a line, what differs in a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.table import Table

from controller.cli.common import show_table
from controller.contracts.base import scalar_text
from controller.contracts.catalog import Catalog
from controller.contracts.sweep import Cell, Side, side_labels
from controller.platform.terminal import say


def show_cells(cells: Sequence[Cell], catalog: Catalog) -> None:
    """Print what all cells share, but for knobs at their defaults; then a row for each cell."""
    rows = [_axes(cell) for cell in cells]
    axes = {axis: [row[axis] for row in rows] for axis in rows[0]}
    apart = [axis for axis, values in axes.items() if len(set(values)) > 1]
    knobs = _varying_knobs(cells)
    shared = [f"{axis} {values[0]}" for axis, values in axes.items() if axis not in apart]
    shared += [_knobs_of(cells[0], names)] if (names := _set_in_all(cells, knobs, catalog)) else []
    say(f"all cells: {', '.join(filter(None, shared))}; other knobs have their defaults")
    table = Table("cell", *apart, *(["knobs"] if knobs else []))
    for cell, row in zip(cells, rows, strict=True):
        own = [_knobs_of(cell, knobs)] if knobs else []
        table.add_row(cell.key, *(row[axis] for axis in apart), *own)
    show_table(table)


def _varying_knobs(cells: Sequence[Cell]) -> list[str]:
    """Return the knobs that differ between cells, in order."""
    names = dict.fromkeys(name for cell in cells for name in cell.knobs)
    return [name for name in names if len({cell.knobs.get(name) for cell in cells}) > 1]


def _axes(cell: Cell) -> dict[str, str]:
    a, b = cell.stack, ""
    if cell.versus:
        a, b = side_labels(Side(stack=cell.stack, knobs=cell.knobs), cell.versus)
    return {
        "workload": cell.workload,
        "stack": a,
        **({"compared with": b} if b else {}),
        "scenario": cell.scenario,
        "devices": cell.selector,
    }


def _set_in_all(cells: Sequence[Cell], varying: Collection[str], catalog: Catalog) -> list[str]:
    """Return the knobs that have one value in all cells, which is not their default."""

    def is_default(name: str) -> bool:
        defaults = (catalog.knobs_of(c.workload, c.stack, c.scenario)[name].default for c in cells)
        return all(default == cells[0].knobs[name] for default in defaults)

    return [n for n in cells[0].knobs if n not in varying and not is_default(n)]


def _knobs_of(cell: Cell, names: Collection[str]) -> str:
    return " ".join(f"{n}={scalar_text(cell.knobs[n])}" for n in names if n in cell.knobs)
