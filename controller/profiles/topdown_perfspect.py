"""Top-down values in the CSV files of PerfSpect's `metrics`. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, dropwhile
from typing import Final

from controller.profiles.topdown_values import NODES, Pair, Values, at, collected, number_in

_NODE: Final = re.compile(r"(?:metric_)?TMA_\.*(\w+)\(%\)$", re.IGNORECASE)
_NAME: Final = "metric"
"""Heading of the names in a summary; of groups of cores, each row begins with its group."""
_MEAN: Final = "mean"


def perfspect_values(lines: Iterable[str]) -> tuple[Values, list[str]]:
    """Return the percents of a summary, a row a metric, or of intervals, a column a metric.

    The notes are empty: PerfSpect names no kinds of cores.
    """
    # Line by line: else an open quote takes all lines behind it into one field.
    rows = [next(csv.reader([line]), []) for line in dropwhile(_is_foreign, lines)]
    return collected(_of_summary(rows)) or collected(_of_intervals(rows)), []


def _of_summary(rows: Sequence[Sequence[str]]) -> Iterator[Pair]:
    name_at, mean_at = next(filter(None, map(_places, rows)), (0, 1))
    for row in rows:
        if len(row) > max(name_at, mean_at) and (node := _node_of_cell(row[name_at])):
            yield node, number_in(row[mean_at])


def _places(row: Sequence[str]) -> tuple[int, int] | None:
    """Return the columns of names and means, if a row is a summary's heading."""
    return (row.index(_NAME), row.index(_MEAN)) if _NAME in row and _MEAN in row else None


def _of_intervals(rows: Sequence[Sequence[str]]) -> Iterator[Pair]:
    head = next((row for row in rows if any(map(_node_of_cell, row))), [])
    names = {place: node for place, cell in enumerate(head) if (node := _node_of_cell(cell))}
    after = rows[rows.index(head) + 1 :] if head else []
    return chain.from_iterable(at(names, row) for row in after)


def _is_foreign(line: str) -> bool:
    return "TMA_" not in line.upper() and _NAME not in line


def _node_of_cell(cell: str) -> str | None:
    """Return the node that a cell of PerfSpect's names: `TMA_..Fetch_Latency(%)`."""
    matched = _NODE.match(cell)
    return node if matched and (node := matched[1].lower()) in NODES else None
