from __future__ import annotations

import pytest

from controller.contracts.bench import PlantedTrial
from controller.reports.planted import judged


def trial(
    effect: float, ratio: float, low: float | None = None, high: float | None = None
) -> PlantedTrial:
    direction = 0 if low is None or high is None else (low > 1) - (high < 1)
    return PlantedTrial(
        effect=effect,
        truth=1 + effect,
        ratio=ratio,
        low=low,
        high=high,
        direction=direction,
        pairs=12,
    )


def test_coverage_and_false_verdicts_by_effect_and_in_all() -> None:
    found = judged(
        [
            trial(0.0, 1.0, 0.99, 1.01),
            trial(0.0, 1.02, 1.01, 1.03),
            trial(0.0, 1.0),
            trial(0.5, 1.5, 1.4, 1.6),
            trial(0.5, 0.9, 0.8, 0.95),
        ]
    )
    none, half = found.effects
    assert (none.effect, none.trials, half.trials) == (0.0, 3, 2)
    assert none.coverage == pytest.approx(1 / 3), "no interval is no hit"
    assert none.false_verdicts == pytest.approx(1 / 3)
    assert (half.coverage, half.false_verdicts, half.shown) == (0.5, 0.5, 1.0)
    assert none.bias == 0.0
    assert (found.trials, found.coverage, found.false_verdicts) == (5, 0.4, 0.4)


def test_nothing_measured_is_nothing_judged() -> None:
    with pytest.raises(ValueError, match="no comparison"):
        judged([])
