"""Limits on one sweep, so that no sweep blocks others or fills the store. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Sweep

MAX_SWEEP_BYTES: Final = 2**16
"""Largest sweep, as JSON and as a file, in bytes."""
MAX_CELLS: Final = 2000
MAX_RUNS: Final = 10_000
MAX_SELECTORS: Final = 32
MAX_SELECTOR_CHARACTERS: Final = 2000
MAX_WORD_CHARACTERS: Final = 200
"""Longest name of a knob, workload, stack, scenario or recipe, and longest knob value."""
MAX_NUMBER: Final = 2**63
_SHOWN: Final = 40


def require_within_limits(sweep: Sweep, source: str = "the sweep") -> None:
    """Raise SweepInvalid if a sweep is beyond the limits; cheap, since nothing is expanded."""
    size = len(sweep.model_dump_json(exclude_defaults=True).encode())
    tried, split = f"read {source}", "Split it into several."
    _require(tried, size, MAX_SWEEP_BYTES, "bytes", split)
    for key, word in _words(sweep):
        key = key[:_SHOWN]
        if isinstance(word, str):
            _require(tried, len(word), MAX_WORD_CHARACTERS, "characters", "Shorten it.", key)
        elif isinstance(word, int) and abs(word) >= MAX_NUMBER:
            seen = f"key {key}: {word!r:.{_SHOWN}} is not allowed"
            raise SweepInvalid(tried, seen, "Give a number of at most 64 bits.")
    join = "Join some of them with `or`."
    _require(tried, len(sweep.devices), MAX_SELECTORS, "selectors", join, "devices")
    longest = max(map(len, sweep.devices))
    remedy = "Label the devices, and select by the label."
    noun = "characters in a selector"
    _require(tried, longest, MAX_SELECTOR_CHARACTERS, noun, remedy, "devices")
    cells = most_cells(sweep)
    _require(tried, cells * sweep.repeats, MAX_RUNS, "runs", split)
    _require(tried, cells, MAX_CELLS, "cells", split)


def require_placed(sweep: Sweep, cells: int) -> None:
    """Raise SweepInvalid if a sweep has too many cells on a fleet."""
    remedy = "Split it into several, or make run_on a number."
    _require(f"place sweep {sweep.name}", cells * sweep.repeats, MAX_RUNS, "runs", remedy)


def _require(
    tried: str, count: int, most: int, noun: str, remedy: str, key: str | None = None
) -> None:
    if count > most:
        place = f"key {key}: " if key else ""
        seen = f"{place}it has {count} {noun}; the limit is {most}"
        raise SweepInvalid(tried, seen, remedy)


def most_cells(sweep: Sweep) -> int:
    """Return the largest number of cells that a sweep can have before it is bound to devices."""
    stacks = len(sweep.paired.b) if sweep.paired else len(sweep.stacks)
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
