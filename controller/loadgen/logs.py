"""Parsing of LoadGen's logs: the verdict and the metrics; answers are scored elsewhere.

`mlperf_log_detail.txt` has a line `:::MLLOG {"key": …, "value": …, "metadata": {…}}` for each fact,
with the exact values that `mlperf_log_summary.txt` rounds or paraphrases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DETAIL: Final = "mlperf_log_detail.txt"
SUMMARY: Final = "mlperf_log_summary.txt"
ACCURACY: Final = "mlperf_log_accuracy.json"
TRACE: Final = "mlperf_log_trace.json"
MARK: Final = ":::MLLOG "
"""Begins each entry of a detail log."""
_EARLY_STOPPING: Final = {
    "early_stopping_p90": "early_stopping_latency_ss",
    "early_stopping_p99": "early_stopping_latency_ms",
}
"""Metric → key; `_ms` is the 99th percentile of multi_stream, 0 if unknown."""


class LogUnreadable(ValueError):
    """A log that LoadGen did not write so, or that lacks what is asked of it; its text is one
    line."""


@dataclass(frozen=True, slots=True)
class DetailLog:
    """The facts of `mlperf_log_detail.txt`."""

    values: Mapping[str, Any]
    """Key → value; the last one of a repeated key."""
    errors: tuple[str, ...]
    """LoadGen's own error messages."""

    @staticmethod
    def parse(text: str) -> DetailLog:
        """Parse the log; raises LogUnreadable on a malformed line."""
        values: dict[str, Any] = {}
        errors = []
        for entry in entries(text):
            values[entry["key"]] = entry["value"]
            if entry["metadata"]["is_error"]:
                errors.append(str(entry["value"]))
        return DetailLog(values, tuple(errors))

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - JSON
        try:
            return self.values[key]
        except KeyError:
            raise LogUnreadable(f"{DETAIL} has no {key}") from None


