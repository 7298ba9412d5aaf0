"""Pages: no item is lost or doubled, whatever is added between two of them."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api.answers import FailurePage, HistoryPage, SpentPage
from controller.api.farm_reads import history, spent, took
from controller.api.outcome_reads import failures
from controller.api.paging import Key, cursor_of, page_of, place_of
from controller.api.problems import InvalidRequest
from controller.api.queries import (
    FailureQuery,
    PageQuery,
    RunQuery,
    SpentQuery,
    SweepQuery,
    TookQuery,
)
from controller.api.reads import Reading
from controller.contracts.annotations import SweepAnnotations
from controller.contracts.device import DeviceHistoryEntry, DeviceState
from controller.contracts.outcome_filter import OutcomeFilter, PageRequest, Place
from controller.contracts.records import StoredResult, SweepRecord, Took
from controller.contracts.result import Validity
from controller.runtime.home import Home
from controller.store.newest import TRIES_OF_CELL
from controller.store.sqlite import SqliteStore
from tests.support.sample_store import CELL, fill, identity
from tests.support.store_examples import AGENT, CPU, grant, report, result, runs_for, sweep_record

KEYS = st.tuples(st.floats(-1e9, 1e9), st.text(max_size=3))


def walk(items: set[Key], added: list[Key], limit: int, *, descending: bool) -> list[Key]:
    """Return what a reader of all pages sees, while one item is added after each page."""
    seen: list[Key] = []
    cursor, waiting = None, iter(added)
    while True:
        asked = SweepQuery(
            limit=limit, cursor=cursor, sort="-submitted" if descending else "submitted"
        )
        page, cursor = page_of(
            *(items, lambda key: key, (float, str), asked), descending=descending, size=len
        )
        seen += page
        if cursor is None:
            return seen
        if (new := next(waiting, None)) is not None:
            items = items | {new}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sets(KEYS, max_size=30), st.lists(KEYS, max_size=8), st.integers(1, 7), st.booleans())
def test_what_was_there_is_seen_once_while_items_are_added(
    items: set[Key], added: list[Key], limit: int, descending: bool
) -> None:
    seen = walk(set(items), added, limit, descending=descending)
    assert seen == sorted(seen, reverse=descending)
    assert len(set(seen)) == len(seen)
    assert items <= set(seen)


def test_pages_by_number_of_items_would_lose_and_double() -> None:
    """What the cursors are for: the same walk, by offsets, does both."""
    items = [2, 4, 6, 8]
    assert (items[:2], [1, *items][2:4]) == ([2, 4], [4, 6]), "4 is doubled"


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "A", "====", "é", "bnVsbA", "W10", "e30", "W1tdXQ", "WyJ4Il0", "\x00", "W" * 1024),
        "WyI" + "W1tb" * 200,
    ],
)
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="parameter 'cursor'"):
        place_of(PageQuery(cursor=cursor), (int,))


@pytest.mark.parametrize(
    "key", [(True,), (1.5,), ("1",), (2**63,), (-(2**63) - 1,), (), (1, 2), (None,), ([1],)]
)
def test_a_key_of_another_form_is_refused(key: tuple[object, ...]) -> None:
    asked = PageQuery()
    forged = cursor_of(asked, key)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="damaged"):
        place_of(asked.model_copy(update={"cursor": forged}), (int,))


@pytest.mark.parametrize("text", ["\ud800", "run-\udfff", "\udc80x"])
def test_a_text_that_is_no_utf_8_is_refused(text: str) -> None:
    asked = PageQuery()
    of = json.loads(base64.urlsafe_b64decode(cursor_of(asked, ("",)) + "=="))[0]
    forged = base64.urlsafe_b64encode(json.dumps([of, text]).encode()).decode().rstrip("=")
    with pytest.raises(InvalidRequest, match="damaged"):
        place_of(asked.model_copy(update={"cursor": forged}), (str,))
    assert place_of(asked.model_copy(update={"cursor": cursor_of(asked, ("é",))}), (str,)) == ("é",)


def test_a_number_that_is_none_is_refused() -> None:
    asked = PageQuery()
    forged = cursor_of(asked, (float("nan"),))
    with pytest.raises(InvalidRequest, match="damaged"):
        place_of(asked.model_copy(update={"cursor": forged}), (float,))


def test_a_cursor_leads_on_only_in_its_own_list() -> None:
    asked = RunQuery(sweep="a")
    cursor = cursor_of(asked, (3, "x"))
    assert place_of(asked.model_copy(update={"cursor": cursor, "limit": 7}), (int, str)) == (3, "x")
    for other in (RunQuery(sweep="b", cursor=cursor), SweepQuery(cursor=cursor)):
        with pytest.raises(InvalidRequest, match="other parameters"):
            place_of(other, (int, str))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore.open(tmp_path_factory.mktemp("paged") / "store.sqlite")) as store:
        fill(store)
        yield store


FILTERS = [
    OutcomeFilter(),
    OutcomeFilter(device="phone-1"),
    OutcomeFilter(validity=Validity.INVALID),
    OutcomeFilter(virtual=True),
    OutcomeFilter(virtual=False, tags=frozenset({"g2"})),
    OutcomeFilter(sweep_id=sweep_record(generation=3, repeats=12).sweep_id),
    OutcomeFilter(sweep_id="none"),
]


@pytest.mark.parametrize("wanted", FILTERS)
@pytest.mark.parametrize("size", [1, 3, 200])
@pytest.mark.parametrize("by_start", [False, True])
@pytest.mark.parametrize("descending", [False, True])
def test_the_pages_of_the_store_are_the_results_that_a_filter_keeps(
    store: SqliteStore, wanted: OutcomeFilter, size: int, by_start: bool, descending: bool
) -> None:
    seen: list[StoredResult] = []
    most = len(store.results())
    after = None
    while True:
        page = store.result_page(wanted, PageRequest(size, after, by_start, descending))
        seen += page.results
        assert len(page.results) <= size
        assert len(seen) <= most, "a page begins behind the one before"
        assert page.left_out == 0
        if page.last is None:
            break
        after = page.last
    expected = [one for one in store.results() if wanted.keeps(one)]
    assert Counter(map(identity, seen)) == Counter(map(identity, expected))
    if by_start:
        starts = [one.started_at for one in seen]
        assert starts == sorted(starts, reverse=descending)
    assert store.damage() == []


def test_results_that_are_stored_between_two_pages_hide_and_repeat_none(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        fill(store, sweeps=2)
        before = [identity(one) for one in store.results()]
        record = sweep_record("later", repeats=600)
        new = iter(store.add_sweep(record, runs_for(record)))
        for by_start in (False, True):
            for descending in (False, True):
                seen: list[object] = []
                after = None
                while True:
                    asked = PageRequest(3, after, by_start, descending)
                    page = store.result_page(OutcomeFilter(), asked)
                    seen += map(identity, page.results)
                    # Earlier than all, then later than all: on both sides of every cursor.
                    for now in (10.0, 9e6):
                        store.save_runs(
                            [report(grant(next(new), now=now).run, result(), now=now + 1)]
                        )
                    if page.last is None or len(seen) > 600:
                        break
                    after = page.last
                assert len(set(seen)) == len(seen)
                assert set(before) <= set(seen), (by_start, descending)


def test_a_place_that_no_result_has_is_as_good(store: SqliteStore) -> None:
    asked = PageRequest(200, Place(2**62, 0.0))
    assert store.result_page(OutcomeFilter(), asked).results == []
    every = store.result_page(OutcomeFilter(), PageRequest(200, Place(-1, 0.0)))
    assert len(every.results) == len(store.results())


def test_times_of_attempts_are_seen_once_while_more_are_added(tmp_path: Path) -> None:
    """Only the newest of each cell and device are told of, so each new one ends another's turn."""
    record = sweep_record(repeats=3 * TRIES_OF_CELL)
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        store.save_agent(AGENT, [CPU])
        new = iter(store.add_sweep(record, runs_for(record)))

        def measure(count: int, now: float) -> None:
            for number in range(count):
                leased = grant(next(new), now=now)
                store.save_runs([report(leased.run, result(), now=now + 1 + number)])

        measure(TRIES_OF_CELL, 2000.0)
        before, seen = store.took([CELL]), list[Took]()
        kind = {"workload": CELL.workload, "stack": CELL.stack, "scenario": CELL.scenario}
        asked = TookQuery(**kind, limit=7)
        while True:
            page = took(Reading(store, Home(tmp_path)), asked, {})
            seen += page.items
            if page.next is None:
                break
            asked = asked.model_copy(update={"cursor": page.next})
            measure(3, 2100.0 + 100 * len(seen))
        assert seen == before
        assert store.took([CELL]) != before


