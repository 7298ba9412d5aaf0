"""Counts, rates and times of a test against each other and against LoadGen's clock times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from controller.loadgen.checks import Check, equal, judged, unchecked, within
from controller.loadgen.digits import ROUNDING, bounds, half_digit
from controller.loadgen.logs import TRACE, waives_queries
from controller.loadgen.releases import PERMUTATION
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.texts import number
from controller.loadgen.trace import RawQueries

CLOCK_S: Final = 0.003
"""LoadGen prints power_begin and power_end to milliseconds."""
_TEST_BEGAN_S: Final = 0.1
"""Between the start of LoadGen's test and that of its first query, at most."""
_OF_TEST: Final = 0.01
_STARTED_S: Final = 0.001
"""So much of a test may pass before its first query, and so many seconds more."""
CLOCKS_APART: Final = 0.01
"""The two clocks may differ by 1 %; beyond, LoadGen logs an error."""
_LOGGED_S: Final = 60.0
"""From the last completion to its log entry, at most."""
_OPENED_S: Final = 60.0
"""From the test's date to the start of its clock, at most: LoadGen opens its files in between.

A published run took 3 s for it.
"""
_ZONE: Final = timedelta(minutes=15)
_WIDEST: Final = timedelta(hours=14)


def time_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of counts, rates and times."""
    yield from _query_count(run)
    if run.scenario == "Offline":
        yield from _offline(run)
    else:
        yield from _rates(run)
    yield from _clock_times(run)


def query_count(run: RunLogs) -> int | None:
    """Return the number of queries: of the log, or of the trace if the log lacks it."""
    said = run.count("result_query_count")
    return said if said is not None else (len(run.raw.queries) if run.raw else None)


def sample_count(run: RunLogs) -> int | None:
    """Return the number of samples of all queries; None if the logs don't say."""
    if run.raw:
        return len(run.raw.samples)
    queries = query_count(run)
    each = run.count("generated_samples_per_query") or run.count("effective_samples_per_query")
    if run.said(f"effective_{PERMUTATION}") is True and each is not None:
        each = _in_whole_sets(run, each)
    return None if queries is None or each is None else queries * each


def _in_whole_sets(run: RunLogs, samples: int) -> int:
    """Return the samples of an offline run that permutes them: it has each as often.

    Before 5.0, the log has the number that was asked for.
    """
    total = run.count("qsl_reported_total_count") or 1
    of_set = min(run.count("effective_performance_sample_count") or total, total)
    offline = run.scenario == "Offline" and run.is_performance
    return math.ceil(samples / of_set) * of_set if offline else samples


def _of_offline(run: RunLogs, samples: int, found: float) -> int:
    """Return the samples, or whole sets of them if the log can't tell and they are nearer."""
    untold = f"effective_{PERMUTATION}" not in run.detail.values
    if run.raw or not untold:
        return samples
    return min(samples, _in_whole_sets(run, samples), key=lambda count: abs(count - found))


def _query_count(run: RunLogs) -> Iterator[Check]:
    said, generated = run.count("result_query_count"), run.count("generated_query_count")
    if said is None:
        yield unchecked("result_query_count", None, "the logs do not have it")
        return
    if run.raw:
        yield equal("result_query_count", said, len(run.raw.queries), TRACE)
    elif run.scenario == "Offline":
        yield equal("result_query_count", said, 1, "scenario Offline")
    if generated is not None:
        yield within("generated_query_count", generated, said, float("inf"), "result_query_count")


def _offline(run: RunLogs) -> Iterator[Check]:
    key, samples, longest = (
        "result_samples_per_second",
        sample_count(run),
        run.count("result_max_latency_ns"),
    )
    rate = run.number(key)
    if rate is None or not samples or not longest:
        yield unchecked(key, rate, "the logs do not have the number of samples")
        return
    exact = _of_offline(run, samples, rate * longest / 1e9) / (longest / 1e9)
    half = half_digit(exact) + exact * ROUNDING
    yield within(key, rate, exact - half, exact + half, "samples and result_max_latency_ns")


def _span(run: RunLogs, key: str) -> tuple[float, float] | None:
    """Return from when to when, in seconds, a rate's last query was; the first was at 0."""
    rate, queries = bounds(run, key), query_count(run)
    if rate is None or queries is None or queries < 2 or rate[0] <= 0:
        return None
    return (queries - 1) / rate[1], (queries - 1) / rate[0]


def began_s(raw: RawQueries, lasted_s: float) -> float:
    """Return how long before the first query the test can have begun.

    The trace begins before the test, so that it is no longer than to the trace's first query.
    """
    return min(raw.first_started / 1e9, _TEST_BEGAN_S, lasted_s * _OF_TEST + _STARTED_S)


def issued_s(run: RunLogs) -> tuple[float, float] | None:
    """Return between what the time lies that LoadGen compares with the minimum duration.

    It is when the last query was issued; of server, when it was due; of offline, the longest
    latency. None if the logs don't say.
    """
    if run.scenario == "Offline":
        longest = run.count("result_max_latency_ns")
        return None if longest is None else (longest / 1e9, longest / 1e9)
    if run.scenario == "Server":
        return _span(run, "result_scheduled_samples_per_sec")
    if run.scenario == "SingleStream":
        return _span(run, "result_qps_with_loadgen_overhead")
    if run.raw:
        issued = run.raw.last_issued / 1e9
        return issued, issued + began_s(run.raw, issued)
    clock, last = clock_s(run), _extremes_s(run)
    if clock is None or last is None:
        return None
    return clock - CLOCK_S - last[1], clock + CLOCK_S - last[0]


