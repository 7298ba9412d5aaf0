"""Tables that fit a terminal: no figure is cut, no word split; long names are shortened. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from rich.cells import cell_len, set_cell_size

from controller.platform.terminal import visible

GAP: Final = 2
"""Spaces between columns."""
LEAST_NAME, ENOUGH_NAME = 6, 24
"""Names are shortened to ENOUGH_NAME before metrics are left out, and to LEAST_NAME after."""
ENOUGH_TEXT: Final = 48
"""Texts are broken to ENOUGH_TEXT before metrics are left out, and to their longest word after."""
_MIDDLE: Final = "…"
MOST_TRIED: Final = 80
"""Up to this width, each way to cut a name is tried."""
HARD_SPACE: Final = "\u00a0"
"""A space at which no line is broken; printed as a plain one."""


class Kind(Enum):
    """What may be done to a column that is too wide."""

    NAME = auto()
    """Its cells are shortened in the middle; different ones stay different."""
    TEXT = auto()
    """Its cells are broken into lines at spaces."""
    FIGURE = auto()
    """Nothing."""
    EXTRA = auto()
    """It is left out, and said so; the last one first."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; the cells are of one row each."""

    heading: str
    cells: Sequence[str]
    kind: Kind
    marks: Sequence[str] = field(default=())
    """What follows each name and is never shortened; none for no marks."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A table as lines of text, and the headings of the columns that were left out."""

    lines: tuple[str, ...]
    left_out: tuple[str, ...]


def draw(columns: Sequence[Column], width: int, sections: Iterable[int] = ()) -> Drawn:
    """Return a table that is at most `width` wide, unless its figures alone are wider.

    sections: the rows before which a rule is drawn.
    """
    columns = [_visible(column) for column in columns]
    kept = _chosen(columns, width)
    widths = _widths(kept, width)
    blocks = [_lines_of(c, w) for c, w in zip(kept, widths, strict=True)]
    rule = "─" * (sum(widths) + GAP * (len(widths) - 1))
    heads = [_wrapped(c.heading, w) for c, w in zip(kept, widths, strict=True)]
    lines = [*_row(heads, widths, kept), rule]
    several = any(len(cell) > 1 for block in blocks for cell in block)
    begins = set(sections)
    for number, cells in enumerate(zip(*blocks, strict=True)):
        if number in begins or (several and number):
            lines.append(rule if number in begins else "")
        lines += _row(cells, widths, kept)
    left_out = tuple(c.heading for c in columns if not any(c is one for one in kept))
    return Drawn(tuple(lines), left_out)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines that are broken at spaces; what is longer than a line is whole."""
    first, *more = _wrapped(visible(text), width)
    rest = _wrapped(" ".join(more), width - len(indent)) if more else []
    return [line.replace(HARD_SPACE, " ") for line in (first, *(indent + line for line in rest))]


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Return names that are cut in the middle to a width, or to the least at which they differ."""
    different = len(set(names))
    longest = max(map(cell_len, names), default=0)
    room = max(width, 3)
    while room < longest:
        for tail in _tails(room):
            short = [_cut(name, room, tail) for name in names]
            if len(set(short)) == different:
                return short
        room += 1 if room < MOST_TRIED else room  # texts of thousands of letters take no minutes
    return list(names)


def _tails(room: int) -> list[int]:
    """Return how much of a name's end may be kept, the half first."""
    half = (room - 1) // 2
    if room > MOST_TRIED:
        return [half, 1, room - 2]
    return sorted(range(1, room - 1), key=lambda tail: abs(tail - half))


def _cut(name: str, room: int, tail: int) -> str:
    if cell_len(name) <= room:
        return name
    end = _fitted(name[::-1], tail)[::-1]
    return f"{_fitted(name, room - 1 - tail)}{_MIDDLE}{end}"


def _fitted(text: str, width: int) -> str:
    return set_cell_size(text, width).rstrip()


def _visible(column: Column) -> Column:
    cells = tuple(visible(cell) for cell in column.cells)
    return Column(column.heading, cells, column.kind, column.marks or ("",) * len(cells))


def _chosen(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that have room."""
    kept = list(columns)
    while _total([_enough(column) for column in kept]) > width:
        extras = [n for n, column in enumerate(kept) if column.kind is Kind.EXTRA]
        if not extras:
            break
        del kept[extras[-1]]
    return kept


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Return each column's width: enough, and then more or less for those that may differ."""
    widths = [_enough(column) for column in columns]
    most = [_natural(column) for column in columns]
    least = [_least(column) for column in columns]
    while _total(widths) < width and (short := _less(widths, most)):
        widths[min(short, key=lambda n: widths[n])] += 1
    while _total(widths) > width and (wide := _less(least, widths)):
        widths[max(wide, key=lambda n: widths[n])] -= 1
    return widths


def _less(some: Sequence[int], others: Sequence[int]) -> list[int]:
    return [n for n, (one, other) in enumerate(zip(some, others, strict=True)) if one < other]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _natural(column: Column) -> int:
    return max(_widest(column), cell_len(column.heading))


def _widest(column: Column) -> int:
    """Return the width of the widest cell, or of the heading's longest word."""
    cells = map(cell_len, _marked(column.cells, column.marks))
    return max(*cells, _longest_word(column.heading))


def _enough(column: Column) -> int:
    if column.kind is Kind.NAME:
        return _named(column, ENOUGH_NAME)
    if column.kind is Kind.TEXT:
        return max(_least(column), min(_widest(column), ENOUGH_TEXT))
    return _widest(column)


def _least(column: Column) -> int:
    if column.kind is Kind.NAME:
        return _named(column, LEAST_NAME)
    if column.kind is Kind.TEXT:
        return max(map(_longest_word, (column.heading, *column.cells)))
    return _widest(column)


def _named(column: Column, width: int) -> int:
    short = _marked(_short_names(column, width), column.marks)
    return max(*map(cell_len, short), _longest_word(column.heading))


def _short_names(column: Column, width: int) -> list[str]:
    distinct = list(dict.fromkeys(column.cells))
    short = dict(zip(distinct, shortened(distinct, width), strict=True))
    return [short[cell] for cell in column.cells]


def _marked(cells: Iterable[str], marks: Iterable[str]) -> list[str]:
    return [f"{cell}{mark}" for cell, mark in zip(cells, marks, strict=True)]


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split(" ")))


def _lines_of(column: Column, width: int) -> list[list[str]]:
    """Return each cell's lines."""
    if column.kind is Kind.TEXT:
        return [_wrapped(cell, width) for cell in column.cells]
    cells: Sequence[str] = column.cells
    if column.kind is Kind.NAME:
        # The mark of one may be longer than that of another, so that all names get the least room.
        room = width - max(map(cell_len, column.marks))
        cells = _short_names(column, room) if _widest(column) > width else cells
    return [[cell] for cell in _marked(cells, column.marks)]


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _row(
    cells: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[Column]
) -> Iterator[str]:
    for number in range(max(map(len, cells))):
        texts = [cell[number] if number < len(cell) else "" for cell in cells]
        placed = (_placed(*of) for of in zip(texts, widths, columns, strict=True))
        yield (" " * GAP).join(placed).replace(HARD_SPACE, " ").rstrip()


def _placed(text: str, width: int, column: Column) -> str:
    space = " " * (width - cell_len(text))
    return space + text if column.kind in (Kind.FIGURE, Kind.EXTRA) else text + space
