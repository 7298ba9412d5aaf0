"""Routes read what they show: their answers are those of the whole store, at less cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from controller.api.answers import RunPage
from controller.api.exports import failure_lines, result_export
from controller.api.outcome_reads import comparison, failures
from controller.api.problems import InvalidRequest
from controller.api.queries import (
    ComparisonQuery,
    FailureQuery,
    FailuresQuery,
    ResultFormat,
    ResultsQuery,
    RunQuery,
)
from controller.api.reads import Reading, runs, without_samples
from controller.api.route_kinds import Export
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Side
from controller.reports.comparison import Comparison
from controller.reports.result_selection import Wanted
from controller.reports.stored_comparison import compare_stored
from controller.runtime.home import Home
from controller.scheduling.binding import runs_of
from controller.scheduling.lifecycle import Cancelled
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from tests.support.sample_store import CELL, fill
from tests.support.store_examples import change, grant, report, result, sweep_record

COMPILED = CELL.model_copy(update={"stack": "compile"})
MIXED = sweep_record("mixed", repeats=9)
NOWHERE = Home(Path("/nonexistent"))


class CountingReader(SqliteReader):
    """A reader that counts the records that it makes of rows."""

    made = 0

    def _made(self, rows: Iterable[Any], *how: Any) -> list[Any]:  # noqa: ANN401
        found = super()._made(rows, *how)
        self.made += len(found)
        return found


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with results of two cells, and a sweep whose runs with and without rows alternate."""
    path = tmp_path_factory.mktemp("mixed") / "store.sqlite"
    with closing(SqliteStore.open(path)) as store:
        fill(store)
        cells = [CELL, COMPILED]
        new = store.add_sweep(MIXED, runs_of(MIXED.sweep, MIXED.sweep_id, cells, now=1000.5))
        for run in new[::3]:
            store.save_runs([report(grant(run).run, result(0.5 + run.position / 100))])
        store.save_runs([change(run, Cancelled(), 2000.0) for run in new[1::6]])
    return path


@pytest.fixture
def counting(mixed: Path) -> Iterator[CountingReader]:
    with closing(CountingReader(mixed)) as reader:
        yield reader


def every_run(reader: SqliteReader, asked: RunQuery) -> Iterator[RunPage]:
    while True:
        page = runs(Reading(reader, NOWHERE), asked, {})
        yield page
        if page.next is None:
            return
        asked = asked.model_copy(update={"cursor": page.next})


def asked_of(store: SqliteReader, asked: RunQuery) -> list[Run]:
    """Return the runs that a query means, of all that are read."""
    return [
        run
        for run in store.runs(asked.sweep, open_only=asked.open)
        if asked.state in (None, run.state)
        and asked.stack in (None, run.cell.stack)
        and asked.workload in (None, run.cell.workload)
    ]


@pytest.mark.parametrize("sweep", [None, MIXED.sweep_id, "none"])
@pytest.mark.parametrize("more", [{}, {"open": True}, {"stack": "compile"}, {"workload": "none"}])
def test_the_pages_of_runs_are_the_queue(
    counting: CountingReader, sweep: str | None, more: dict[str, Any]
) -> None:
    for limit, state in product((1, 7, 200), (None, *RunState)):
        asked = RunQuery(sweep=sweep, state=state, limit=limit, **more)
        pages = [*every_run(counting, asked)]
        assert [run for page in pages for run in page.items] == asked_of(counting, asked)
        assert all(len(page.items) == limit for page in pages[:-1])
    assert counting.damage() == []


def test_a_page_of_runs_reads_no_more_than_it_shows(counting: CountingReader) -> None:
    pages, shown = every_run(counting, RunQuery(limit=2)), 0
    while page := next(pages, None):
        # A third run tells that a page follows; a record has the never leased runs of a sweep.
        assert counting.made <= 3 + 3
        counting.made, shown = 0, shown + len(page.items)
    assert shown == len(counting.runs())


