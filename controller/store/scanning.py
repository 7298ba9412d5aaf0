"""Reading of damaged tables: no index is trusted, and a damaged row hides no other."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Integer, Table, text
from sqlalchemy.exc import DatabaseError, DBAPIError

Row = Mapping[str, Any]

Note = Callable[[str, str], None]
"""Called with what can't be read, and why."""

FAULTS = (DatabaseError, MemoryError, UnicodeDecodeError)
"""Errors of reading: also from impossible lengths, and from messages with invalid text."""

DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)

CHUNK = 1024
SMALLEST_ROW = 16
"""Least bytes of a row; limits the number of rows in a file, whatever a row id says."""

DAMAGE_WORDS = ("decode to UTF-8", "no such table", "no such column")

_ROW_ID: Column[int] = Column("row_id", Integer)

LONGEST_GAP = 1024
"""After this many unreadable rows in sequence, reading continues from the other end."""


@dataclass(frozen=True, slots=True)
class Only:
    """A condition on a column: one of some values, or none of them."""

    column: str
    values: Collection[str | int]
    none_of: bool = False

    @property
    def sql(self) -> str:
        """The condition, on a parameter `values`."""
        said = "NOT IN" if self.none_of else "IN"
        return f" WHERE [{self.column}] {said} (SELECT value FROM json_each(:values))"

    def keeps(self, row: Row) -> bool:
        """Return whether a row fulfils the condition."""
        return (row[self.column] in self.values) is not self.none_of


def is_damage(error: BaseException) -> bool:
    """Return whether an error means damage to the file, rather than failed access."""
    if isinstance(error, MemoryError | UnicodeDecodeError):
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return code in DAMAGE_CODES or any(said in str(cause) for said in DAMAGE_WORDS)


def scan(
    connection: Connection,
    table: Table,
    note: Note,
    only: Only | None = None,
    *,
    keyed: bool = False,
) -> list[Row]:
    """Return the rows of a table by row id that SQLite can read; note the others.

    keyed: trust the table's indices, and raise DatabaseError if they are damaged.
    """
    where, order = (only.sql if only else ""), ("" if keyed else " ORDER BY rowid")
    values = {"values": json.dumps(list(only.values))} if only else {}
    try:
        return _rows(connection, table, f"{'' if keyed else 'NOT INDEXED'}{where}{order}", values)
    except FAULTS as error:
        if keyed or not is_damage(error):
            raise
    found = _Rescue(connection, table, note).rows()
    return [row for row in found if only is None or only.keeps(row)]


def _rows(connection: Connection, table: Table, rest: str, values: Row) -> list[Row]:
    # Brackets always mean a column; a quoted name could be read as a string if the column is
    # missing.
    names = ", ".join(f"[{column.name}]" for column in table.columns)
    query = text(f"SELECT {names}, rowid AS [row_id] FROM {table.name} {rest}")
    typed = query.columns(*table.columns, _ROW_ID)
    return [dict(row) for row in connection.execute(typed, values).mappings()]