def count_is_waived(run: RunLogs) -> bool:
    """Return whether LoadGen asked for no number of queries, and the run lasted long enough."""
    longest_ms, time = run.count("effective_max_duration_ms"), issued_s(run)
    if not longest_ms or time is None or not waives_queries(run.detail.log):
        return False
    return time[1] >= longest_ms / 1e3


def _extremes_s(run: RunLogs) -> tuple[float, float] | None:
    middle = "_query" if run.scenario == "MultiStream" else ""
    low, high = (run.count(f"result_{name}{middle}_latency_ns") for name in ("min", "max"))
    return None if low is None or high is None else (low / 1e9, high / 1e9)


def _rates(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of rates: of when the last query was issued, due, or done."""
    raw = run.raw
    for key, exact_ns in (
        ("result_qps_with_loadgen_overhead", raw and raw.last_issued),
        ("result_scheduled_samples_per_sec", raw and raw.last_scheduled),
        ("result_completed_samples_per_sec", raw and raw.last_done),
    ):
        span = _span(run, key)
        if span is None or (key.endswith("overhead") and run.scenario != "SingleStream"):
            continue
        says, queries = run.number(key) or 0.0, query_count(run) or 0
        if exact_ns:
            at_most = (queries - 1) / (exact_ns / 1e9)
            began = began_s(run.raw, exact_ns / 1e9) if run.raw else 0.0
            least = (queries - 1) / (exact_ns / 1e9 + began)
            half = half_digit(at_most)
            yield within(key, says, least - half, at_most + half, TRACE)
        elif busy := _busy_s(run, queries):
            # The queries before the last one came one after the other.
            most = (queries - 1) / busy if busy > 0 else float("inf")
            by = "result_query_count and the latencies"
            yield within(key, says, 0, most * (1 + ROUNDING) + half_digit(most), by)


def _busy_s(run: RunLogs, queries: int) -> float | None:
    """Return how long single_stream's queries took without the last one, at least."""
    mean, extremes = run.count("result_mean_latency_ns"), _extremes_s(run)
    if run.scenario != "SingleStream" or mean is None or extremes is None:
        return None
    return queries * mean / 1e9 - extremes[1]


# --- clock times ----------------------------------------------------------------------------------


def clock_s(run: RunLogs) -> float | None:
    """Return the seconds from power_begin to power_end, by the system's clock."""
    begun, ended = (moment(run.said(f"power_{name}")) for name in ("begin", "end"))
    return None if begun is None or ended is None else (ended - begun).total_seconds()


def moment(said: object) -> datetime | None:
    """Return a clock time as LoadGen prints it; None if it is none."""
    if not str(said).isascii():
        return None  # strptime takes any digits
    for form in ("%m-%d-%Y %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%SZ"):
        try:
            return datetime.strptime(str(said), form)
        except ValueError:
            continue
    return None


def _clock_times(run: RunLogs) -> Iterator[Check]:
    clock, figure = clock_s(run), "power_begin to power_end (s)"
    if clock is None:
        why = "the logs lack one of these times, or it is no time"
        yield unchecked(figure, None, why)
        return
    lasted = _lasted_s(run)
    if lasted is None:
        yield unchecked(figure, clock, "the logs do not say how long the queries took")
    else:
        low, high = lasted
        slack = CLOCK_S + high * CLOCKS_APART
        by = TRACE if run.raw else "the counts, rates and latencies"
        yield within(figure, clock, max(0.0, low - slack), high + slack, by)
    yield from _start(run)


def _lasted_s(run: RunLogs) -> tuple[float, float] | None:
    """Return between what the time from the first query to the last answer lies."""
    if run.raw:
        done = max(run.raw.last_done, run.raw.queries[-1]) / 1e9
        return done, done + _TEST_BEGAN_S
    extremes = _extremes_s(run)
    if extremes is None:
        return None
    if run.scenario == "Offline":
        return extremes[1], extremes[1]
    if run.scenario == "MultiStream":
        queries, mean = query_count(run), run.count("result_mean_query_latency_ns")
        return None if queries is None or mean is None else (queries * mean / 1e9, float("inf"))
    if run.scenario == "Server":
        span = _span(run, "result_completed_samples_per_sec")
        return None if span is None else (span[0], span[1] + extremes[1])
    issued = issued_s(run)
    return None if issued is None else (issued[0] + extremes[0], issued[1] + extremes[1])


def _start(run: RunLogs) -> Iterator[Check]:
    """Yield the check of the test's date: its local time, up to a time zone."""
    said = run.said("test_datetime")
    began, ended = moment(said), moment(run.said("power_end"))
    logged_ms = number(run.detail.time_ms("power_end"))
    if said is None:
        return
    if began is None or ended is None or logged_ms is None:
        yield unchecked("test_datetime", said, "the log lacks the other times")
        return
    later = ended - timedelta(milliseconds=logged_ms) - began
    zone = round(later / _ZONE) * _ZONE
    apart = (later - zone).total_seconds()
    same = abs(zone) <= _WIDEST and -_LOGGED_S <= apart <= _OPENED_S
    by = "power_end and when it was logged, in some time zone"
    expected = ended - timedelta(milliseconds=logged_ms)
    shown = f"{expected:%Y-%m-%dT%H:%M:%S} UTC"
    yield judged("test_datetime", said, shown, by, same=same)
