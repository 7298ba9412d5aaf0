"""LoadGen's effective settings against those that it was asked for (`requested_…`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.loadgen.checks import Check, equal, judged, within
from controller.loadgen.digits import half_digit
from controller.loadgen.releases import BOTH, EARLY_STOPPING, KNOWN_WHOLE, PERMUTATION
from controller.loadgen.run_logs import RunLogs

BY: Final = "the settings that were asked for"
_ALIKE: Final = tuple(name for name in (*BOTH, PERMUTATION) if name != "min_query_count")
"""Settings that take effect as they were asked for."""
_EXPECTED: Final = {
    "SingleStream": "single_stream_expected_latency_ns",
    "MultiStream": "multi_stream_expected_latency_ns",
    "Server": "server_target_qps",
    "Offline": "offline_expected_qps",
}
_PREFIX: Final = {"SingleStream": "single_stream", "MultiStream": "multi_stream"}
_COUNTS: Final = {
    "performance_sample_count": "qsl_reported_performance_count",
    "accuracy_sample_count": "qsl_reported_total_count",
}
_OF_OFFLINE: Final = 0.99
"""Its percentile, of which it makes no use."""
_SLACK: Final = 1.1
"""LoadGen makes so many more samples of offline than the least duration is expected to take."""
_SLACK_PERMUTED: Final = 2.0
"""… and queries of a single stream that permutes its samples."""


def setting_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of effective settings, and of the content that shows scenario and mode."""
    values = run.detail.values
    for name in _ALIKE:
        asked, taken = f"requested_{name}", f"effective_{name}"
        if asked in values and taken in values:
            yield equal(taken, values[taken], values[asked], BY)
    yield from _counts(run)
    yield from _targets(run)
    if run.kind.release >= KNOWN_WHOLE and not run.is_fixed_rate:
        yield from _of_scenario(run)
    yield from _shown_by_content(run)


def _counts(run: RunLogs) -> Iterator[Check]:
    asked, taken = run.count("requested_min_query_count"), run.count("effective_min_query_count")
    each, samples = (
        run.count(f"effective_{name}") for name in ("samples_per_query", "min_sample_count")
    )
    grown = run.said("effective_sample_concatenate_permutation") is True
    if asked is not None and taken is not None and not grown:
        least = 1 if run.scenario == "Offline" else _whole_sets(run, asked, taken)
        yield equal("effective_min_query_count", taken, least, BY)
    if each is not None and taken is not None and samples is not None:
        by = "effective_min_query_count times effective_samples_per_query"
        yield equal("effective_min_sample_count", samples, taken * each, by)
    for name, reported in _COUNTS.items():
        effective, total = run.count(f"effective_{name}"), run.count(reported)
        override = run.count(f"requested_{name}_override")
        if effective is not None and total is not None and override is not None:
            yield equal(f"effective_{name}", effective, override or total, BY)
    if each is not None:
        yield from _samples_per_query(run, each)


def _whole_sets(run: RunLogs, asked: int, taken: int) -> int:
    """Return the least queries: as taken, if they may be of a run that permutes its samples.

    Round v2.0 and later: such a single stream (3D-UNet) issues whole sets of samples, and one more
    if it was asked for whole ones. Only newer releases tell that it permutes them.
    """
    each, qps, duration_ms = (
        run.count("qsl_reported_performance_count"),
        run.number("effective_target_qps"),
        run.count("effective_min_duration_ms"),
    )
    told = f"effective_{PERMUTATION}" in run.detail.values
    if told or run.scenario != "SingleStream" or run.kind.release < EARLY_STOPPING:
        return asked
    if not each or qps is None or duration_ms is None or taken % each:
        return asked
    expected = int(_SLACK_PERMUTED * duration_ms / 1e3 * (qps + half_digit(qps)))
    return taken if asked < taken <= max(asked, expected) + each else asked


def _samples_per_query(run: RunLogs, each: int) -> Iterator[Check]:
    figure = "effective_samples_per_query"
    if run.scenario == "MultiStream":
        asked = run.count("requested_multi_stream_samples_per_query")
        if asked is not None:
            yield equal(figure, each, asked, BY)
    elif run.scenario != "Offline":
        yield equal(figure, each, 1, f"scenario {run.scenario}")
    else:
        least, qps = run.count("requested_min_query_count"), run.number("effective_target_qps")
        unique = run.said("effective_performance_issue_unique") is True
        duration_ms = run.count("effective_min_duration_ms")
        if least is not None and qps is not None and duration_ms is not None and not unique:
            made = _SLACK * duration_ms / 1e3
            low, high = (made * (qps + sign * half_digit(qps)) for sign in (-1, 1))
            yield within(figure, each, max(least, int(low) - 1), max(least, int(high) + 1), BY)


def _targets(run: RunLogs) -> Iterator[Check]:
    expected = run.number(f"requested_{_EXPECTED[run.scenario]}")
    taken = run.number("effective_target_qps")
    if expected and taken is not None:
        qps = 1e9 / expected if run.scenario in _PREFIX else expected
        half = half_digit(qps) * 2
        yield within("effective_target_qps", taken, qps - half, qps + half, BY)
    values, prefix = run.detail.values, _PREFIX.get(run.scenario, "server")
    for name, asked in (
        ("target_latency_percentile", f"requested_{prefix}_target_latency_percentile"),
        ("target_latency_ns", "requested_server_target_latency_ns"),
    ):
        if asked in values and f"effective_{name}" in values:
            yield equal(f"effective_{name}", values[f"effective_{name}"], values[asked], BY)


def _of_scenario(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of settings that follow from the scenario, from LoadGen 1.1 on."""
    is_server, is_offline = run.scenario == "Server", run.scenario == "Offline"
    expected = {
        "target_duration_ms": 0 if is_offline else run.said("effective_min_duration_ms"),
        "max_async_queries": run.said("requested_server_max_async_queries") if is_server else 1,
        "target_latency_ns": None if is_server else 0,
        "target_latency_percentile": _OF_OFFLINE if is_offline else None,
    }
    for name, value in expected.items():
        taken = run.said(f"effective_{name}")
        if taken is not None and value is not None:
            yield equal(f"effective_{name}", taken, value, f"scenario {run.scenario}, and {BY}")


_SHOWS: Final = {
    "result_qps_with_loadgen_overhead": "SingleStream",
    "result_samples_per_second": "Offline",
    "result_scheduled_samples_per_sec": "Server",
    "result_mean_query_latency_ns": "MultiStream",
}
"""Result → the only scenario that has it."""


def _shown_by_content(run: RunLogs) -> Iterator[Check]:
    shown = [scenario for key, scenario in _SHOWS.items() if run.said(key) is not None]
    if shown:
        same = shown == [run.scenario]
        by = "the results that are there"
        yield judged("effective_scenario", run.scenario, ", ".join(shown), by, same=same)
    mode = str(run.detail.values["effective_test_mode"])
    started = [text for text in run.detail.messages if text.startswith("Starting ")]
    for text in started[:1]:
        begun = {
            "Starting performance mode": "PerformanceOnly",
            "Starting accuracy mode": "AccuracyOnly",
        }.get(text, text)
        yield equal("effective_test_mode", mode, begun, "what LoadGen says it started")
