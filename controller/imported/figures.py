"""What a published run measured, from LoadGen's logs or from the app's JSON.

Pure but for copies of logs, which `checked_logs` makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.units import Unit
from controller.imported.app_json import AppResult, AppRun
from controller.imported.checked_logs import contradiction, run_of
from controller.imported.layout import SCENARIOS
from controller.loadgen import logs
from controller.loadgen.run_logs import RunLogs

_PERFORMANCE: Final = "PerformanceOnly"
_NUMBERS: Final = ("_ns", "_count", "_per_sec", "_per_second", "_overhead")
"""How the names of LoadGen's figures end."""
_QUERIES: Final = "result_query_count"
MOST_REASONS: Final = 20
LONGEST_ODD: Final = 280
"""Characters of a line on a log that contradicts itself: a verdict of LoadGen may be long."""
LONGEST: Final = 200
"""Characters of a reason that are repeated."""


class LeftOut(ValueError):
    """Something published that is not imported; its text is one line."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The performance of one published run."""

    scenario: str
    validity: Validity
    reasons: tuple[str, ...]
    metrics: dict[str, Measurement]
    environment: Environment
    started_at: float
    queries: int | None
    """If known."""
    unknown: tuple[str, ...] = ()
    """What its log should say, and does not."""


def from_log(detail: str, summary: str | None) -> Measured:
    """Return what the logs of a performance run say, each figure checked; raises LeftOut.

    summary: None if there is none. Raises OSError where no copy of the logs can be made.
    """
    try:
        files = {logs.DETAIL: detail.encode()}
        if summary is not None:
            files[logs.SUMMARY] = summary.encode()
        return _from_run(run_of(files))
    except LeftOut:
        raise
    except logs.LogUnreadable as error:
        raise LeftOut(str(error)[:LONGEST]) from error
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        said = f"a value in it is not what LoadGen writes there: {error}"
        raise LeftOut(said[:LONGEST]) from error


def _from_run(run: RunLogs) -> Measured:
    log = run.detail.log
    if (mode := log["effective_test_mode"]) != _PERFORMANCE:
        raise LeftOut(f"its test mode is {mode!s:.40}, not {_PERFORMANCE}")
    if odd := contradiction(run):
        raise LeftOut(f"its logs contradict themselves: {odd}"[:LONGEST_ODD])
    scenario = SCENARIOS[run.scenario]
    why = _objections(log)
    queries = log.values.get(_QUERIES)
    return Measured(
        scenario=scenario,
        validity=Validity.INVALID if why else Validity.VALID,
        reasons=why,
        metrics=_metrics(log, scenario),
        environment={
            "loadgen": str(log["loadgen_version"])[:LONGEST],
            "loadgen_seeds": tuple(logs.seeds(log)),
            **{name: _count(value) for name, value in logs.asked(log, scenario).items()},
        },
        started_at=moment_of(str(log["test_datetime"])),
        queries=None if queries is None else _count(queries),
        unknown=tuple(_unknown(log, scenario)),
    )


def _objections(log: logs.DetailLog) -> tuple[str, ...]:
    """Return why a run is INVALID, each reason in one short line."""
    why = logs.objections(log)
    return tuple(" ".join(reason.split())[:LONGEST] for reason in why[:MOST_REASONS])


def _unknown(log: logs.DetailLog, scenario: str) -> Iterator[str]:
    """Yield what LoadGen did not log, as that of round v2.0."""
    if _QUERIES not in log.values:
        missing = "number of queries" + ("" if scenario == "offline" else " and duration")
        yield f"{missing}: the log has no {_QUERIES}"


def _metrics(log: logs.DetailLog, scenario: str) -> dict[str, Measurement]:
    for name, value in log.values.items():
        if name.endswith(_NUMBERS) and isinstance(value, bool):  # which Python takes for 0 or 1
            raise TypeError(f"{name} is {value}")
    metrics: dict[str, Measurement] = {}
    if scenario == "offline" or _QUERIES in log.values:
        metrics["duration"] = _positive(logs.duration_s(log, scenario), Unit.SECONDS)
    rate = logs.throughput(log, scenario)
    if rate is not None:
        metrics["throughput"] = _positive(rate, Unit.SAMPLES_PER_SECOND)
    if scenario != "offline":
        for name, seconds in logs.latency_metrics(log, scenario).items():
            metrics[name] = _positive(seconds, Unit.SECONDS)
    return metrics


