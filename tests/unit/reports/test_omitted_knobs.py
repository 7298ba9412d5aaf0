"""Knobs that cells omit at their defaults: a baseline or a side that names the default is found."""

from __future__ import annotations

import pytest

from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.contracts.records import StoredResult, SweepRecord
from controller.contracts.sweep import PairedCandidate, Side, Sweep, side_labels
from controller.reports.comparison import Comparison
from controller.reports.result_selection import Wanted
from controller.reports.sides import sides_of, with_omitted, without_lone_defaults
from controller.reports.stored_comparison import compare_stored
from controller.reports.summary import summaries_of, summarise
from controller.reports.views.sweep import SweepData, sweep_view
from controller.scheduling.expansion import cells_of
from tests.support import builders
from tests.support.sweep_examples import MADE, result, trained

CATALOG = load_catalog()
OMITTED: list[tuple[dict[str, object], str, Scalar, Scalar]] = [
    ({"flush_denormals": [False, True]}, "flush_denormals", False, True),
    ({"master_weights": [False, True]}, "master_weights", False, True),
    ({"ranks": 2, "hosts": [1, 2]}, "hosts", 1, 2),
]
"""Knobs of a sweep of two cells → the knob that the first cell omits, its default, the other."""


def sweep_of(**changes: object) -> Sweep:
    return builders.sweep(workload="resnet18", **changes)


def measured(sweep: Sweep) -> list[StoredResult]:
    """Return a result of each cell, each twice as fast as the one before."""
    return [
        result(
            **cell.model_dump(include={"workload", "stack", "scenario", "knobs"}),
            cell_key=cell.key,
            run_id=cell.key,
            metrics=trained((0.5**number,) * 3),
        )
        for number, cell in enumerate(cells_of(sweep, CATALOG))
    ]


@pytest.mark.parametrize(("knobs", "name", "default", "other"), OMITTED)
def test_a_baseline_that_is_the_default_is_found(
    knobs: dict[str, object], name: str, default: Scalar, other: Scalar
) -> None:
    """The sweep was refused, and where the other value was the baseline, it was found."""
    for value, ratios in ((default, [2.0, None]), (other, [None, 0.5])):
        sweep = sweep_of(knobs=knobs, baseline={name: value})
        results = measured(sweep)
        assert [one.knobs.get(name) for one in results] == [None, other]
        found = summaries_of(summarise(results, [], sweep.baseline, CATALOG).rankings)
        assert [cell.knobs.get(name) for cell in found] == [other, None], "the faster one first"
        assert [cell.vs_baseline for cell in found] == ratios
        assert [cell.is_baseline for cell in found] == [ratio is None for ratio in ratios]
        record = SweepRecord(sweep_id="s-1", sweep=sweep, generation=1, submitted_at=1.0)
        data = SweepData(record=record, runs=(), results=results, failures=())
        (ranking,) = sweep_view(data, CATALOG, MADE).rankings
        assert [row.is_reference for row in ranking.rows] == [ratio is None for ratio in ratios]


def test_what_the_catalogue_does_not_know_is_left_as_it_is() -> None:
    assert CATALOG.with_omitted("gone", "gone", "gone", {"a": 1}) == {"a": 1}
    whole = CATALOG.with_omitted("gone", "torch", "training", {"master_weights": True})
    assert whole == {"flush_denormals": False, "master_weights": True, "hosts": 1}


def test_a_cell_that_is_older_than_a_knob_has_no_value_of_it() -> None:
    """Another knob than those that are omitted may have had another meaning before."""
    (one,) = measured(sweep_of())
    threads = one.knobs["threads"]
    older = one.model_copy(update={"knobs": {n: v for n, v in one.knobs.items() if n != "threads"}})
    for each, is_baseline in ((one, True), (older, False)):
        found = summaries_of(summarise([each], [], {"threads": threads}, CATALOG).rankings)
        assert [cell.is_baseline for cell in found] == [is_baseline]


def compared(results: list[StoredResult], a: str, b: str) -> Comparison:
    sides = Side.model_validate(a), Side.model_validate(b)
    asked = Wanted(*sides, workload="resnet18", scenario="training", knobs={}, device=None)
    return compare_stored(results, asked, CATALOG, "Choose.", force=False)[0]


@pytest.mark.parametrize(("knobs", "name", "default", "other"), OMITTED)
def test_a_side_that_names_the_default_is_found(
    knobs: dict[str, object], name: str, default: Scalar, other: Scalar
) -> None:
    words = [f"torch:{name}={value}" for value in (default, other)]
    found = compared(measured(sweep_of(knobs=knobs)), *words)
    assert found.ratio == pytest.approx(2.0)
    assert [found.a, found.b] == [word.lower() for word in words]
    assert found.knobs.keys() >= {"flush_denormals", "master_weights", "hosts"} - {name}


def test_a_side_that_could_mean_two_cells_is_told_what_to_name() -> None:
    results = measured(sweep_of(knobs={"flush_denormals": [False, True]}))
    with pytest.raises(UserError) as refused:
        compared(results, "torch", "torch:flush_denormals=true")
    assert refused.value.seen == "several cells are stored, with flush_denormals False and True"
    assert "such as torch:flush_denormals=false or" in refused.value.remedy


def test_an_omitted_default_differs_from_another_value_that_nobody_asked_for() -> None:
    fast = {"precision": "bf16", "flush_denormals": True}
    results = measured(sweep_of(recipes={"plain": {}, "fast": fast}))
    with pytest.raises(UserError, match="flush_denormals differs: False and True"):
        compared(results, "torch:precision=fp32", "torch:precision=bf16")


def test_both_sides_of_a_pair_have_what_their_cells_omit() -> None:
    (one,) = measured(sweep_of())
    versus = PairedCandidate(stack="torch", knobs={**one.knobs, "flush_denormals": True})
    paired = with_omitted(one.model_copy(update={"versus": versus}), CATALOG)
    a, b = sides_of(paired)
    assert a.knobs == {**b.knobs, "flush_denormals": False}
    assert "master_weights" in b.knobs


@pytest.mark.parametrize("masters", [False, True])
def test_a_side_is_not_named_by_a_default_that_only_its_stack_has(masters: bool) -> None:
    """`torch` against `ipex`, which has no `master_weights`, was `torch:master_weights=false`."""
    (one,) = measured(sweep_of())

    def side(stack: str, **knobs: Scalar) -> Side:
        whole = CATALOG.with_omitted(one.workload, stack, one.scenario, {"threads": 2, **knobs})
        return Side(stack=stack, knobs=whole)

    sides = side("torch", master_weights=masters), side("ipex")
    told = without_lone_defaults(sides, one, CATALOG)
    assert [each.knobs.get("master_weights") for each in told] == [masters or None, None]
    assert [each.knobs["flush_denormals"] for each in told] == [False, False]
    named = "torch:master_weights=true" if masters else "torch"
    assert side_labels(*told) == (named, "ipex")
