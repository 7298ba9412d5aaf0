"""Top-down values as tools print them: by node in percent, or by event as counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Final

from controller.contracts.topdown import LEVELS

NODES: Final = {*LEVELS, *(name for children in LEVELS.values() for name in children)}
EVENTS: Final[Mapping[str, str]] = {
    "topdown-retiring": "retiring",
    "topdown-bad-spec": "bad_speculation",
    "topdown-fe-bound": "frontend_bound",
    "topdown-be-bound": "backend_bound",
    "topdown-heavy-ops": "heavy_operations",
    "topdown-br-mispredict": "branch_mispredicts",
    "topdown-fetch-lat": "fetch_latency",
    "topdown-mem-bound": "memory_bound",
}
"""Events of Intel's from Ice Lake on (level 2 from Sapphire Rapids on) → node."""
SLOTS: Final = "slots"
"""The event that counts all slots."""
PARENTS: Final = {child: parent for parent, children in LEVELS.items() for child in children}
"""Node of level 2 → node of level 1."""
UNCOUNTED: Final = "<not counted>"
"""What perf prints for an event that had no counter in an interval."""
SMT: Final = "smt_contention"
"""AMD's share of the slots that the core's other thread took."""
Values = dict[str, list[float]]
"""Node → percents, or event → counts, of each interval or group of cores; NaN where not counted."""
Pair = tuple[str, float | None]
"""A node and a percent, or an event and a count; None where there is no number."""


def collected(pairs: Iterable[Pair]) -> Values:
    """Return the numbers of each name."""
    values: Values = {}
    for name, number in pairs:
        if number is not None:
            values.setdefault(name, []).append(number)
    return values


def at(names: Mapping[int, str], fields: Sequence[str]) -> Iterator[Pair]:
    """Yield the number in the column of each name."""
    for place, name in names.items():
        if place < len(fields):
            yield name, number_in(fields[place])


def number_in(text: object) -> float | None:
    """Return a number; NaN for `<not counted>`, None for `<not supported>` and other text.

    A decimal comma, of locales that have one, is read: where commas separate fields, none is left.
    """
    if not isinstance(text, str | int | float) or isinstance(text, bool) or text == "":
        return None
    if text == UNCOUNTED:
        return nan
    try:
        return float(text.replace(",", ".") if isinstance(text, str) else text)
    except (ValueError, OverflowError):
        return None