def _positive(value: float, unit: Unit) -> Measurement:
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value!s:.40} is no positive number")
    return Measurement(value=float(value), unit=unit)


LARGEST: Final = 2**63
"""LoadGen counts in 64 bits."""


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST:
        raise TypeError(f"{value!s:.40} is no count")
    return value


def from_app(result: AppResult) -> Measured:
    """Return what the app's JSON says of one benchmark; raises LeftOut."""
    scenario = SCENARIOS.get(result.loadgen_scenario)
    run = result.performance_run
    if scenario not in ("single_stream", "offline"):
        raise LeftOut(f"the app has no scenario {result.loadgen_scenario:.40}")
    if run is None or run.rate is None:
        raise LeftOut("it has no performance run")
    if run.valid is None:
        raise LeftOut("it does not say whether LoadGen called the run valid")
    try:
        metrics = _app_metrics(run, run.rate, scenario)
    except ValueError as error:
        raise LeftOut(f"a figure in it is not one: {error}") from error
    why = () if run.valid else ("LoadGen called the run INVALID; the app's JSON does not say why",)
    return Measured(
        scenario=scenario,
        validity=Validity.INVALID if why else Validity.VALID,
        reasons=why,
        metrics=metrics,
        environment=_app_facts(result),
        started_at=moment_of(run.start_datetime),
        queries=run.loadgen.query_count if run.loadgen else None,
    )


def _app_metrics(run: AppRun, rate: float, scenario: str) -> dict[str, Measurement]:
    metrics: dict[str, Measurement] = {}
    if run.duration_s is not None:
        metrics["duration"] = _positive(run.duration_s, Unit.SECONDS)
    if scenario == "offline":
        return metrics | {"throughput": _positive(rate, Unit.SAMPLES_PER_SECOND)}
    said = run.loadgen.latency90 if run.loadgen else None
    p90 = said if said is not None else 1 / _positive(rate, Unit.SAMPLES_PER_SECOND).value
    metrics["latency_p90"] = _positive(p90, Unit.SECONDS)
    if run.loadgen and run.loadgen.latency_mean is not None:
        metrics["latency_mean"] = _positive(run.loadgen.latency_mean, Unit.SECONDS)
    return metrics


def _app_facts(result: AppResult) -> Environment:
    settings = result.backend_settings
    least_ms = result.min_duration_ms
    if result.min_duration is not None:
        least_ms = result.min_duration * 1e3
    said: Mapping[str, str | int | float | None] = {
        "min_query_count": result.min_samples,
        "min_duration_ms": least_ms,
        "delegate": settings.delegate or settings.accelerator_desc or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def accuracy_from(result: AppResult, metric: str) -> Measurement | None:
    """Return the accuracy of an app's accuracy run; None if it has none; raises LeftOut."""
    run = result.accuracy_run
    number = run.accuracy.number if run and run.accuracy else None
    if number is None:
        return None
    return accuracy_as(metric, number)


def accuracy_as(metric: str, fraction: float) -> Measurement:
    """Return an accuracy as we have it: PSNR, of which the app's 1 is 100 dB, in dB.

    Raises LeftOut for one that is no share of the whole.
    """
    if not 0 <= fraction <= 1:
        raise LeftOut(f"its accuracy {fraction:.6g} is not between 0 and 1")
    if metric == "PSNR":
        return Measurement(value=_shifted(fraction, 2), unit=Unit.DECIBELS)
    return Measurement(value=fraction, unit=Unit.FRACTION)


def as_fraction(accuracy: Measurement) -> float:
    """Return an accuracy as the app has it; the inverse of `accuracy_as`."""
    return _shifted(accuracy.value, -2) if accuracy.unit is Unit.DECIBELS else accuracy.value


def _shifted(value: float, places: int) -> float:
    """Return a float whose shortest decimal has its point moved: times 100 would round."""
    return float(Decimal(repr(value)).scaleb(places))


def moment_of(text: str) -> float:
    """Return ISO 8601 as seconds since the epoch, UTC unless it says otherwise; raises LeftOut."""
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise LeftOut(f"its time {text[:40]!r} is none") from error
    if not 0 <= seconds < 2**33:
        raise LeftOut(f"its time {text[:40]!r} is none")
    return seconds