class _Rescue:
    """Reads the reachable rows of a table: by row ids, then in table order from both ends.

    Unreadable parts are halved down to single rows. Where a page is missing, only the row ids
    behind it lead on; where a row id is damaged, only the order of its page does.
    """

    def __init__(self, connection: Connection, table: Table, note: Note) -> None:
        self._connection = connection
        self._table = table
        self._note = note
        (file,) = connection.exec_driver_sql("SELECT file FROM pragma_database_list").scalars()
        self._possible = Path(file).stat().st_size // SMALLEST_ROW
        self._found: defaultdict[int, list[Row]] = defaultdict(list)
        """Rows by row id; a damaged id may be that of another row, too."""
        self._lost: list[int] = []
        self._gap = 0
        self._places_lost = 0

    def rows(self) -> list[Row]:
        last, begin = self._last(), 1
        with _any_text(self._connection):
            while begin <= last and self._gap < LONGEST_GAP:
                self._by_id(begin, min(begin + CHUNK - 1, last))
                begin += CHUNK
            for order in ("ASC", "DESC"):
                self._places_lost, reach = 0, self._reach(order)
                for place in range(0, reach, CHUNK):
                    self._by_place(order, place, min(CHUNK, reach - place))
        if self._gap:  # row ids behind the last row found
            del self._lost[-self._gap :]
            self._note(f"the last rows of table {self._table.name}", "SQLite cannot reach them")
        spans = _spans([number for number in self._lost if number not in self._found])
        for span in spans or ([] if self._gap else ["a part"]):
            self._note(f"{span} of table {self._table.name}", "SQLite cannot read it")
        return [row for number in sorted(self._found) for row in self._found[number]]

    def _last(self) -> int:
        """Return the last row id to look for: the highest of the table and its indices, if
        readable."""
        name = self._table.name
        ways = ["NOT INDEXED", *(f"INDEXED BY [{index}]" for index in self._indices())]
        known = [self._scalar(f"SELECT max(rowid) FROM {name} {way}") for way in ways]
        if known[0] is not None:
            return min(known[0], self._possible)
        return min(max((n for n in known if n is not None), default=LONGEST_GAP), self._possible)

    def _indices(self) -> list[str]:
        try:
            found = self._connection.exec_driver_sql(f"PRAGMA index_list({self._table.name})")
            return [row[1] for row in found if not row[4]]  # partial indices have only some rows
        except FAULTS:
            return []

    def _by_id(self, first: int, last: int) -> None:
        if self._read("WHERE rowid BETWEEN ? AND ? ORDER BY rowid", first, last):
            self._gap = 0
        elif first < last:
            middle = (first + last) // 2
            self._by_id(first, middle)
            self._by_id(middle + 1, last)
        else:
            self._lost.append(first)
            self._gap += 1

    def _by_place(self, order: str, begin: int, count: int) -> None:
        if self._places_lost >= LONGEST_GAP:
            return
        if self._read(f"ORDER BY rowid {order} LIMIT ? OFFSET ?", count, begin):
            return
        if count == 1:
            self._places_lost += 1
        else:
            half = count // 2
            self._by_place(order, begin, half)
            self._by_place(order, begin + half, count - half)

    def _reach(self, order: str) -> int:
        """Return the number of rows that SQLite can step over, readable or not."""
        rows = f"SELECT rowid FROM {self._table.name} NOT INDEXED ORDER BY rowid {order}"
        good, bad = 0, 0
        while (not bad or bad - good > 1) and good < self._possible:
            tried = (good + bad) // 2 if bad else max(CHUNK, 2 * good)
            passed = self._scalar(f"SELECT count(*) FROM ({rows} LIMIT {tried})")
            if passed is None:
                bad = tried
            elif passed < tried:
                return passed
            else:
                good = tried
        return good

    def _read(self, rest: str, *values: int) -> bool:
        """Read some rows; the driver tries first, since it fails fast."""
        rest = f"NOT INDEXED {rest}"
        try:
            driver = self._connection.connection.dbapi_connection
            assert isinstance(driver, sqlite3.Connection)
            driver.execute(f"SELECT * FROM {self._table.name} {rest}", values).fetchall()
            by_name = {f"_{number}": value for number, value in enumerate(values)}
            for name in by_name:
                rest = rest.replace("?", f":{name}", 1)
            rows = _rows(self._connection, self._table, rest, by_name)
        except (*FAULTS, sqlite3.DatabaseError) as error:
            if not is_damage(error):
                raise
            return False
        for row in rows:
            if row not in (same := self._found[row[_ROW_ID.name]]):
                same.append(row)
        return True

    def _scalar(self, query: str) -> int | None:
        """Return a query's single number; None if SQLite can't read the data for it."""
        try:
            return int(self._connection.exec_driver_sql(query).scalar() or 0)
        except FAULTS as error:
            if not is_damage(error):
                raise
            return None


@contextmanager
def _any_text(connection: Connection) -> Iterator[None]:
    """Read text that is not UTF-8 as bytes, since its row is damaged and must be reported."""
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = str


def _spans(numbers: list[int]) -> list[str]:
    """Return ascending numbers as rows and ranges of rows."""
    if not numbers:
        return []
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1]
    parts = [numbers[a:b] for a, b in pairwise([0, *breaks, len(numbers)])]
    return [f"row {p[0]}" if len(p) == 1 else f"rows {p[0]} to {p[-1]}" for p in parts]
