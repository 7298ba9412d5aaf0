"""Reading of those results that are sound and usual, from their columns.

All that it imports loads at once, for a process that is started for a single export.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

from controller.contracts.flat_result import FlatResult
from controller.contracts.shown_names import ShownNames
from controller.platform.garbage import no_collections
from controller.store.flattening import MEASUREMENTS, OUTCOMES, flat_results, metrics_by_number

Numbers: TypeAlias = Sequence[int]
"""Of results, by which their rows are found."""
FoundByNumber: TypeAlias = dict[int, FlatResult]


def plain_results(
    connection: sqlite3.Connection, numbers: Numbers, shown: ShownNames
) -> FoundByNumber:
    """Return those of some results that are sound and usual, as one transaction sees them.

    The others, of which all may be if anything can't be read, are to be read as contracts.
    """
    if not all(map(_are_texts, shown.of_sweeps.values())):
        return {}
    asked = (json.dumps(numbers),)
    try:
        with no_collections():
            metrics = metrics_by_number(connection.execute(MEASUREMENTS, asked).fetchall())
            rows = connection.execute(OUTCOMES, asked).fetchall()
            if len({row[1] for row in rows}) < len(rows):
                return {}  # a record that is there twice counts once
            return flat_results(rows, metrics, shown)
    except (sqlite3.Error, MemoryError, UnicodeDecodeError):
        return {}


def _are_texts(tags: Sequence[object]) -> bool:
    return isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
