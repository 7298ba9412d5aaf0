"""Where a result is called by MLPerf's name, it says that nobody at MLCommons has verified it."""

from __future__ import annotations

import pytest
from rich.console import Console

from controller.contracts.catalog import load_catalog
from controller.contracts.records import StoredResult
from controller.contracts.suite_session import NOT_VERIFIED
from controller.reports.groups import grouped
from controller.reports.tables import outcome_table
from controller.reports.views.conditions import conditions_of
from tests.support.suite_sessions import environment, flawless


def result(*, meets: bool) -> StoredResult:
    found = flawless(tries=1, parts=1).runs[0].result
    assert found
    return found.model_copy(update={"environment": environment(meets_run_rules=meets)})


@pytest.mark.parametrize("meets", [True, False])
def test_results_show_says_so(meets: bool) -> None:
    console = Console(width=200)
    with console.capture() as said:
        console.print(outcome_table(result(meets=meets)))
    assert "environment.meets_run_rules (unverified)" in said.get()
    assert (NOT_VERIFIED in said.get()) is meets


@pytest.mark.parametrize("meets", [True, False])
def test_a_report_says_so(meets: bool) -> None:
    (conditions,) = conditions_of(grouped([result(meets=meets)], []), load_catalog().own_facts)
    assert ("meets_run_rules (unverified)", "yes" if meets else "no") in conditions.same
    assert (conditions.note == NOT_VERIFIED) is meets


def test_a_fact_that_differs_says_so_too() -> None:
    results = [result(meets=True), result(meets=False)]
    (conditions,) = conditions_of(grouped(results, []), load_catalog().own_facts)
    (table,) = conditions.differing
    assert table.facts == ("meets_run_rules (unverified)",)
    assert conditions.note == NOT_VERIFIED
