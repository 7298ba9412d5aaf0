"""Random damage of a SQLite file, and which of its rows each damage leaves whole."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 4096
FILE_HEADER = 100
LEAF, INTERIOR = 0x0D, 0x05

Span = tuple[int, int]
"""Bytes of the file, from and up to."""


@dataclass(slots=True)
class RowBytes:
    """What of a file SQLite needs to reach a row of a table, and the row itself."""

    table: str
    row_id: int
    needs: list[Span] = field(default_factory=list)


def rows_of(path: Path) -> list[RowBytes]:
    """Return every row of every table, from SQLite's documented file format."""
    data = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        roots = connection.execute(
            "SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        schema = list(_tree(data, "sqlite_master", 1, [(0, FILE_HEADER)]))
    shared = [span for row in schema for span in row.needs]
    return [row for name, root in roots for row in _tree(data, name, root, shared)]


def _tree(data: bytes, table: str, page: int, above: list[Span]) -> Iterator[RowBytes]:
    """Walk a table's b-tree: https://www.sqlite.org/fileformat2.html#b_tree_pages."""
    base = (page - 1) * PAGE
    head = base + (FILE_HEADER if page == 1 else 0)
    kind, cells = data[head], struct.unpack_from(">H", data, head + 3)[0]
    pointers = head + (12 if kind == INTERIOR else 8)
    needs = [*above, (head, pointers + 2 * cells)]
    for i in range(cells):
        cell = base + struct.unpack_from(">H", data, pointers + 2 * i)[0]
        if kind == INTERIOR:
            child = struct.unpack_from(">I", data, cell)[0]
            _, end = _varint(data, cell + 4)
            yield from _tree(data, table, child, [*needs, (cell, end)])
        else:
            yield _row(data, table, cell, needs)
    if kind == INTERIOR:
        yield from _tree(data, table, struct.unpack_from(">I", data, head + 8)[0], needs)


def _row(data: bytes, table: str, cell: int, needs: list[Span]) -> RowBytes:
    size, after = _varint(data, cell)
    row_id, after = _varint(data, after)
    least, most = (PAGE - 12) * 32 // 255 - 23, PAGE - 35
    local = least + (size - least) % (PAGE - 4)
    local = size if size <= most else local if local <= most else least
    spans = [(cell, after + local + (4 if size > local else 0))]
    rest, link = size - local, after + local
    while rest > 0:
        overflow = (struct.unpack_from(">I", data, link)[0] - 1) * PAGE
        held = min(rest, PAGE - 4)
        spans.append((overflow, overflow + 4 + held))
        rest, link = rest - held, overflow
    return RowBytes(table, row_id, [*needs, *spans])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        value = value << 7 | data[at + i] & 0x7F
        if data[at + i] < 0x80:
            return value, at + i + 1
    return value << 8 | data[at + 8], at + 9


Damage = Callable[[random.Random, bytearray], None]


def flip_bits(chance: random.Random, data: bytearray) -> None:
    """Flip one to eight bits anywhere."""
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def change_bytes(chance: random.Random, data: bytearray) -> None:
    """Overwrite up to 64 bytes with anything."""
    for _ in range(chance.choice([1, 1, 4, 16, 64])):
        data[chance.randrange(len(data))] = chance.randrange(256)


def zero_run(chance: random.Random, data: bytearray) -> None:
    """Overwrite up to two pages with zeros."""
    begin, length = chance.randrange(len(data)), chance.choice([8, 64, 512, PAGE, 2 * PAGE])
    length = min(length, len(data) - begin)
    data[begin : begin + length] = bytes(length)


def noise_run(chance: random.Random, data: bytearray) -> None:
    """Overwrite up to a page with noise."""
    begin, length = chance.randrange(len(data)), chance.choice([8, 64, 512, PAGE])
    length = min(length, len(data) - begin)
    data[begin : begin + length] = chance.randbytes(length)


def swap_pages(chance: random.Random, data: bytearray) -> None:
    """Let two pages change places, the first as seldom as any."""
    a, b = (PAGE * chance.randrange(len(data) // PAGE) for _ in "ab")
    data[a : a + PAGE], data[b : b + PAGE] = data[b : b + PAGE], data[a : a + PAGE]


def copy_page(chance: random.Random, data: bytearray) -> None:
    """Write a page over another."""
    a, b = (PAGE * chance.randrange(len(data) // PAGE) for _ in "ab")
    data[a : a + PAGE] = data[b : b + PAGE]


def truncate(chance: random.Random, data: bytearray) -> None:
    """Cut the end off, within a page or between two."""
    del data[
        chance.choice([chance.randrange(len(data)), PAGE * chance.randrange(len(data) // PAGE)]) :
    ]


def strike_header(chance: random.Random, data: bytearray) -> None:
    """Overwrite bytes of the file's header, or of its first page."""
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(chance.choice([FILE_HEADER, PAGE]))] = chance.randrange(256)


def strike_page_header(chance: random.Random, data: bytearray) -> None:
    """Overwrite a byte of a b-tree page's own header or of its first cell pointers."""
    page = PAGE * chance.randrange(1, len(data) // PAGE)
    data[page + chance.randrange(24)] = chance.randrange(256)


def change_digit(chance: random.Random, data: bytearray) -> None:
    """Make a digit that stands in text another: all stays well formed, and says something else."""
    digits = [i for i, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    data[chance.choice(digits)] = chance.choice(b"0123456789")


BY_BYTES: tuple[Damage, ...] = (
    flip_bits,
    change_bytes,
    zero_run,
    noise_run,
    swap_pages,
    copy_page,
    truncate,
    strike_header,
    strike_page_header,
    change_digit,
)


def changed(before: bytes, after: bytes) -> list[int]:
    """Return which bytes are another now, or gone."""
    there = min(len(before), len(after))
    pages = range(0, there, PAGE)
    differing = [p for p in pages if before[p : p + PAGE] != after[p : p + PAGE]]
    found = [i for p in differing for i in range(p, min(p + PAGE, there)) if before[i] != after[i]]
    return [*found, *range(there, len(before))]
