"""What names the rows of a terminal's table: what all share, and columns of what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.device import likeness
from controller.reports.layout import GAP, HARD_SPACE, Column, Kind, shortened, wrapped

LONGEST_SETTING: Final = 24
NAMES: Final = ("device", "workload", "stack")
"""The facts that may be shortened; others are broken into lines at spaces."""


@dataclass(frozen=True, slots=True)
class RowName:
    """What names a row of a table."""

    facts: Mapping[str, str]
    """By their headings; the same ones in all rows."""
    mark: str
    """What follows the device's name, see `mark_of`."""
    knobs: Mapping[str, Scalar]


def mark_of(*, virtual: bool, emulated: bool, imported_from: str = "") -> str:
    """Return what follows a device's name, with spaces at which no line is broken."""
    kind = likeness(virtual=virtual, emulated=emulated, imported_from=imported_from)
    return kind.replace(" (", f"{HARD_SPACE}(")


def shared_lines(rows: Sequence[RowName], width: int) -> list[str]:
    """Return what is equal in all rows, as lines to print above them."""
    constant = [shortened([one], width - GAP)[0] for one in _constants(rows)]
    return wrapped(f"the same in every row: {', '.join(constant)}", width, " " * GAP)


def name_columns(rows: Sequence[RowName]) -> Iterator[Column]:
    """Yield a column for each fact that differs, and one for the knobs that do."""
    marks = [row.mark for row in rows]
    for fact in rows[0].facts:
        if _several(rows, fact):
            cells = [row.facts[fact] for row in rows]
            kind = Kind.NAME if fact in NAMES else Kind.TEXT
            yield Column(fact, cells, kind, marks if fact == "device" else ())
    if differing := differing_knobs([row.knobs for row in rows]):
        words = _settings(rows, differing)
        cells = [
            " ".join(words[n, repr(row.knobs[n])] for n in differing if n in row.knobs)
            for row in rows
        ]
        yield Column("knobs", cells, Kind.TEXT)


def differing_knobs(every: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """Return the names of the knobs that differ, in order."""
    names = dict.fromkeys(name for knobs in every for name in knobs)
    return [name for name in names if len({repr(knobs.get(name)) for knobs in every}) > 1]


def setting(name: str, value: Scalar) -> str:
    """Return a knob as people read it in a list of knobs."""
    # Values such as bf16 or channels_last need no knob name, numbers do.
    return value if isinstance(value, str) else f"{name}={value}"


def _several(rows: Sequence[RowName], fact: str) -> bool:
    return len({(row.facts[fact], fact == "device" and row.mark) for row in rows}) > 1


def _constants(rows: Sequence[RowName]) -> Iterator[str]:
    first, differing = rows[0], differing_knobs([row.knobs for row in rows])
    for fact, value in first.facts.items():
        if not _several(rows, fact):
            yield f"{fact}{HARD_SPACE}{value}{first.mark if fact == 'device' else ''}"
    yield from (f"{name}={value}" for name, value in first.knobs.items() if name not in differing)


def _settings(rows: Sequence[RowName], names: Sequence[str]) -> Mapping[tuple[str, str], str]:
    """Return a word for each name and repr of a value; of long ones, numbers stay whole."""
    found: dict[tuple[str, str], str] = {}
    for name, short in zip(names, shortened(names, LONGEST_SETTING // 2), strict=True):
        # By repr: 1, 1.0 and True are equal, and not the same setting.
        said = (row.knobs[name] for row in rows if name in row.knobs)
        values = {repr(value): value for value in said}.values()
        texts = [value for value in values if isinstance(value, str)]
        cut = dict[Scalar, str](zip(texts, shortened(texts, LONGEST_SETTING), strict=True))
        for value in values:
            word = cut[value] if isinstance(value, str) else setting(short, value)
            found[name, repr(value)] = word.replace(" ", HARD_SPACE)
    return found
