"""What one sweep may ask for, so that nobody's keeps others waiting or fills the store. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Sweep

MAX_SWEEP_BYTES: Final = 2**16
"""Of a sweep as JSON, and of a sweep file."""
MAX_CELLS: Final = 2000
MAX_RUNS: Final = 10_000
MAX_SELECTORS: Final = 32
MAX_SELECTOR_CHARACTERS: Final = 2000
MAX_WORD_CHARACTERS: Final = 200
"""Of a name of a knob, workload, stack, scenario or recipe, and of a knob's value."""
MAX_NUMBER: Final = 2**63
_SHOWN: Final = 40


def require_within_limits(sweep: Sweep, source: str = "sweep") -> None:
    """Raise SweepInvalid naming what is too much; cheap, whatever the sweep would expand to."""
    size = len(sweep.model_dump_json(exclude_defaults=True).encode())
    _require(source, size, MAX_SWEEP_BYTES, "bytes", "split it into several")
    for key, word in _words(sweep):
        place = f"{source}: key {key[:_SHOWN]}"
        if isinstance(word, str):
            _require(place, len(word), MAX_WORD_CHARACTERS, "characters", "write it shorter")
        elif isinstance(word, int) and abs(word) >= MAX_NUMBER:
            seen = f"{word!r:.{_SHOWN}} is not allowed"
            raise SweepInvalid(place, seen, "it is too large: a number has at most 64 bits")
    devices = f"{source}: key devices"
    _require(devices, len(sweep.devices), MAX_SELECTORS, "selectors", "join some of them by or")
    longest = max(map(len, sweep.devices))
    remedy = "label the devices that it means, and select by the label"
    _require(devices, longest, MAX_SELECTOR_CHARACTERS, "characters in a selector", remedy)
    cells = most_cells(sweep)
    _require(source, cells * sweep.repeats, MAX_RUNS, "runs", "split it into several")
    _require(source, cells, MAX_CELLS, "cells", "split it into several")


def require_placed(sweep: Sweep, cells: int) -> None:
    """Raise SweepInvalid if the cells that a sweep has on a fleet are too many."""
    remedy = "split it into several, or let run_on be a number"
    _require(f"placing sweep {sweep.name}", cells * sweep.repeats, MAX_RUNS, "runs", remedy)


def _require(place: str, seen: int, most: int, noun: str, remedy: str) -> None:
    if seen > most:
        raise SweepInvalid(place, f"it has {seen} {noun}, the most is {most}", remedy)


def most_cells(sweep: Sweep) -> int:
    """Return how many cells a sweep has at most, before it is placed."""
    stacks = len(sweep.paired.b) if sweep.paired else len(sweep.stack)
    axes = (sweep.workload, sweep.scenario, sweep.devices, *sweep.knobs.values())
    return stacks * math.prod(map(len, axes)) * max(1, len(sweep.recipes))


def _words(sweep: Sweep) -> Iterator[tuple[str, Scalar]]:
    """Yield every name and value that is not a selector, with its key."""
    for key in ("workload", "stack", "scenario"):
        yield from _each(key, getattr(sweep, key))
    for name, values in sweep.knobs.items():
        yield from _each(f"knobs.{name}", (name, *values))
    for name, knobs in sweep.recipes.items():
        yield from _each(f"recipes.{name}", (name, *knobs, *knobs.values()))
    yield from _each("baseline", (*sweep.baseline, *sweep.baseline.values()))
    for side in (sweep.paired.a, *sweep.paired.b) if sweep.paired else ():
        yield from _each("paired", (side.stack, *side.knobs, *side.knobs.values()))


def _each(key: str, words: Iterable[Scalar]) -> Iterator[tuple[str, Scalar]]:
    for word in words:
        yield key, word