Listed: TypeAlias = FailurePage | HistoryPage | SpentPage


def pages_of(list_page: Callable[[str | None], Listed], meanwhile: Callable[[], None]) -> list[Any]:
    """Return the items of all pages, after each of which something happens."""
    seen, cursor = list[Any](), None
    while True:
        page = list_page(cursor)
        seen += page.items
        if (cursor := page.next) is None:
            return seen
        meanwhile()


def test_entries_of_a_history_are_seen_once_while_older_ones_appear(tmp_path: Path) -> None:
    device_id, number = CPU.device.id, count()
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:

        def entry(at: float) -> None:
            why, ready = str(next(number)), DeviceState.READY
            told = DeviceHistoryEntry(device_id=device_id, at=at, state=ready, who="ann", why=why)
            store.save_agent(AGENT, [CPU], [told])

        for at in (*range(100, 110), 105, 105):
            entry(float(at))
        before = store.history(device_id)
        here, ids = Reading(store, Home(tmp_path)), {"device_id": device_id}
        seen = pages_of(
            lambda cursor: history(here, PageQuery(limit=3, cursor=cursor), ids),
            lambda: entry(50.0),
        )
        assert seen == before
        assert len(store.history(device_id)) == len(before) + 3 == 15


def test_device_times_are_seen_once_while_older_ones_appear(tmp_path: Path) -> None:
    record = sweep_record(repeats=20)
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        store.save_agent(AGENT, [CPU])
        new = iter(store.add_sweep(record, runs_for(record)))

        def ended(now: float) -> None:
            leased = grant(next(new), now=now - 10)
            store.save_runs([report(leased.run, result(), now=now)])

        for at in (*range(2000, 2008), 2004, 2004):
            ended(float(at))
        before, here = store.spent(0.0), Reading(store, Home(tmp_path))
        seen = pages_of(
            lambda cursor: spent(here, SpentQuery(limit=3, cursor=cursor), {}),
            lambda: ended(1500.0),
        )
        assert seen == before
        assert len(store.spent(0.0)) == len(before) + 3


@pytest.mark.parametrize("sort", ["stored", "-stored"])
def test_failures_are_seen_once_while_older_ones_come_to_fit(
    tmp_path: Path, sort: Literal["stored", "-stored"]
) -> None:
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        fill(store, sweeps=6)
        records = store.sweeps()
        others = iter([*records[:3], records[4]])

        def tag(record: SweepRecord) -> None:
            store.save_annotations(SweepAnnotations(sweep_id=record.sweep_id, tags=("mine",)))

        tag(records[3])
        tag(records[5])
        wanted, here = OutcomeFilter(tags=frozenset({"mine"})), Reading(store, Home(tmp_path))
        before = [one.run_id for one in store.selected_failures(wanted)[0]]

        def failed(cursor: str | None) -> FailurePage:
            return failures(here, FailureQuery(tags="mine", sort=sort, limit=1, cursor=cursor), {})

        seen = [one.run_id for one in pages_of(failed, lambda: tag(next(others, records[5])))]
        assert len(before) == 4
        assert {*before} <= {*seen}
        assert len({*seen}) == len(seen)