def entries(text: str) -> Iterator[dict[str, Any]]:
    """Yield each entry of the log, with `key`, `value` and `metadata`; raises LogUnreadable."""
    for line in text.splitlines():
        if not line.startswith(MARK):
            continue
        try:
            entry = json.loads(
                line.removeprefix(MARK),
                parse_constant=_refuse_constant,
                object_pairs_hook=each_once,
            )
            hash(entry["key"]), entry["value"], entry["metadata"]["is_error"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise LogUnreadable(f"{DETAIL}: {error!r:.200} in {line[:200]!r}") from error
        yield entry


def each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError for a key that it has twice: readers differ then."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse_constant(name: str) -> float:
    """Refuse NaN and the infinities, which JSON lacks and Python's reader takes."""
    raise ValueError(f"{name} is no number")


_LONGEST: Final = "Ending early: Max test duration reached."
"""In LoadGen's error of a run that has lasted as long as it may."""
_ENFORCED: Final = "effective_enforce_max_duration"
"""Setting of the 4.0 with which MLPerf Mobile v4.0 to v5.0 was measured, and of no other release.

With it, LoadGen logs that a run has lasted as long as it may, but not as an error, and calls it
VALID with fewer queries than were asked for.
"""


def ended_at_longest(log: DetailLog) -> bool:
    """Return whether a run ended at its longest duration with enough queries for its metric.

    MLPerf Mobile's app asks for no number of queries then but that of early stopping (rounds from
    v3.1 on); LoadGen itself calls every such run INVALID, but for one release: see
    `waives_queries`. One that knows no early stopping (round
    v2.0) does not log it; its rule is the least number of queries.
    """
    alone = bool(log.errors) and all(_LONGEST in error for error in log.errors)
    alone |= waives_queries(log)
    enough = log.values.get("early_stopping_met", log["result_min_queries_met"])
    return bool(alone and log["result_min_duration_met"] and enough)


def waives_queries(log: DetailLog) -> bool:
    """Return whether LoadGen asks for no number of queries, as the run lasted its longest."""
    said = str(log.values.get("error_runtime"))
    return log.values.get(_ENFORCED) is True and _LONGEST in said and not log.errors


def objections(log: DetailLog) -> tuple[str, ...]:
    """Return why a performance run is INVALID; empty if it is VALID.

    MLPerf's rules allow no error; LoadGen's own verdict depends on none, so that errors count
    beside it. A run that was ended by its longest duration is VALID by the rules, though a release
    may log that as an error: see ended_at_longest.
    """
    if log["result_validity"] == "VALID":
        return tuple(f"LoadGen: {error}" for error in log.errors if _LONGEST not in error)
    if ended_at_longest(log):
        return ()
    reasons = []
    if not log["result_min_duration_met"]:
        least = log["effective_min_duration_ms"]
        reasons.append(f"too short: the minimum duration of {least} ms was not reached")
    if not log["result_min_queries_met"]:
        least = log["effective_min_query_count"]
        count = log.values.get("result_query_count")  # which round v2.0 does not log
        counted = f"fewer than {least}" if count is None else f"{count} of at least {least}"
        reasons.append(f"too few queries: {counted}")
    if log.values.get("result_perf_constraints_met") is False:
        late, issued = log["result_overlatency_query_count"], log["result_query_count"]
        reasons.append(f"too slow: {late} of {issued} queries took longer than allowed")
    if not log.values.get("early_stopping_met", True):
        said = " ".join(str(log["early_stopping_result"]).replace(" * ", " ").split())
        reasons.append(f"early stopping not satisfied: {said}")
    reasons += [f"LoadGen: {error}" for error in log.errors]
    advice = log.values.get("result_invalid_reason", "it gives no reason")
    return tuple(reasons) or (f"LoadGen says {log['result_validity']}: {advice}",)


def seeds(log: DetailLog) -> list[str]:
    """Return the seeds of samples, their order and their times, as text: they have 64 bits."""
    return [str(log[f"effective_{name}_rng_seed"]) for name in ("qsl", "sample_index", "schedule")]


def asked(log: DetailLog, scenario: str) -> dict[str, object]:
    """Return the length that LoadGen was asked for, and the samples that it drew from.

    The only query of offline has all samples: there, their number is the least one.
    """
    least = "min_sample_count" if scenario == "offline" else "min_query_count"
    return {
        "min_query_count": log[f"effective_{least}"],
        "min_duration_ms": log["effective_min_duration_ms"],
        "max_duration_ms": log["effective_max_duration_ms"],
        "performance_samples": log["effective_performance_sample_count"],
    }


def throughput(log: DetailLog, scenario: str) -> float | None:
    """Return samples a second: all samples for offline, completed ones for server, else None."""
    if scenario == "offline":
        return float(log["result_samples_per_second"])
    if scenario == "server":
        return float(log["result_completed_samples_per_sec"])
    return None


def latency_metrics(log: DetailLog, scenario: str) -> dict[str, float]:
    """Return latencies of queries in seconds; p90 is the metric of single_stream, p99 of
    multi_stream.

    `early_stopping_p90` and `_p99` bound the percentile for a run of any length with 99 %
    confidence (LoadGen's early-stopping estimate); p99's exists from 662 queries on.
    """
    several = scenario == "multi_stream"  # several samples a query
    percentile, query = ("_per_query", "_query") if several else ("", "")
    keys = {
        "latency_p50": f"result_50.00_percentile{percentile}_latency_ns",
        "latency_p90": f"result_90.00_percentile{percentile}_latency_ns",
        "latency_p99": f"result_99.00_percentile{percentile}_latency_ns",
        "latency_mean": f"result_mean{query}_latency_ns",
        "latency_min": f"result_min{query}_latency_ns",
        "latency_max": f"result_max{query}_latency_ns",
    }
    metrics = {name: log[key] / 1e9 for name, key in keys.items()}
    estimates = _EARLY_STOPPING if scenario == "single_stream" else {}
    for name, key in estimates.items():
        # Single-stream logs of round v2.0 lack `early_stopping_met`.
        if log.values.get("early_stopping_met") and log.values.get(key):
            metrics[name] = log[key] / 1e9
    return metrics


def duration_s(log: DetailLog, scenario: str) -> float:
    """Return LoadGen's duration, from its first query to its last answer."""
    if scenario == "offline":
        return float(log["result_max_latency_ns"]) / 1e9
    if scenario == "single_stream":
        return float(log["result_query_count"]) / float(log["result_qps_with_loadgen_overhead"])
    if scenario == "server":
        return float(log["result_query_count"]) / float(log["result_completed_samples_per_sec"])
    return float(log["result_query_count"]) * float(log["result_mean_query_latency_ns"]) / 1e9


def read(folder: Path, name: str) -> str:
    """Return a log's text; raises LogUnreadable."""
    try:
        return (folder / name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LogUnreadable(f"{folder / name}: {error}") from error