def test_damaged_runs_are_left_out_of_pages_and_hide_no_other(mixed: Path, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(mixed.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET position = 5 WHERE rowid % 4 = 1")
    with closing(SqliteReader(path, lambda _: None)) as reader:
        expected = asked_of(reader, RunQuery())
        assert 0 < len(expected) < 66
        pages = every_run(reader, RunQuery(limit=3))
        assert [run for page in pages for run in page.items] == expected


SIDES = ["eager", "compile", "eager:batch=2", "compile:batch=4"]


@pytest.mark.parametrize("a", SIDES)
@pytest.mark.parametrize("b", SIDES)
def test_a_comparison_is_that_of_all_results(counting: CountingReader, a: str, b: str) -> None:
    for more in ({}, {"sweep": MIXED.sweep_id}, {"device": "host-1"}, {"workload": "none"}):
        given = {"workload": "retinanet", **more}
        asked = ComparisonQuery(a=a, b=b, force=True, **given)
        sides = Side.model_validate(a), Side.model_validate(b)
        wanted = Wanted(*sides, asked.workload, asked.scenario, {}, asked.device)
        every = counting.results(asked.sweep)
        by_all = partial(compare_stored, every, wanted, load_catalog(), "", force=True)
        found = said(partial(comparison, Reading(counting, NOWHERE), asked, {}))
        expected = said(by_all)
        assert found == (expected[0] if isinstance(expected[0], Comparison) else expected)


def said(call: Callable[[], Any]) -> Any:  # noqa: ANN401
    try:
        return call()
    except UserError as error:
        return type(error), error.tried, error.seen


def test_a_comparison_of_one_stack_leaves_the_others_unread(counting: CountingReader) -> None:
    asked = ComparisonQuery(a="compile:batch=2", b="compile:batch=4", workload="retinanet")
    of_stack = [one for one in counting.results() if one.stack == "compile"]
    assert 0 < len(of_stack) < len(counting.results())
    counting.made = 0
    with pytest.raises(UserError):
        comparison(Reading(counting, NOWHERE), asked, {})
    assert counting.made == len(of_stack)


def test_a_comparison_of_very_many_results_is_refused(counting: CountingReader) -> None:
    asked = ComparisonQuery(a="eager", b="compile", workload="retinanet", force=True)
    most = sum(one.stack == "eager" for one in counting.results())
    here = Reading(counting, NOWHERE)
    comparison(here, asked, {}, most)
    with pytest.raises(InvalidRequest, match=f"more than {most - 1} results of stack eager"):
        comparison(here, asked, {}, most - 1)


@pytest.mark.parametrize("newest", [None, 1, 7, 10_000])
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_of_results_holds_a_few_at_a_time(
    counting: CountingReader, newest: int | None, form: ResultFormat
) -> None:
    every = [*map(without_samples, counting.selected_results(OutcomeFilter(), newest)[0])]
    asked = ResultsQuery(newest=newest, format=form)
    pieces, total = exported(counting, partial(result_export, asked=asked, at_once=3))
    assert total == len(counting.results())
    if form == "parquet":
        table = pq.read_table(BytesIO(b"".join(pieces)))
        assert {*table["run_id"].to_pylist()} == {one.run_id for one in every}
        return
    found = [StoredResult.model_validate_json(line) for line in b"".join(pieces).splitlines()]
    assert sorted(found, key=lambda one: not one.counted) == every


def exported(
    counting: CountingReader, export_of: Callable[[Reading], Export]
) -> tuple[list[bytes], int]:
    """Return an export, of which no more than three items are read at a time, and its total."""
    counting.made = 0
    export = export_of(Reading(counting, NOWHERE))
    assert counting.made <= 3, "none is read to tell the total"
    pieces, before = list[bytes](), counting.made
    for piece in export.pieces:
        assert counting.made - before <= 3
        before = counting.made
        pieces.append(piece)
    return pieces, export.total


@pytest.mark.parametrize("newest", [None, 1, 3, 10_000])
def test_an_export_of_failures_holds_a_few_at_a_time(
    counting: CountingReader, newest: int | None
) -> None:
    every = counting.selected_failures(OutcomeFilter(), newest)[0]
    asked = FailuresQuery(newest=newest)
    pieces, total = exported(counting, partial(failure_lines, asked=asked, at_once=3))
    assert total == len(counting.failures()) > 3
    lines = b"".join(pieces).splitlines()
    assert [StoredFailure.model_validate_json(line) for line in lines] == every


def test_a_page_of_failures_reads_no_more_than_it_shows(counting: CountingReader) -> None:
    every = counting.failures()
    counting.made = 0
    page = failures(Reading(counting, NOWHERE), FailureQuery(limit=2), {})
    assert [*page.items] == every[:2] != every
    assert counting.made == 2


def test_a_comparison_reads_the_results_that_it_is_about(counting: CountingReader) -> None:
    here = Reading(counting, NOWHERE)
    with pytest.raises(UserError):
        comparison(here, ComparisonQuery(a="eager", b="compile", workload="none"), {})
    assert counting.made == 0
    asked = ComparisonQuery(
        a="eager", b="compile", workload="retinanet", sweep=MIXED.sweep_id, force=True
    )
    comparison(here, asked, {})
    assert counting.made == len(counting.results(MIXED.sweep_id))
