"""A published board: rankings over chosen sweeps, each row with its provenance. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.audit import audit_of
from controller.contracts.base import digest
from controller.contracts.catalog import Catalog
from controller.contracts.imported import ImportedResult
from controller.contracts.published import PublishedRun
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult, SweepRecord
from controller.contracts.suite_session import MEETS, NOT_VERIFIED
from controller.reports.groups import Group, grouped
from controller.reports.views.board_costs import Prices, costs_of, price_of
from controller.reports.views.board_model import (
    Board,
    BoardDevice,
    BoardRanking,
    BoardRow,
    BoardRun,
)
from controller.reports.views.common import Made, imported_facts, measured_facts, names_of
from controller.reports.views.conditions import conditions_of
from controller.reports.views.model import DeviceName, Ranking, Row
from controller.reports.views.rankings import rankings_of
from controller.reports.views.reference import Baseline
from controller.reports.views.scoreboard import scoreboards_of

KEY = 12
"""Hex digits of a page's name: a board has far fewer than a million pages."""
MLPERF = "MLPerf"
BUT_IMPORTED = (
    "It is said of all rows but those marked as imported: they repeat what their submitters"
    " published in the round named beside them."
)

Place = tuple[str, str]
"""Cell and device of a row."""


@dataclass(frozen=True, slots=True)
class BoardData:
    """All stored data of the chosen sweeps."""

    records: Sequence[SweepRecord]
    results: Sequence[StoredResult]
    failures: Sequence[StoredFailure]
    profiled: Collection[str]
    """Ids of runs that were also profiled."""
    prices: Prices
    currency: str = ""
    imported: Sequence[ImportedResult] = ()
    """Published results, which have rows in the rankings of the same tasks."""


@dataclass(frozen=True, slots=True)
class BoardGroups:
    """What a board ranks: counted outcomes of one cell on one device, of all its sweeps."""

    own: Sequence[Group]
    imported: Sequence[Group]
    """Those of published results that have a row."""

    @property
    def all(self) -> Sequence[Group]:
        """All that have a row."""
        return [*self.own, *self.imported]


def board_groups(data: BoardData, catalog: Catalog) -> BoardGroups:
    """Return the groups of a board's rows."""
    own, imported = grouped(*_shown(data, catalog)), grouped(data.imported, [])
    ranked = rankings_of(own, Baseline({}, catalog), catalog, imported) if imported else ()
    placed = {(row.cell_key, row.device.id) for ranking in ranked for row in ranking.rows}
    return BoardGroups(own, [group for group in imported if _place(group.origin) in placed])


def board_view(
    data: BoardData,
    groups: BoardGroups,
    published: Mapping[str, PublishedRun],
    catalog: Catalog,
    made: Made,
) -> Board:
    """Return the view of a board.

    groups: those of `board_groups`. published: what the board holds of each of their results' runs.
    """
    rankings = rankings_of(groups.own, Baseline({}, catalog), catalog, groups.imported)
    places = {_place(group.origin): group for group in groups.all}
    ranked = tuple(
        _ranking(ranking, places, published, data.prices, catalog) for ranking in rankings
    )
    shown = [result for group in groups.own for result in group.results]
    facts = {
        "Sweeps": ", ".join(record.sweep_id for record in data.records),
        **measured_facts(shown, made),
        **imported_facts(rankings),
    }
    return Board(
        title="Board of measured results",
        facts=tuple((name, text) for name, text in facts.items() if text),
        notes=(*_left_out(data, catalog), *data.prices.faults, *_without_cost(data, groups)),
        currency=data.currency,
        scoreboards=scoreboards_of(rankings_of(groups.own, Baseline({}, catalog), catalog)),
        rankings=ranked,
        devices=tuple(_devices(groups.all, ranked, catalog)),
        any_virtual=any(group.origin.virtual for group in groups.all),
        not_verified=_not_verified(ranked, shown),
    )


def _shown(data: BoardData, catalog: Catalog) -> tuple[list[StoredResult], list[StoredFailure]]:
    """Return outcomes without profiled runs, audits, and what this release can't rank."""

    def is_shown(origin: OutcomeOrigin) -> bool:
        plain = origin.run_id not in data.profiled and not audit_of(origin.knobs)
        return plain and origin.scenario in catalog.scenarios

    results = [r for r in data.results if is_shown(r) and r.profile is None]
    return results, [f for f in data.failures if is_shown(f)]


