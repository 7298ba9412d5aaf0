"""What each route that reads returns, as a function of the store and the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from controller.api.answers import (
    AgentPage,
    AttemptPage,
    DeviceNow,
    DevicePage,
    ResultPage,
    RunPage,
    SweepDetail,
    SweepPage,
)
from controller.api.paging import Key, cursor_of, page_of, place_of
from controller.api.queries import (
    AgentQuery,
    DeviceQuery,
    NoQuery,
    PageQuery,
    ResultQuery,
    RunQuery,
    SweepQuery,
)
from controller.contracts.errors import NotFound
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter, PageRequest, Place
from controller.contracts.records import StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.contracts.sweep import Cell, Side
from controller.platform.terminal import LONGEST
from controller.runtime.fleet import agents_now, devices_now
from controller.runtime.home import Home
from controller.store.protocol import StoreReader

Ids: TypeAlias = Mapping[str, str]
"""The ids that a path has, by their names in the route."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The store of a home, which also tells whether its farm is up."""

    store: StoreReader
    home: Home


def sweeps(farm: Reading, asked: SweepQuery, _: Ids) -> SweepPage:
    """Return sweeps by the time of their submission."""
    found = (
        record
        for record in farm.store.sweeps()
        if asked.name in (None, record.sweep.name) and asked.user in (None, record.user)
    )
    descending = asked.sort.startswith("-")
    items, following = page_of(found, _sweep_key, (float, str), asked, descending=descending)
    return SweepPage(items=items, next=following)


def sweep(farm: Reading, _: NoQuery, ids: Ids) -> SweepDetail:
    """Return one sweep with the states of its runs; raises NotFound."""
    record = record_of(farm.store, ids["sweep_id"])
    said = farm.store.annotations(record.sweep_id).get(record.sweep_id)
    return SweepDetail(
        record=record,
        tally=farm.store.tally(record.sweep_id),
        tags=said.tags if said else (),
        notes=said.notes if said else (),
    )


def record_of(store: StoreReader, sweep_id: str) -> SweepRecord:
    """Return the sweep with exactly this id; raises NotFound."""
    found = (record for record in store.sweeps() if record.sweep_id == sweep_id)
    record = next(found, None)
    if record is None:
        raise _unknown("sweep", sweep_id, "GET /api/v1/sweeps lists all.")
    return record


def runs(farm: Reading, asked: RunQuery, _: Ids) -> RunPage:
    """Return runs of a sweep in the order of the queue."""
    wanted = CellFilter(workload=asked.workload, scenario=asked.scenario, stack=asked.stack)
    found = (
        run
        for run in farm.store.runs(asked.sweep)
        if asked.state in (None, run.state) and _keeps(wanted, run.cell)
    )
    items, following = page_of(found, _run_key, (int, str), asked)
    return RunPage(items=items, next=following)


def run(farm: Reading, _: NoQuery, ids: Ids) -> Run:
    """Return one run with its attempts; raises NotFound."""
    found = farm.store.run(ids["run_id"])
    if found is None:
        raise _unknown("run", ids["run_id"], "GET /api/v1/runs lists those of a sweep.")
    return found


def attempts(farm: Reading, asked: PageQuery, ids: Ids) -> AttemptPage:
    """Return the attempts of one run, oldest first; raises NotFound."""
    found = run(farm, NoQuery(), ids).attempts
    items, following = page_of(found, lambda one: (one.number,), (int,), asked)
    return AttemptPage(items=items, next=following)


def results(farm: Reading, asked: ResultQuery, _: Ids) -> ResultPage:
    """Return results that the filters keep; raises StoreDamaged."""
    wanted = OutcomeFilter(
        cell=CellFilter(workload=asked.workload, scenario=asked.scenario, stack=asked.stack),
        sweep_id=asked.sweep,
        device=asked.device,
        validity=asked.validity,
        virtual=asked.virtual,
    )
    after = place_of(asked, (int, float))
    page = farm.store.result_page(
        wanted,
        PageRequest(
            size=asked.limit,
            after=None if after is None else _place(after),
            by_start=asked.sort.endswith("started"),
            descending=asked.sort.startswith("-"),
        ),
    )
    shown = page.results if asked.samples else [without_samples(one) for one in page.results]
    following = cursor_of(asked, (page.last.number, page.last.started_at)) if page.last else None
    return ResultPage(items=tuple(shown), next=following, left_out=page.left_out)


def without_samples(result: StoredResult) -> StoredResult:
    """Return a result without what is behind its figures, which may be megabytes."""
    metrics = {
        name: measured.model_copy(update={"samples": ()})
        for name, measured in result.metrics.items()
    }
    return result.model_copy(update={"metrics": metrics, "pairs": ()})


def devices(farm: Reading, asked: DeviceQuery, _: Ids) -> DevicePage:
    """Return devices with their states now."""
    found = (
        DeviceNow.of(each)
        for each in devices_now(farm.home, farm.store, farm.store.runs(open_only=True))
        if asked.kind in (None, each.device.kind)
        and asked.virtual in (None, each.device.virtual)
        and asked.state in (None, each.state)
    )
    items, following = page_of(found, lambda each: (each.device.id,), (str,), asked)
    return DevicePage(items=items, next=following)


def agents(farm: Reading, asked: AgentQuery, _: Ids) -> AgentPage:
    """Return all agents that ever registered; none is online while the farm is down."""
    found = (a for a in agents_now(farm.home, farm.store) if asked.online in (None, a.online))
    items, following = page_of(found, lambda each: (each.agent.id,), (str,), asked)
    return AgentPage(items=items, next=following)


def _keeps(wanted: CellFilter, cell: Cell) -> bool:
    side = Side(stack=cell.stack, knobs=cell.knobs)
    return wanted.keeps(cell.workload, cell.scenario, side, cell.versus)


def _sweep_key(record: SweepRecord) -> Key:
    return record.submitted_at, record.sweep_id


def _run_key(one: Run) -> Key:
    return one.position, one.run_id


def _place(key: Key) -> Place:
    number, started_at = key
    assert isinstance(number, int)
    assert isinstance(started_at, float)
    return Place(number, started_at)


def _unknown(noun: str, id_: str, remedy: str) -> NotFound:
    return NotFound(f"show {noun} {id_[:LONGEST]!r}", "there is none with this id", remedy)
