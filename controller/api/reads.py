"""What each route that reads returns, as a function of the store and the parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
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
from controller.api.paging import (
    MOST_PAGE_BYTES,
    Key,
    cursor_of,
    how_many_fit,
    json_bytes,
    page_of,
    place_of,
)
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
from controller.contracts.outcome_filter import (
    CellFilter,
    PageRequest,
    Place,
)
from controller.contracts.outcome_filter import ResultPage as StoredPage
from controller.contracts.records import StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.platform.terminal import LONGEST
from controller.runtime.fleet import agents_now, devices_now
from controller.runtime.home import Home
from controller.store.places import RunFilter, RunPlace
from controller.store.protocol import StoreReader

Ids: TypeAlias = Mapping[str, str]
"""The ids that a path has, by their names in the route."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The store of a home, which also tells whether its farm is up."""

    store: StoreReader
    home: Home


def sweeps(farm: Reading, asked: SweepQuery, _: Ids) -> SweepPage:
    """Return sweeps by the time of their submission; the last page tells how many are damaged."""
    stored = farm.store.stored_sweeps()  # first: more may be added meanwhile
    readable = farm.store.sweeps()
    found = (
        record
        for record in readable
        if asked.name in (None, record.sweep.name) and asked.user in (None, record.user)
    )
    descending = asked.sort.startswith("-")
    items, following = page_of(found, _sweep_key, (float, str), asked, descending=descending)
    left_out = 0 if following else max(0, stored - len(readable))
    return SweepPage(items=items, next=following, left_out=left_out)


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
        raise unknown("sweep", sweep_id, "GET /api/v1/sweeps lists all.")
    return record


def runs(farm: Reading, asked: RunQuery, _: Ids) -> RunPage:
    """Return runs in the order of the queue."""
    cell = CellFilter(workload=asked.workload, scenario=asked.scenario, stack=asked.stack)
    wanted = RunFilter(cell, asked.sweep, asked.state, asked.open)
    kinds = (int, int, str)
    after = place_of(asked, kinds)
    behind = None if after is None else RunPlace._make(after)
    found = farm.store.queue_part(wanted, behind, asked.limit + 1)
    items, following = page_of(
        *(found, itemgetter(0), kinds, asked),
        size=lambda placed: json_bytes(placed[1]),
    )
    return RunPage(items=tuple(run for _, run in items), next=following)


def run(farm: Reading, _: NoQuery, ids: Ids) -> Run:
    """Return one run with its attempts; raises NotFound."""
    found = farm.store.run(ids["run_id"])
    if found is None:
        raise unknown("run", ids["run_id"], "GET /api/v1/runs lists those of a sweep.")
    return found


def attempts(farm: Reading, asked: PageQuery, ids: Ids) -> AttemptPage:
    """Return the attempts of one run, oldest first; raises NotFound."""
    found = run(farm, NoQuery(), ids).attempts
    items, following = page_of(found, lambda one: (one.number,), (int,), asked, ids=ids)
    return AttemptPage(items=items, next=following)


def results(farm: Reading, asked: ResultQuery, _: Ids) -> ResultPage:
    """Return results that the filters keep; raises StoreDamaged."""
    request = PageRequest(
        size=asked.limit,
        after=outcome_place(asked),
        by_start=asked.sort.endswith("started"),
        descending=asked.sort.startswith("-"),
    )
    page, shown = _shown(farm.store, asked, request)
    fit = how_many_fit(map(json_bytes, shown), MOST_PAGE_BYTES)
    if fit < len(shown):  # read again, so that the cursor is that of the last one that fits
        page, shown = _shown(farm.store, asked, replace(request, size=fit))
    following = cursor_of(asked, (page.last.number, page.last.started_at)) if page.last else None
    return ResultPage(items=tuple(shown), next=following, left_out=page.left_out)


def _shown(
    store: StoreReader, asked: ResultQuery, request: PageRequest
) -> tuple[StoredPage, Sequence[StoredResult]]:
    page = store.result_page(asked.kept(), request)
    bare = [without_samples(one) for one in page.results] if not asked.samples else page.results
    return page, bare


def outcome_place(asked: PageQuery) -> Place | None:
    """Return the place that the cursor of a list of outcomes holds; raises InvalidRequest."""
    after = place_of(asked, (int, float))
    return None if after is None else _place(after)


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
    ever = farm.store.fleet()[0] if asked.stored else agents_now(farm.home, farm.store)
    found = (known for known in ever if asked.online in (None, known.online))
    items, following = page_of(found, lambda each: (each.agent.id,), (str,), asked)
    return AgentPage(items=items, next=following)


def _sweep_key(record: SweepRecord) -> Key:
    return record.submitted_at, record.sweep_id


def _place(key: Key) -> Place:
    number, started_at = key
    assert isinstance(number, int)
    assert isinstance(started_at, float)
    return Place(number, started_at)


def unknown(noun: str, id_: str, remedy: str) -> NotFound:
    """Return the error of an id that nothing has."""
    return NotFound(f"show {noun} {id_[:LONGEST]!r}", "there is none with this id", remedy)
