"""What LoadGen's logs say: the verdict, the metrics, the answers.

`mlperf_log_detail.txt` has a line `:::MLLOG {"key": …, "value": …, "metadata": {…}}` for each fact,
with the exact values that `mlperf_log_summary.txt` rounds or words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.android.runner.faults import log_unreadable

DETAIL: Final = "mlperf_log_detail.txt"
SUMMARY: Final = "mlperf_log_summary.txt"
ACCURACY: Final = "mlperf_log_accuracy.json"
_MARK: Final = ":::MLLOG "
_EARLY_STOPPING: Final = {
    "early_stopping_p90": "early_stopping_latency_ss",
    "early_stopping_p99": "early_stopping_latency_ms",
}
"""Metric → key; `_ms` is the 99th percentile multi-stream goes by, 0 if not known."""


@dataclass(frozen=True, slots=True)
class DetailLog:
    """The facts of `mlperf_log_detail.txt`."""

    values: Mapping[str, Any]
    """Key → value; of a key said twice, the last."""
    errors: tuple[str, ...]
    """LoadGen's own errors, in its words."""

    @staticmethod
    def parse(text: str) -> DetailLog:
        """Read the log; raises RunnerFault `log_unreadable` on a line that is not what it says."""
        values: dict[str, Any] = {}
        errors = []
        for line in text.splitlines():
            if not line.startswith(_MARK):
                continue
            try:
                entry = json.loads(line.removeprefix(_MARK))
                values[entry["key"]] = entry["value"]
                if entry["metadata"]["is_error"]:
                    errors.append(str(entry["value"]))
            except (ValueError, KeyError, TypeError) as error:
                raise log_unreadable(f"{DETAIL}: {error!r} in {line[:200]!r}") from error
        return DetailLog(values, tuple(errors))

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - JSON
        try:
            return self.values[key]
        except KeyError:
            raise log_unreadable(f"{DETAIL} says nothing of {key}") from None


def objections(log: DetailLog) -> tuple[str, ...]:
    """Return why LoadGen calls a performance run INVALID; nothing if it is VALID."""
    if log["result_validity"] == "VALID":
        return ()
    reasons = []
    if not log["result_min_duration_met"]:
        least = log["effective_min_duration_ms"]
        reasons.append(f"too short: the minimum duration of {least} ms was not reached")
    if not log["result_min_queries_met"]:
        least = log["effective_min_query_count"]
        reasons.append(f"too few queries: {log['result_query_count']} of at least {least}")
    if not log["early_stopping_met"]:
        said = " ".join(str(log["early_stopping_result"]).replace(" * ", " ").split())
        reasons.append(f"early stopping not satisfied: {said}")
    reasons += [f"LoadGen: {error}" for error in log.errors]
    advice = log.values.get("result_invalid_reason", "it gives no reason")
    return tuple(reasons) or (f"LoadGen says {log['result_validity']}: {advice}",)


def latency_metrics(log: DetailLog) -> dict[str, float]:
    """Return a single-stream run's latencies in seconds; p90 is the scenario's metric.

    `early_stopping_p90` and `_p99` bound the percentile for a run of any length with 99 %
    confidence (LoadGen's early-stopping estimate); p99's is there from 662 queries on.
    """
    keys = {
        "latency_p50": "result_50.00_percentile_latency_ns",
        "latency_p90": "result_90.00_percentile_latency_ns",
        "latency_p99": "result_99.00_percentile_latency_ns",
        "latency_mean": "result_mean_latency_ns",
        "latency_min": "result_min_latency_ns",
        "latency_max": "result_max_latency_ns",
    }
    metrics = {name: log[key] / 1e9 for name, key in keys.items()}
    for name, key in _EARLY_STOPPING.items():
        if log["early_stopping_met"] and log.values.get(key):
            metrics[name] = log[key] / 1e9
    return metrics


def duration_s(log: DetailLog, scenario: str) -> float:
    """Return how long LoadGen's clock ran, from its first query to its last answer."""
    if scenario == "offline":
        return float(log["result_max_latency_ns"]) / 1e9
    return float(log["result_query_count"]) / float(log["result_qps_with_loadgen_overhead"])


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What the answers of an accuracy run are worth."""

    right: int
    samples: int
    objections: tuple[str, ...]
    """Why the run does not count as one over the whole set."""

    @property
    def top1(self) -> float:
        """The share of right answers."""
        return self.right / self.samples if self.samples else 0.0


def accuracy(text: str, labels: NDArray[np.int64]) -> Accuracy:
    """Score `mlperf_log_accuracy.json`, whose data are little-endian int64 class numbers in hex.

    Raises RunnerFault `log_unreadable`.
    """
    try:
        answers = [
            (int(entry["qsl_idx"]), int.from_bytes(bytes.fromhex(entry["data"]), "little"))
            for entry in json.loads(text)
        ]
        right = sum(int(labels[index]) == answer for index, answer in answers)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise log_unreadable(f"{ACCURACY}: {error!r}") from error
    answered = {index for index, _ in answers}
    reasons = []
    if len(answered) != len(labels):
        reasons.append(f"accuracy run answered {len(answered)} of {len(labels)} samples")
    if len(answers) != len(answered):
        reasons.append(f"accuracy run answered {len(answers) - len(answered)} samples twice")
    return Accuracy(right, len(answers), tuple(reasons))


def read(folder: Path, name: str) -> str:
    """Return a log's text; raises RunnerFault `log_unreadable`."""
    try:
        return (folder / name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise log_unreadable(f"{folder / name}: {error}") from error
