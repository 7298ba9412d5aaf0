"""The summary of a sweep as tables for a terminal, one for each scenario. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from controller.reports.figures import shown
from controller.reports.folding import RowName, mark_of, name_columns, shared_lines
from controller.reports.groups import ENERGY
from controller.reports.layout import GAP, HARD_SPACE, Column, Kind, draw, wrapped
from controller.reports.tables import ratio_text
from controller.reports.verdict import bounds
from controller.reports.views.model import Compared, DeviceName, Metric, Ranking, Row
from controller.reports.views.notes import energy_notes, row_notes

NONE: Final = "–"
ELSEWHERE: Final = "†"
Placed = tuple[Ranking, Row]


@dataclass(frozen=True, slots=True)
class ScenarioTable:
    """The rows of one scenario."""

    rows: tuple[Placed, ...]
    sections: tuple[int, ...]
    """The first row of each ranking but the first."""


def summary_lines(rankings: Sequence[Ranking], width: int, how_to_see_all: str) -> list[str]:
    """Return tables of a sweep's rankings, best first within each task.

    width: of the terminal, in columns. how_to_see_all: the command that shows every metric.
    """
    lines: list[str] = []
    for scenario in dict.fromkeys(ranking.scenario for ranking in rankings):
        of = _table([ranking for ranking in rankings if ranking.scenario == scenario])
        lines += ["", *_lines(of, width, how_to_see_all)]
    return lines[1:]


def compared_lines(found: Sequence[Compared], width: int) -> list[str]:
    """Return a table of paired comparisons, then the sides and the verdict of each."""
    marks = [_mark(c.device) for c in found]
    columns = [
        Column("", [f"{number}" for number, _ in enumerate(found, start=1)], Kind.FIGURE),
        Column("device", [c.device.shown for c in found], Kind.NAME, marks),
        Column("task", [c.task for c in found], Kind.TEXT),
        Column("pairs", [str(c.pairs) for c in found], Kind.FIGURE),
        Column("validity", [c.validity for c in found], Kind.TEXT),
    ]
    lines = [*draw(columns, width).lines]
    for number, c in enumerate(found, start=1):
        lines += wrapped(f"{number}: A is {c.a}, B is {c.b}", width, " " * GAP)
        lines += [" " * GAP + line for line in wrapped(c.verdict, width - GAP)]
    return lines


def _table(rankings: Sequence[Ranking]) -> ScenarioTable:
    rows: list[Placed] = []
    sections = []
    for ranking in rankings:
        sections.append(len(rows))
        rows += [(ranking, row) for row in ranking.rows]
    return ScenarioTable(tuple(rows), tuple(sections[1:]))


def _lines(table: ScenarioTable, width: int, how_to_see_all: str) -> Iterator[str]:
    names = [_name(placed) for placed in table.rows]
    yield from shared_lines(names, width)
    drawn = draw([*name_columns(names), *_figures(table)], width, table.sections)
    yield from drawn.lines
    for note in _notes(table, drawn.left_out, how_to_see_all):
        yield from wrapped(note, width, "  ")


def _name(placed: Placed) -> RowName:
    ranking, row = placed
    facts = {"device": row.device.shown, "workload": ranking.workload, "stack": row.stack}
    return RowName(facts | {"scenario": ranking.scenario}, _mark(row.device), row.all_knobs)


def _mark(device: DeviceName) -> str:
    return mark_of(virtual=device.virtual, emulated=device.emulated)


def _figures(table: ScenarioTable) -> Iterator[Column]:
    """Yield the scenario's metric, ratio and validity, and the metrics that may be left out."""
    rows = table.rows
    metric = rows[0][0].columns.metric
    yield Column(metric.heading, [_median(*placed) for placed in rows], Kind.FIGURE)
    if any(row.interval for _, row in rows):
        yield Column(
            f"95{HARD_SPACE}% interval", [_interval(*placed) for placed in rows], Kind.EXTRA
        )
    if any(ranking.reference for ranking, _ in rows):
        yield Column("vs baseline", [_versus(*placed) for placed in rows], Kind.TEXT)
    yield Column("validity", [_validity(row) for _, row in rows], Kind.TEXT)
    details = [_details(*placed) for placed in rows]
    for heading in dict.fromkeys(heading for of in details for heading in of):
        yield Column(heading, [of.get(heading, NONE) for of in details], Kind.EXTRA)


def _median(ranking: Ranking, row: Row) -> str:
    return NONE if row.median is None else _figure(row.median, ranking.columns.metric)


def _figure(value: float, metric: Metric) -> str:
    return shown(value, metric.unit).replace(" ", HARD_SPACE)


def _interval(ranking: Ranking, row: Row) -> str:
    if row.interval is None:
        return NONE
    low, high = (_figure(end, ranking.columns.metric) for end in row.interval)
    return f"[{low}, {high}]"


def _details(ranking: Ranking, row: Row) -> dict[str, str]:
    """Return the other metrics that were measured, by their headings."""
    columns, found = ranking.columns, dict[str, str]()
    if columns.quality and row.quality is not None:
        found[columns.quality.metric.heading] = _figure(row.quality, columns.quality.metric)
    for metric, value, span in zip(columns.details, row.details, row.ranges, strict=True):
        if metric.name == ENERGY and row.energy_unknown:
            found[metric.heading] = "unknown"
        elif value is not None:
            found[metric.heading] = _figure(value, metric) + (f" ({span})" if span else "")
    return found


def _versus(ranking: Ranking, row: Row) -> str:
    """Return the ratio to the baseline, or why there is none."""
    if row.is_reference:
        return ranking.reference
    if row.vs_reference is None:
        return str(row.no_ratio or NONE)
    interval = bounds(row.vs_reference)
    text = ratio_text(row.vs_reference).replace(interval, interval.replace(" ", HARD_SPACE))
    text = text.replace(" %", f"{HARD_SPACE}%")
    return f"{text} {ELSEWHERE}" if row.other_device else text


def _validity(row: Row) -> str:
    parts = (
        (row.valid, "VALID"),
        (row.disturbed, "DISTURBED"),
        (row.invalid, "INVALID"),
        (row.failed, "failed"),
    )
    return ", ".join(f"{count}{HARD_SPACE}{word}" for count, word in parts if count)


def _notes(table: ScenarioTable, left_out: Sequence[str], how_to_see_all: str) -> Iterator[str]:
    """Yield what has to be said below a table."""
    if left_out:
        yield f"left out: {', '.join(left_out)}; see a wider terminal, or {how_to_see_all}"
    elsewhere = dict.fromkeys(str(row.other_device) for _, row in table.rows if row.other_device)
    if elsewhere:
        yield f"{ELSEWHERE} against the baseline on another device: {', '.join(elsewhere)}"
    random = dict.fromkeys(of.workload for of, row in table.rows if row.random_weights)
    if random:
        yield f"random weights, so speed alone is told, and no accuracy: {', '.join(random)}"
    rows = [row for _, row in table.rows]
    yield from (*energy_notes(rows), *row_notes(rows))
