"""What the routes about failures, profiles and comparisons return."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from controller.api.answers import FailurePage, ProfilePage, ResultProfile
from controller.api.paging import cursor_of, page_of
from controller.api.problems import InvalidRequest
from controller.api.queries import ComparisonQuery, FailureQuery, ProfileQuery
from controller.api.reads import Ids, Reading, result_place
from controller.contracts.catalog import load_catalog
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter, PageRequest
from controller.contracts.sweep import Side
from controller.contracts.wording import faults_of
from controller.reports.comparison import Comparison
from controller.reports.result_selection import Wanted
from controller.reports.stored_comparison import compare_stored

MOST_STEPS: Final = 5
"""How often results are looked through for the profiles of a page."""


def failures(farm: Reading, asked: FailureQuery, _: Ids) -> FailurePage:
    """Return failed attempts that the filters keep."""
    placed = dict(enumerate(farm.store.selected_failures(asked.wanted())[0]))
    places, following = page_of(
        *(placed, lambda place: (place,), (int,), asked),
        descending=asked.sort.startswith("-"),
        size=lambda place: len(placed[place].model_dump_json()),
    )
    return FailurePage(items=tuple(placed[place] for place in places), next=following)


def profiles(farm: Reading, asked: ProfileQuery, _: Ids) -> ProfilePage:
    """Return the profiles of the newest results that the filters keep.

    A page ends after some results without one, too. Raises StoreDamaged.
    """
    shown: list[ResultProfile] = []
    wanted, after, left_out = asked.kept(), result_place(asked), 0
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


def comparison(farm: Reading, asked: ComparisonQuery, _: Ids) -> Comparison:
    """Return how two cells compare by their stored results; raises NotFound, UserError."""
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
    cell = CellFilter(asked.workload, asked.scenario)
    kept = OutcomeFilter(cell, sweep_id=asked.sweep, device=asked.device)
    results, _count = farm.store.selected_results(kept)
    return compare_stored(results, wanted, catalog, remedy, force=asked.force)[0]


def _side(name: str, text: str) -> Side:
    try:
        return Side.model_validate(text)
    except ValidationError as error:
        remedy = "Write it as `torch:precision=bf16,memory_format=channels_last`."
        tried = f"use parameter {name!r}"
        raise InvalidRequest(tried, faults_of(error)[0].said, remedy) from error
