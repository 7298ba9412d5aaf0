"""What each release of LoadGen writes to every detail log of JSON entries. Pure.

Read off LoadGen's sources (test_settings_internal.cc, loadgen.cc, results.cc), and held against
published logs: single_stream of 1.1 and 4.0; multi_stream of 2.0; server of 4.0, 5.0 and 5.1;
offline of 1.1, 2.1, 3.0, 3.1, 4.0 and 6.0. Of releases before 1.1 nothing is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

Release = tuple[int, int]
"""Major and minor number."""
KNOWN_WHOLE: Final[Release] = (1, 1)
"""The first release whose entries are known as a whole."""
EARLY_STOPPING: Final[Release] = (2, 0)
"""The first release whose verdict depends on early stopping."""
TOKENS: Final[Release] = (4, 0)
"""The first release that can count tokens."""
TOKENS_APART: Final[Release] = (4, 1)
"""The first release known to say otherwise how a run that counts tokens may stop early."""
_DETAILED: Final[Release] = (2, 1)
"""The first release whose results are known as a whole, in every scenario."""
_COUNTS_ERRORS: Final[Release] = (5, 1)
_PERMUTES: Final[Release] = (6, 0)
BOTH: Final = (
    "scenario",
    "test_mode",
    "min_duration_ms",
    "max_duration_ms",
    "min_query_count",
    "max_query_count",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "print_timestamps",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
)
"""Settings that every release logs as they were asked for, and as they took effect."""
PERMUTATION: Final = "sample_concatenate_permutation"
PAIRS: Final = {
    **{f"effective_{name}": f"requested_{name}" for name in (*BOTH, PERMUTATION)},
    "effective_performance_sample_count": "requested_performance_sample_count_override",
    "effective_accuracy_sample_count": "requested_accuracy_sample_count_override",
}
"""Setting that took effect → what was asked for; no release writes one without the other."""
_HEAD: Final = (
    "test_datetime",
    "sut_name",
    "qsl_name",
    "qsl_reported_total_count",
    "qsl_reported_performance_count",
)
_EFFECTIVE: Final = (
    "samples_per_query",
    "target_qps",
    "target_latency_ns",
    "target_latency_percentile",
    "max_async_queries",
    "target_duration_ms",
    "min_sample_count",
)
_ASKED: Final = {
    "SingleStream": (
        "requested_single_stream_expected_latency_ns",
        "requested_single_stream_target_latency_percentile",
    ),
    "MultiStream": (
        "requested_multi_stream_expected_latency_ns",
        "requested_multi_stream_target_latency_percentile",
        "requested_multi_stream_samples_per_query",
    ),
    "Server": (
        "requested_server_target_qps",
        "requested_server_target_latency_ns",
        "requested_server_target_latency_percentile",
        "requested_server_coalesce_queries",
        "requested_server_find_peak_qps_decimals_of_precision",
        "requested_server_find_peak_qps_boundary_step_size",
        "requested_server_max_async_queries",
        "requested_server_num_issue_query_threads",
    ),
    "Offline": ("requested_offline_expected_qps",),
}
LOADED: Final = "loaded_qsl_set"
GENERATED: Final = (
    "generated_query_count",
    "generated_samples_per_query",
    "generated_query_duration",
)
POWER: Final = ("power_begin", "power_end")
SINCE: Final[dict[str, Release]] = {
    "early_stopping_latency_ss": KNOWN_WHOLE,
    "early_stopping_latency_ms": KNOWN_WHOLE,
    "get_sut_name_duration_ns": EARLY_STOPPING,
    "requested_use_token_latencies": TOKENS,
    "effective_accuracy_sample_count": TOKENS_APART,
    f"effective_{PERMUTATION}": TOKENS_APART,
    "num_errors": TOKENS_APART,
}
"""Entry → a release before which none writes it; the first one that does may be later."""
_PERCENTILES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_RATES: Final = {
    "SingleStream": ("result_qps_with_loadgen_overhead", "result_qps_without_loadgen_overhead"),
    "MultiStream": (),
    "Server": ("result_perf_constraints_met", "result_scheduled_samples_per_sec"),
    "Offline": ("result_samples_per_second",),
}
_OF_2_1: Final = {
    "SingleStream": ("early_stopping_latency_ss", "early_stopping_latency_ms"),
    "MultiStream": ("early_stopping_latency_ms",),
    "Server": ("result_overlatency_query_count",),
    "Offline": (),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides which entries a log has."""

    release: Release
    scenario: str
    """LoadGen's name."""
    mode: str
    """LoadGen's name of the test mode."""
    is_valid: bool = True
    """LoadGen gives a reason if not."""
    counts_tokens: bool = False


