"""Figures tell unlike values apart, however small they are."""

from __future__ import annotations

import pytest

from controller.contracts.units import Unit
from controller.reports.figures import shown

RATES = [unit for unit in Unit if unit.endswith("/s")]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.149, Unit.SAMPLES_PER_SECOND, "0.149 samples/s"),
        (0.051, Unit.SAMPLES_PER_SECOND, "0.051 samples/s"),
        (1.04, Unit.SAMPLES_PER_SECOND, "1.04 samples/s"),
        (460.52, Unit.SAMPLES_PER_SECOND, "460.5 samples/s"),
        (0.0149, Unit.IMAGES_PER_SECOND, "0.0149 images/s"),
        (0.0051, Unit.IMAGES_PER_SECOND, "0.0051 images/s"),
        (3.2349, Unit.IMAGES_PER_SECOND, "3.23 images/s"),
        (0.4371, Unit.SEQUENCES_PER_SECOND, "0.437 sequences/s"),
        (0.02345, Unit.TOKENS_PER_SECOND, "0.0234 tokens/s"),
        (3e6, Unit.BYTES, "2.861 MiB"),
        (2**30 - 1, Unit.BYTES, "1024 MiB"),
        (2**30, Unit.BYTES, "1.00 GiB"),
        (2.5 * 2**30, Unit.BYTES, "2.50 GiB"),
    ],
)
def test_a_value_has_at_least_three_digits(value: float, unit: Unit, text: str) -> None:
    assert shown(value, unit) == text


@pytest.mark.parametrize("unit", RATES)
def test_rates_that_differ_by_a_fiftieth_are_told_apart(unit: Unit) -> None:
    assert RATES
    for power in range(-4, 5):
        for value in (1.0, 3.0, 9.0):
            rate = value * 10.0**power
            assert shown(rate, unit) != shown(rate * 1.02, unit)
