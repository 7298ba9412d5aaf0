"""Packed storage of runs that have never been leased: one record a submission. Pure.

Such runs differ only in their cells and positions, and most are in the same state. So a record
holds the cells, compressed, with each distinct text once; and the states, run-length coded. A
position without a state belongs to a run with a row of its own.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any, Final

from controller.contracts.base import canonical_json
from controller.contracts.grid import Grid
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell
from controller.store import tables
from controller.store.scanning import Row
from controller.store.sealing import seal_of_row

MAX_RUNS: Final = 2**16
"""Most runs of a record."""
MAX_TEXT: Final = 2**24
"""Most bytes of a record's cells before compression."""
ASKED: Final = tuple(name for name in Cell.model_fields if name != "knobs")

State = tuple[str, int | None, float | None] | None
"""State, resumed_after and queued_at of a run without a row; None for a run with a row."""


def pack(runs: Sequence[Run]) -> tuple[Row | None, list[Run]]:
    """Return the record of a submission's runs, and the runs that it can't represent."""
    by_position = {run.position: run for run in runs}
    grid = _grid_of(by_position) if len(by_position) == len(runs) else None
    cells = _pack_cells(grid.cells) if grid else None
    if grid is None or cells is None:
        return None, list(runs)
    made = [(run, by_position.get(run.position)) for run in grid.runs()]
    said = {run.run_id for run, asked in made if run == asked}
    row = {
        "sweep_id": grid.sweep_id,
        "created_at": grid.created_at,
        "deadline_s": grid.deadline_s,
        "repeats": grid.repeats,
        "cells": cells,
    }
    states = [state_of(run) if run.run_id in said else None for run, _ in made]
    return with_states(row, states), [run for run in runs if run.run_id not in said]


def with_states(row: Row, states: Iterable[State]) -> Row:
    """Return the record with new states of its runs."""
    spans = [[len([*same]), *(state or ())] for state, same in groupby(states)]
    changed = {**row, "spans": spans}
    return {**changed, "checksum": seal_of_row(tables.unleased, changed)}


def states_of(row: Row) -> list[State]:
    """Return the state at each position of a sound record; raises ValueError if it is
    inconsistent."""
    return [state for count, state in _spans_of(row) for _ in range(count)]


def _spans_of(row: Row) -> list[tuple[int, State]]:
    try:
        spans = [(count, (*said,) or None) for count, *said in row["spans"]]
        known = all(state is None or (RunState(state[0]) and len(state) == 3) for _, state in spans)
        fits = all(count > 0 for count, _ in spans) and sum(n for n, _ in spans) <= MAX_RUNS
    except TypeError as error:
        raise ValueError(str(error)) from error
    if not (known and fits):
        raise ValueError("its runs are not what a record has")
    return spans


def state_of(run: Run) -> State:
    """Return a run's state for a record, or None if the run needs a row."""
    return None if run.attempts else (run.state.value, run.resumed_after, run.queued_at)


def counted(row: Row) -> Counter[str]:
    """Return the number of a record's runs in each state; empty if the record isn't understood."""
    counts: Counter[str] = Counter()
    try:
        for count, state in _spans_of(row):
            if state:
                counts[state[0]] += count
    except ValueError:
        return Counter()  # reported when it is unpacked
    return counts


def unpack(row: Row) -> list[Run]:
    """Return the runs of a sound record; raises ValueError if it is inconsistent."""
    states = states_of(row)
    try:
        cells = [*_unpack_cells(row["cells"])]
    except (TypeError, LookupError, AttributeError, RecursionError, zlib.error) as error:
        raise ValueError(f"its cells cannot be read: {error}") from error
    if len(cells) * row["repeats"] != len(states):
        raise ValueError("its cells and its runs do not fit")
    grid = Grid(row["sweep_id"], cells, row["repeats"], row["deadline_s"], row["created_at"])
    runs = zip(grid.runs(), states, strict=True)
    return [_in_state(run, state) for run, state in runs if state is not None]


def _in_state(run: Run, state: tuple[str, int | None, float | None]) -> Run:
    name, resumed_after, queued_at = state
    if state == (RunState.QUEUED, None, None):
        return run
    said = {"state": RunState(name), "resumed_after": resumed_after, "queued_at": queued_at}
    return run.model_copy(update=said)


def _grid_of(by_position: dict[int, Run]) -> Grid | None:
    """Return the grid that most of the runs fit, or None."""
    first = by_position.get(0)
    repeats = 1 + max((run.repeat for run in by_position.values()), default=0)
    width = sum(run.repeat == 0 for run in by_position.values())
    if first is None or not {*range(width)} <= by_position.keys() or width * repeats > MAX_RUNS:
        return None
    cells = [by_position[place].cell for place in range(width)]
    return Grid(first.sweep_id, cells, repeats, first.deadline_s, first.created_at)


def _pack_cells(cells: Sequence[Cell]) -> bytes | None:
    """Return cells as a table of text numbers, by columns; None if it is too long."""
    words: dict[str, int] = {}
    rows = [
        [words.setdefault(canonical_json(word), len(words)) for word in _words(cell)]
        for cell in cells
    ]
    table = canonical_json([*zip_longest(*rows)])
    text = f'{{"table":{table},"words":[{",".join(words)}]}}'.encode()
    return zlib.compress(text, 9) if len(text) <= MAX_TEXT else None


def _words(cell: Cell) -> list[Any]:
    said = cell.model_dump(mode="json")
    knobs = said["knobs"]
    return [[*knobs], *(said[name] for name in ASKED), *knobs.values()]


def _unpack_cells(packed: bytes) -> Iterator[Cell]:
    """Yield the cells; never uses more memory than the longest record that can be packed."""
    reading = zlib.decompressobj()
    text = reading.decompress(packed, MAX_TEXT)
    if not reading.eof:
        raise ValueError("its cells are too long")
    said = json.loads(text)
    for numbers in zip(*said["table"], strict=True):
        names, *words = (said["words"][number] for number in numbers if number is not None)
        asked = dict(zip(ASKED, words, strict=False))
        knobs = dict(zip(names, words[len(ASKED) :], strict=True))
        yield Cell.model_validate({**asked, "knobs": knobs})