def _left_out(data: BoardData, catalog: Catalog) -> Iterator[str]:
    """Yield what the rankings leave out, and why."""
    unknown = Counter(r.scenario for r in data.results if r.scenario not in catalog.scenarios)
    for scenario, count in unknown.items():
        yield f"{_results(count)} left out: this release has no scenario {scenario}."
    known = [r for r in data.results if r.scenario in catalog.scenarios]
    profiled = sum(r.profile is not None or r.run_id in data.profiled for r in known)
    if profiled:
        yield f"{_results(profiled)} left out: profiled runs are ranked with nothing."
    if audits := sum(bool(audit_of(r.knobs)) for r in known):
        yield f"{_results(audits)} left out: audits show something of other results."
    if paired := sum(r.versus is not None for r in known):
        yield f"{_results(paired)} left out: paired comparisons rank no cell."
    if late := sum(not r.counted for r in known):
        yield f"{_results(late)} left out: late, so not counted."


def _without_cost(data: BoardData, groups: BoardGroups) -> Iterator[str]:
    """Yield why rows of several hosts have no cost."""
    said = (price_of(group, data.prices)[1] for group in groups.own)
    yield from dict.fromkeys(why for why in said if why)


def _results(count: int) -> str:
    return "1 result is" if count == 1 else f"{count} results are"


def _place(origin: OutcomeOrigin) -> Place:
    return origin.cell_key, origin.device


def _ranking(
    ranking: Ranking,
    places: Mapping[Place, Group],
    published: Mapping[str, PublishedRun],
    prices: Prices,
    catalog: Catalog,
) -> BoardRanking:
    metric = ranking.columns.metric.name
    rows = []
    for row in ranking.rows:
        group = places[row.cell_key, row.device.id]
        price, _ = price_of(group, prices)
        rows.append(
            BoardRow(
                key=_row_key(row),
                device_key=_device_key(row.device.id),
                row=row,
                runs=tuple(_runs(group, metric, published)),
                conditions=conditions_of([group], catalog.own_facts),
                costs=costs_of(group, metric, price, catalog),
            )
        )
    titles = ranking.workload_title, ranking.scenario_title
    return BoardRanking(ranking, tuple(rows), any(MLPERF in title for title in titles))


def _runs(group: Group, metric: str, published: Mapping[str, PublishedRun]) -> Iterator[BoardRun]:
    used = {result.run_id for result in group.shown}
    for result in group.results:
        found = result.metrics.get(metric)
        yield BoardRun(
            result=result,
            published=published[result.run_id],
            value=found.value if found else None,
            used=result.run_id in used and found is not None,
        )


def _devices(
    groups: Sequence[Group], rankings: Sequence[BoardRanking], catalog: Catalog
) -> Iterator[BoardDevice]:
    """Yield devices by name: real ones, virtual ones, and those of published results."""
    outcomes: list[StoredResult | StoredFailure] = []
    for group in groups:
        outcomes += [*group.results, *group.failures]
    names = names_of(outcomes)
    for name in sorted(names.values(), key=_order):
        yield BoardDevice(
            key=_device_key(name.id),
            name=name,
            places=tuple(
                (ranking, row)
                for ranking in rankings
                for row in ranking.rows
                if row.row.device.id == name.id
            ),
            conditions=conditions_of(
                [group for group in groups if group.origin.device == name.id], catalog.own_facts
            ),
        )


def _order(name: DeviceName) -> tuple[bool, bool, str, str]:
    return bool(name.imported_from), name.virtual, name.shown, name.id


def _not_verified(rankings: Sequence[BoardRanking], results: Iterable[StoredResult]) -> str:
    """Return what stands beside results under MLPerf's name, and of which rows; else nothing."""
    if any(r.row.device.imported_from for one in rankings for r in one.rows):
        return f"{NOT_VERIFIED} {BUT_IMPORTED}"
    told = any(result.environment.get(MEETS) is True for result in results)
    return NOT_VERIFIED if told or any(one.names_mlperf for one in rankings) else ""


def _row_key(row: Row) -> str:
    return digest([row.cell_key, row.device.id], KEY)


def _device_key(device: str) -> str:
    return digest([device], KEY)
