"""The summary of a sweep as tables for a terminal, one for each scenario. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.device import likeness
from controller.reports.groups import ENERGY
from controller.reports.layout import GAP, HARD_SPACE, Column, Kind, draw, shortened, wrapped
from controller.reports.tables import ratio_text, shown
from controller.reports.verdict import bounds
from controller.reports.views.model import Compared, DeviceName, Metric, Ranking, Row
from controller.reports.views.rows import setting

NONE: Final = "–"
ELSEWHERE: Final = "†"
LONGEST_SETTING = 24
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
    constant = [shortened([one], width - GAP)[0] for one in _constants(table)]
    yield from wrapped(f"the same in every row: {', '.join(constant)}", width, " " * GAP)
    drawn = draw([*_names(table), *_figures(table)], width, table.sections)
    yield from drawn.lines
    for note in _notes(table, drawn.left_out, how_to_see_all):
        yield from wrapped(note, width, "  ")


def _facts(placed: Placed) -> dict[str, str]:
    """Return what may be a column of names."""
    ranking, row = placed
    facts = {"device": row.device.shown, "workload": ranking.workload, "stack": row.stack}
    return facts | {"scenario": ranking.scenario}


def _mark(device: DeviceName) -> str:
    return likeness(virtual=device.virtual, emulated=device.emulated).replace(
        " (", f"{HARD_SPACE}("
    )


def _differing(table: ScenarioTable) -> list[str]:
    """Return the knobs that differ between rows, in order."""
    every = [row.all_knobs for _, row in table.rows]
    names = dict.fromkeys(name for knobs in every for name in knobs)
    return [name for name in names if len({repr(knobs.get(name)) for knobs in every}) > 1]


def _several(table: ScenarioTable, fact: str) -> bool:
    return len({(_facts(p)[fact], fact == "device" and _mark(p[1].device)) for p in table.rows}) > 1


def _constants(table: ScenarioTable) -> Iterator[str]:
    """Yield what is equal in all rows."""
    (_, row), differing = table.rows[0], _differing(table)
    for fact, value in _facts(table.rows[0]).items():
        if not _several(table, fact):
            yield f"{fact}{HARD_SPACE}{value}{_mark(row.device) if fact == 'device' else ''}"
    yield from (f"{name}={value}" for name, value in row.all_knobs.items() if name not in differing)


def _names(table: ScenarioTable) -> Iterator[Column]:
    marks = [_mark(row.device) for _, row in table.rows]
    for fact in ("device", "workload", "stack"):
        if _several(table, fact):
            cells = [_facts(placed)[fact] for placed in table.rows]
            yield Column(fact, cells, Kind.NAME, marks if fact == "device" else ())
    if differing := _differing(table):
        words = _settings(table, differing)
        cells = [
            " ".join(words[n, repr(row.all_knobs[n])] for n in differing if n in row.all_knobs)
            for _, row in table.rows
        ]
        yield Column("knobs", cells, Kind.TEXT)


def _settings(table: ScenarioTable, names: Sequence[str]) -> Mapping[tuple[str, str], str]:
    """Return a word for each name and repr of a value; of long ones, numbers stay whole."""
    found: dict[tuple[str, str], str] = {}
    for name, short in zip(names, shortened(names, LONGEST_SETTING // 2), strict=True):
        # By repr: 1, 1.0 and True are equal, and not the same setting.
        said = (r.all_knobs[name] for _, r in table.rows if name in r.all_knobs)
        values = {repr(value): value for value in said}.values()
        texts = [value for value in values if isinstance(value, str)]
        cut = dict[Scalar, str](zip(texts, shortened(texts, LONGEST_SETTING), strict=True))
        for value in values:
            word = cut[value] if isinstance(value, str) else setting(short, value)
            found[name, repr(value)] = word.replace(" ", HARD_SPACE)
    return found


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
    reasons: dict[str, list[str]] = {}
    for _, row in table.rows:
        if row.energy_unknown:
            reasons.setdefault(row.energy_unknown, []).append(str(row.device))
    for reason, devices in reasons.items():
        yield f"energy unknown: {reason} ({', '.join(dict.fromkeys(devices))})"
