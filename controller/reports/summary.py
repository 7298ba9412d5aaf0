"""The summary of a sweep, the same figures for terminal, JSON, CSV and HTML report. Pure.

Its figures are those of the report's rankings and paired comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.base import Contract, Scalar, canonical_json
from controller.contracts.catalog import Catalog
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.units import Unit
from controller.reports.csv_text import csv_text
from controller.reports.groups import Group, NoRatio, grouped
from controller.reports.views.common import names_of
from controller.reports.views.compared import compared_of, uncompared_of
from controller.reports.views.model import Compared, Ranking, Row
from controller.reports.views.rankings import rankings_of
from controller.reports.views.reference import Baseline


class Figure(Contract):
    """One metric of a cell on a device: the median of its VALID results; of the DISTURBED ones if
    it has no other."""

    value: float
    unit: Unit
    low: float | None = None
    """The 95 % interval of the ranking metric; None without repeats, and for other metrics."""
    high: float | None = None


class CellSummary(Contract):
    """One cell on one device; the format of `cells` in `sweep status SWEEP --json`."""

    rank: int | None
    """From 1 within its task, real and virtual devices apart; None without a VALID result."""
    device: str
    device_name: str
    """The device's name for people."""
    virtual: bool
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    cell_key: str
    ranked_by: str
    """The scenario's metric."""
    metrics: dict[str, Figure]
    is_baseline: bool
    vs_baseline: float | None
    """How many times better than the baseline on the scenario's metric."""
    vs_baseline_low: float | None
    vs_baseline_high: float | None
    baseline_device: str | None
    """Where the baseline of `vs_baseline` was measured."""
    no_ratio: NoRatio | None
    """Why there is no `vs_baseline`, if the sweep has a baseline."""
    valid: int
    disturbed: int
    invalid: int
    failed: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a sweep found."""

    rankings: tuple[Ranking, ...]
    compared: tuple[Compared, ...]
    unranked: tuple[Group, ...]
    """Of scenarios that this release doesn't have."""
    uncompared: tuple[str, ...] = ()
    """A line for each paired comparison whose metric is not known."""


def summarise(
    results: Sequence[StoredResult],
    failures: Sequence[StoredFailure],
    baseline: Mapping[str, Scalar],
    catalog: Catalog,
) -> Summary:
    """Return what a sweep found; baseline: the sweep's, may be empty."""
    paired = [r for r in results if r.versus and r.counted and r.scenario in catalog.scenarios]
    compared = compared_of(paired, names_of(paired), catalog)
    groups = grouped(results, failures)
    known = [group for group in groups if group.origin.scenario in catalog.scenarios]
    unknown = [group for group in groups if group.origin.scenario not in catalog.scenarios]
    rankings = rankings_of(known, Baseline(baseline, catalog), catalog)
    return Summary(rankings, compared, tuple(unknown), uncompared_of(paired))


def summaries_of(rankings: Sequence[Ranking]) -> list[CellSummary]:
    """Return every row of the rankings, best first within each."""
    return [_cell(ranking, row) for ranking in rankings for row in ranking.rows]


def troubles_of(found: Summary) -> Iterator[str]:
    """Yield what went wrong, and what can't be shown."""
    for ranking in found.rankings:
        for row in ranking.rows:
            task = (ranking.workload, ranking.scenario, ranking.problem)
            of = ", ".join(filter(None, (*task, row.label)))
            yield from (f"{of}: {why}" for why in row.reasons)
    for group in found.unranked:
        origin = group.origin
        yield (
            f"{origin.shown_device} {origin.workload}: this release has no scenario "
            f"{origin.scenario}; use the release that measured it"
        )
    yield from found.uncompared


def as_csv(rankings: Sequence[Ranking]) -> str:
    """Return one line for each cell, device and metric; a cell without figures has one line."""
    shared = [name for name in CellSummary.model_fields if name not in ("metrics", "reasons")]
    rows = (row for cell in summaries_of(rankings) for row in _rows(cell, shared))
    return csv_text((*shared, "metric", *Figure.model_fields), rows)


def _rows(cell: CellSummary, shared: Sequence[str]) -> Iterator[list[object]]:
    """Yield a row for each metric of a cell; shared: the columns that are alike in all of them."""
    record = cell.model_dump(mode="json") | {"knobs": canonical_json(cell.knobs)}
    figures = [(n, *f.model_dump(mode="json").values()) for n, f in cell.metrics.items()]
    for figure in figures or [("",) * (1 + len(Figure.model_fields))]:
        yield [*(record[name] for name in shared), *figure]


def _cell(ranking: Ranking, row: Row) -> CellSummary:
    ratio = row.vs_reference
    low, high = ratio.interval or (None, None) if ratio else (None, None)
    return CellSummary(
        rank=row.rank,
        device=row.device.id,
        device_name=row.device.shown,
        virtual=row.device.virtual,
        workload=ranking.workload,
        stack=row.stack,
        scenario=ranking.scenario,
        knobs=dict(row.all_knobs),
        cell_key=row.cell_key,
        ranked_by=ranking.columns.metric.name,
        metrics=dict(_figures(ranking, row)),
        is_baseline=row.is_reference,
        vs_baseline=ratio.value if ratio else None,
        vs_baseline_low=low,
        vs_baseline_high=high,
        baseline_device=(row.other_device or row.device).id if ratio else None,
        no_ratio=row.no_ratio,
        valid=row.valid,
        disturbed=row.disturbed,
        invalid=row.invalid,
        failed=row.failed,
        reasons=row.reasons,
    )


def _figures(ranking: Ranking, row: Row) -> Iterator[tuple[str, Figure]]:
    columns = ranking.columns
    if row.median is not None:
        low, high = row.interval or (None, None)
        unit = columns.metric.unit
        yield columns.metric.name, Figure(value=row.median, unit=unit, low=low, high=high)
    others = [(columns.quality.metric, row.quality)] if columns.quality else []
    for metric, value in (*others, *zip(columns.details, row.details, strict=True)):
        if value is not None:
            yield metric.name, Figure(value=value, unit=metric.unit)