def release(said: object) -> Release:
    """Return the numbers of a release, such as `6.0.16 @ 2b5f63eb56` or `.5a1`; else (-1, 0)."""
    found = re.match(r"(\d{0,3})\.(\d{1,3})", said, re.ASCII) if isinstance(said, str) else None
    return (int(found[1] or 0), int(found[2])) if found else (-1, 0)


def always(kind: Kind) -> Iterator[str]:
    """Yield the keys of the entries that every log of this kind has."""
    if kind.release < KNOWN_WHOLE:
        return
    yield from _HEAD
    yield from _settings(kind)
    yield from (LOADED, *GENERATED, *POWER)
    if kind.mode == "PerformanceOnly" and not _is_fixed_rate(kind):
        yield from _results(kind)


def last(kind: Kind) -> str | None:
    """Return the key of the last entry that every log of this kind has; None: it is not known."""
    if kind.release < KNOWN_WHOLE or _is_fixed_rate(kind):
        return None
    if kind.mode != "PerformanceOnly":
        return "power_end"
    if kind.release >= _COUNTS_ERRORS:
        return "num_errors"
    return None if kind.counts_tokens else f"result_{_PERCENTILES[-1]}_percentile_latency_ns"


def _is_fixed_rate(kind: Kind) -> bool:
    return kind.scenario == "MultiStream" and kind.release < EARLY_STOPPING


def _settings(kind: Kind) -> Iterator[str]:
    for name in BOTH:
        yield from (f"requested_{name}", f"effective_{name}")
    yield from (f"effective_{name}" for name in _EFFECTIVE)
    yield from ("requested_performance_sample_count_override", "effective_performance_sample_count")
    if kind.release >= _DETAILED or kind.scenario in ("SingleStream", "Offline"):
        yield from _ASKED[kind.scenario]
    if kind.release >= _PERMUTES:
        yield from ("requested_accuracy_sample_count_override", "effective_accuracy_sample_count")
        yield from (f"requested_{PERMUTATION}", f"effective_{PERMUTATION}")


def _results(kind: Kind) -> Iterator[str]:
    yield from ("result_validity", "result_min_duration_met", "result_min_queries_met")
    yield from _RATES[kind.scenario]
    yield from _latencies("", "")
    if kind.release >= EARLY_STOPPING:
        yield "early_stopping_met"
    if kind.release >= _DETAILED:
        yield from _detailed(kind)
    if kind.release >= _COUNTS_ERRORS:
        yield "num_errors"


def _detailed(kind: Kind) -> Iterator[str]:
    yield "result_query_count"
    yield from _OF_2_1[kind.scenario]
    if kind.scenario == "MultiStream":
        yield from _latencies("_query", "_per_query")
    if kind.scenario == "Server" and kind.release >= TOKENS:
        yield "result_completed_samples_per_sec"
    if not kind.is_valid:
        yield "result_invalid_reason"
    if not kind.counts_tokens:
        yield "early_stopping_result"
    elif kind.release >= TOKENS_APART:
        yield from ("early_stopping_ttft_result", "early_stopping_tpot_result")


def _latencies(middle: str, per: str) -> Iterator[str]:
    yield from (f"result_{name}{middle}_latency_ns" for name in ("min", "max", "mean"))
    yield from (f"result_{share}_percentile{per}_latency_ns" for share in _PERCENTILES)
