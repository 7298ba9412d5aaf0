"""How exactly LoadGen prints its floating-point numbers."""

from __future__ import annotations

import math
from typing import Final

from controller.loadgen.checks import DIGITS
from controller.loadgen.run_logs import RunLogs

TWO_DECIMALS: Final = frozenset(
    {
        "result_qps_with_loadgen_overhead",
        "result_qps_without_loadgen_overhead",
        "result_completed_samples_per_sec",
        "result_scheduled_samples_per_sec",
        "result_completed_tokens_per_second",
    }
)
"""What a summary prints with two decimals; the detail log prints DIGITS significant digits."""
FLOATING: Final = TWO_DECIMALS | {
    "result_samples_per_second",
    "result_tokens_per_second",
    "effective_target_qps",
    "effective_target_latency_percentile",
    "effective_accuracy_log_probability",
}
ROUNDING: Final = 1e-9
"""Relative error of working a figure out in another order."""


def half_digit(value: float) -> float:
    """Return half of the last printed digit of a number with DIGITS significant ones."""
    if not value:
        return 0.0
    return float(0.5 * 10.0 ** (math.floor(math.log10(abs(value))) + 1 - DIGITS))


def half_of(run: RunLogs, key: str, value: float) -> float:
    """Return half of the last printed digit of a figure of these logs."""
    if key in TWO_DECIMALS and key not in run.detail.values:
        return 0.005
    return half_digit(value)


def bounds(run: RunLogs, key: str) -> tuple[float, float] | None:
    """Return between what a printed number lies; None if there is none."""
    value = run.number(key)
    if value is None:
        return None
    half = half_of(run, key, value) + abs(value) * ROUNDING
    return value - half, value + half
