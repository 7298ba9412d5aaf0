"""What the routes about failures, profiles and comparisons return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import ValidationError

from controller.api.answers import FailurePage, ProfilePage, ResultProfile
from controller.api.paging import MOST_PAGE_BYTES, cursor_of, how_many_fit, json_bytes
from controller.api.problems import InvalidRequest, own_fault
from controller.api.queries import ComparisonQuery, FailureQuery, ProfileQuery
from controller.api.reads import Ids, Reading, outcome_place
from controller.contracts.catalog import load_catalog
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter, PageRequest
from controller.contracts.records import StoredResult
from controller.contracts.sweep import Side
from controller.contracts.wording import faults_of
from controller.reports.comparison import Comparison
from controller.reports.result_selection import Wanted
from controller.reports.stored_comparison import compare_stored

MOST_STEPS: Final = 5
"""How often results are looked through for the profiles of a page."""
MOST_COMPARED: Final = 3000
"""Results of a comparison, which are all in memory, with their samples."""


def failures(farm: Reading, asked: FailureQuery, _: Ids) -> FailurePage:
    """Return failed attempts that the filters keep; raises StoreDamaged."""
    wanted, descending = asked.wanted(), asked.sort.startswith("-")
    request = PageRequest(size=asked.limit, after=outcome_place(asked), descending=descending)
    page = farm.store.failure_page(wanted, request)
    fit = how_many_fit(map(json_bytes, page.failures), MOST_PAGE_BYTES)
    if fit < len(page.failures):  # read again, so that the cursor is that of the last one that fits
        page = farm.store.failure_page(wanted, replace(request, size=fit))
    following = cursor_of(asked, (page.last.number, page.last.started_at)) if page.last else None
    return FailurePage(items=tuple(page.failures), next=following, left_out=page.left_out)


def profiles(farm: Reading, asked: ProfileQuery, _: Ids) -> ProfilePage:
    """Return the profiles of the newest results that the filters keep.

    A page ends after some results without one, too. Raises StoreDamaged.
    """
    shown: list[ResultProfile] = []
    wanted, after, left_out = asked.kept(), outcome_place(asked), 0
    for _step in range(MOST_STEPS):
        size = asked.limit - len(shown)
        request = PageRequest(size=size, after=after, descending=True)
        page = farm.store.result_page(wanted, request)
        shown += (ResultProfile.of(each, each.profile) for each in page.results if each.profile)
        left_out, after = left_out + page.left_out, page.last
        if after is None or len(shown) == asked.limit:
            break
    following = cursor_of(asked, (after.number, after.started_at)) if after else None
    return ProfilePage(items=tuple(shown), next=following, left_out=left_out)


def comparison(
    farm: Reading, asked: ComparisonQuery, _: Ids, most: int = MOST_COMPARED
) -> Comparison:
    """Return how two cells compare by their stored results; raises NotFound, UserError.

    most: InvalidRequest is raised beyond so many of a stack.
    """
    with own_fault():
        catalog = load_catalog()
    if asked.scenario not in catalog.scenarios:
        known = ", ".join(sorted(catalog.scenarios))
        tried = f"use scenario {asked.scenario!r}"
        raise InvalidRequest(tried, "there is no such scenario", f"Known: {known}.")
    wanted = Wanted(
        a=_side("a", asked.a),
        b=_side("b", asked.b),
        workload=asked.workload,
        scenario=asked.scenario,
        knobs=asked.knobs_given(),
        device=asked.device,
    )
    remedy = "Choose with `device`, `sweep` and `knobs`, or add `force=true`."
    results = _of_stack(farm, asked, wanted.a.stack, most)
    if wanted.b.stack != wanted.a.stack:
        # Both sides of a paired comparison are of a stack that was asked for: it is there already.
        others = _of_stack(farm, asked, wanted.b.stack, most)
        results = [*results, *(one for one in others if not _has(one, wanted.a.stack))]
    return compare_stored(results, wanted, catalog, remedy, force=asked.force)[0]


def _of_stack(
    farm: Reading, asked: ComparisonQuery, stack: str, most: int
) -> Sequence[StoredResult]:
    """Return the results of a stack that may be meant; knobs may be omitted in them."""
    cell = CellFilter(asked.workload, asked.scenario, stack)
    kept = OutcomeFilter(cell, sweep_id=asked.sweep, device=asked.device)
    results, count = farm.store.selected_results(kept, most)
    if count > most:
        seen = f"more than {most} results of stack {stack} are stored"
        raise InvalidRequest("compare stored results", seen, "Choose with `device` or `sweep`.")
    return results


def _has(result: StoredResult, stack: str) -> bool:
    return stack in (result.stack, result.versus and result.versus.stack)


def _side(name: str, text: str) -> Side:
    try:
        return Side.model_validate(text)
    except ValidationError as error:
        remedy = "Write it as `torch:precision=bf16,memory_format=channels_last`."
        tried = f"use parameter {name!r}"
        raise InvalidRequest(tried, faults_of(error)[0].said, remedy) from error
