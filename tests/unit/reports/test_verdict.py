"""What is said of a ratio: never a difference that is not shown, never equality unless measured."""

from __future__ import annotations

import math

import pytest

from controller.reports.verdict import ComparisonOutcome, inverse, outcome_of, percent, verdict
from controller.stats.medians import Ratio

Interval = tuple[float, float] | None
WIDE = "68 % wide (±34 %), asked 3 %"


@pytest.mark.parametrize(
    ("value", "interval", "asked", "outcome", "said"),
    [
        (1.31, (1.27, 1.36), None, "b_faster", "B is 1.31× faster, 95 % [1.27, 1.36]"),
        (0.5, (0.4, 0.625), None, "a_faster", "A is 2.00× faster, 95 % [1.60, 2.50]"),
        (1.004, (1.0012, 1.0071), 0.03, "b_faster", "B is 1.004× faster, 95 % [1.001, 1.007]"),
        (1.25, (1.25, 1.25), 0.03, "b_faster", "B is 1.25× faster, 95 % [1.25, 1.25]"),
        # Shown, but not as precisely as was asked.
        (2, (1.1, 3.6), 0.03, "b_faster", "B is 2.00× faster, 95 % [1.10, 3.60]; 125 % wide"),
        (0.5, (0.4, 0.8), 0.03, "a_faster", "A is 2.00× faster, 95 % [1.25, 2.50]; 63 % wide"),
        # Two that were alike once.
        (1.0, (0.996, 1.004), 0.03, "equal", "equal within 0.4 %: B is 1.000× as fast as A, 95 %"),
        (0.8, (0.53, 1.07), 0.03, "not_resolved", "not resolved: B is 0.80× as fast as A, 95 % ["),
        (0.8, (0.53, 1.07), 0.03, "not_resolved", WIDE),
        (0.8, (0.53, 1.07), None, "not_resolved", "wide (±34 %), needs 3 %"),
        # An interval that touches 1 shows no difference; one that ends beside it does.
        (1.02, (1.0, 1.05), 0.1, "equal", "equal within 5 %: B is 1.02× as fast as A"),
        (1.02, (1.0, 1.05), 0.03, "not_resolved", "95 % [1.00, 1.05], 4.9 % wide (±2.5 %), asked"),
        (0.99, (0.98, 1.0), 0.03, "equal", "equal within 2 %: B is 0.99× as fast as A"),
        (1.0, (1.0, 1.0), 0.03, "equal", "equal within 0.01 %: B is 1.00× as fast"),
        (1.1, (1.00004, 1.2), 0.3, "b_faster", "95 % [1.00004, 1.20000]"),
        # A wide interval is not called equal because a wide one was asked for.
        (1.2, (0.5, 3.0), 5.0, "not_resolved", "asked 500 %; more than 10 % is never called equal"),
        (1.0, (0.94, 1.05), 5.0, "not_resolved", "11 % wide"),
        (1.0, (0.96, 1.05), 5.0, "equal", "equal within 5 %"),
        # Nothing to decide by.
        (
            1.3,
            None,
            0.03,
            "no_interval",
            "no verdict: 1.30×, and too little was measured for",
        ),
        (1.3, (0.0, math.inf), 9.0, "no_interval", "no verdict: 1.30×"),
        (1.3, (1.1, math.inf), 9.0, "no_interval", "no verdict: 1.30×"),
        (2.0, (0.0004, 9000.0), 0.03, "not_resolved", "95 % [0.0004, 9000.00]"),
    ],
)
def test_a_verdict_says_what_is_shown(
    value: float, interval: Interval, asked: float | None, outcome: str, said: str
) -> None:
    ratio = Ratio(value, interval)
    assert outcome_of(ratio, asked) == outcome
    assert said in verdict(ratio, asked)


@pytest.mark.parametrize("interval", [(0.99, 1.01), (0.5, 1.5), (1.2, 1.4), (0.6, 0.8), None])
def test_the_ratio_and_its_interval_are_always_said(interval: Interval) -> None:
    middle = sum(interval) / 2 if interval else 1.5
    said = verdict(Ratio(middle, interval), 0.03)
    shown = 1 / middle if said.startswith("A is") else middle
    assert f"{shown:.2f}×" in said
    assert ("95 % [" in said) == (interval is not None)


def test_sides_that_change_places_change_no_outcome() -> None:
    turned = {
        ComparisonOutcome.A_FASTER: ComparisonOutcome.B_FASTER,
        ComparisonOutcome.B_FASTER: ComparisonOutcome.A_FASTER,
    }
    for interval in [(1.2, 1.4), (0.5, 0.8), (0.99, 1.01), (0.5, 1.5), None]:
        ratio = Ratio(math.sqrt(math.prod(interval)) if interval else 1.5, interval)
        outcome = outcome_of(ratio, 0.03)
        assert outcome_of(inverse(ratio), 0.03) == turned.get(outcome, outcome)


def test_a_precision_that_was_reached_is_not_said_to_be_missed() -> None:
    """A comparison of times stops by the ratio B / A; what is said is how many times A is B."""
    stopped_by = Ratio(1.5, (1.4851, 1.5301))
    assert "wide" not in verdict(stopped_by, 0.03001)
    assert "wide" not in verdict(inverse(stopped_by), 0.03001)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0 %"),
        (0.00012, "0.012 %"),
        (0.004, "0.4 %"),
        (0.00449, "0.45 %"),
        (0.03, "3 %"),
        (0.0301, "3.1 %"),
        (0.265, "27 %"),
        (1.0, "100 %"),
        (4.999, "500 %"),
    ],
)
def test_percentages_are_never_rounded_down(share: float, said: str) -> None:
    assert percent(share) == said
