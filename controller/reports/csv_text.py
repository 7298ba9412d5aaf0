"""CSV files that spreadsheets open safely. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\n")
"""What spreadsheets take a cell for a formula by."""
_NUMBER: Final = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NUMBERS: Final = re.compile(rf"{_NUMBER}(?: {_NUMBER})*", re.ASCII)
"""What begins as a formula and is none: a number, or samples with spaces between."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a heading and a line for each row.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in chain([columns], rows):
        writer.writerow(map(_plain, row))
    return buffer.getvalue()


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    line = value.replace("\r", "\\r")  # alone, it would begin another row
    is_formula = line.startswith(_FORMULAS) and not _NUMBERS.fullmatch(line)
    return f"'{line}" if is_formula else line
