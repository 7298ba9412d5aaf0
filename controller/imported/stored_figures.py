"""A stored result of ours against the log that is exported with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.contracts.base import scalar_text
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.imported.layout import SCENARIOS
from controller.loadgen import logs

_EXPORTED: Final = ("duration", "latency_p90", "latency_mean", "throughput")
"""Metrics that the app's JSON has, if the scenario has them."""


def figure_differences(result: StoredResult, log: logs.DetailLog) -> Iterator[str]:
    """Yield each figure, and the verdict, that a result has otherwise than its log.

    Raises LogUnreadable; ArithmeticError, TypeError or ValueError for values that LoadGen never
    writes.
    """
    scenario = SCENARIOS.get(str(log["effective_scenario"]))
    if scenario != result.scenario:
        yield f"scenario is {result.scenario}, in its log {log['effective_scenario']!s:.40}"
        return
    for name, value in _figures(log, scenario).items():
        metric = result.metrics.get(name)
        if metric is None and name in _EXPORTED:
            yield f"{name} is missing, in its log {value!r}"
        elif metric is not None and metric.value != value:
            yield f"{name} is {metric.value!r}, in its log {value!r}"
    why = logs.objections(log)
    if why and result.validity is not Validity.INVALID:
        yield f"validity is {result.validity}, in its log INVALID: {why[0]:.200}"


def fact_differences(result: StoredResult, log: logs.DetailLog) -> Iterator[str]:
    """Yield each fact that a result has otherwise than its log; raises LogUnreadable."""
    said = result.environment
    expected = {
        "loadgen": str(log["loadgen_version"]),
        "loadgen_seeds": tuple(logs.seeds(log)),
        **logs.asked(log, result.scenario),
    }
    for name, value in expected.items():
        if name in said and said[name] != value:
            yield f"{name} is {_text(said[name])}, in its log {_text(value)}"


def _figures(log: logs.DetailLog, scenario: str) -> dict[str, float]:
    found = {"duration": logs.duration_s(log, scenario)}
    if (rate := logs.throughput(log, scenario)) is not None:
        found["throughput"] = rate
    if scenario != "offline":
        found |= logs.latency_metrics(log, scenario)
    return found


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    return scalar_text(value) if isinstance(value, bool | int | float | str) else str(value)[:200]
