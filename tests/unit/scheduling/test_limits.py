"""What one sweep may ask for: each limit is met by one more, and not by as much."""

from __future__ import annotations

import pytest

from controller.contracts.errors import SweepInvalid
from controller.scheduling import limits
from controller.scheduling.limits import require_within_limits
from tests.support import builders

WORD = limits.MAX_WORD_CHARACTERS
ONE = 'device == "x"'


def at(**more: int) -> list[tuple[str, dict[str, object]]]:
    """Return what is at each limit, or beyond it by so much."""
    extra = more.get("more", 0)
    long = ONE.ljust(limits.MAX_SELECTOR_CHARACTERS + extra)
    many = [f'device == "{n}"' for n in range(limits.MAX_SELECTORS + extra)]
    cells = limits.MAX_CELLS // 40
    return [
        ("characters", {"knobs": {"precision": ["x" * (WORD + extra)]}}),
        ("characters", {"knobs": {"x" * (WORD + extra): ["fp32"]}}),
        ("characters", {"workload": ["x" * (WORD + extra)]}),
        ("characters", {"recipes": {"x" * (WORD + extra): {}}}),
        ("characters", {"recipes": {"r": {"x" * (WORD + extra): 1}}}),
        ("characters", {"baseline": {"stack": "x" * (WORD + extra)}}),
        ("characters in a selector", {"devices": [ONE, long]}),
        ("selectors", {"devices": many}),
        ("runs", {"repeats": limits.MAX_RUNS // 10, "knobs": {"steps": list(range(10 + extra))}}),
        ("cells", {"knobs": {"a": list(range(40)), "b": list(range(cells + extra))}}),
        (
            "cells",
            {
                "stack": [],
                "recipes": {"r": {"stack": "torch"}},
                "knobs": {"a": list(range(40)), "b": list(range(cells + extra))},
            },
        ),
        ("64 bits", {"knobs": {"steps": [limits.MAX_NUMBER - 1 + extra]}}),
        ("64 bits", {"knobs": {"steps": [1 - limits.MAX_NUMBER - extra]}}),
    ]


@pytest.mark.parametrize(("noun", "changes"), at())
def test_as_much_as_is_allowed(noun: str, changes: dict[str, object]) -> None:
    require_within_limits(builders.sweep(**changes))


@pytest.mark.parametrize(("noun", "changes"), at(more=1))
def test_one_more_is_refused_in_a_line(noun: str, changes: dict[str, object]) -> None:
    with pytest.raises(SweepInvalid, match=noun) as refused:
        require_within_limits(builders.sweep(**changes), "s.yaml")
    assert refused.value.tried.startswith("read s.yaml")
    assert len(str(refused.value)) < 300


def test_a_sweep_may_not_be_larger_than_its_limit() -> None:
    values = [f"{n:0200}" for n in range(limits.MAX_SWEEP_BYTES // 200)]
    with pytest.raises(SweepInvalid, match=f"bytes; the limit is {limits.MAX_SWEEP_BYTES}"):
        require_within_limits(builders.sweep(knobs={"precision": values}))


def test_what_a_sweep_would_expand_to_is_counted_and_not_built() -> None:
    knobs = {f"k{n}": list(range(100)) for n in range(40)}
    with pytest.raises(SweepInvalid, match="the limit is 10000"):
        require_within_limits(builders.sweep(knobs=knobs, repeats=1000))
