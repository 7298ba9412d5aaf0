"""The samples that LoadGen loaded and the queries that it made of them, for each part of a run.

A timed run has one part, an accuracy run as many as it takes to load all samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from controller.loadgen.checks import Check, equal, judged, within
from controller.loadgen.digits import bounds
from controller.loadgen.logs import DETAIL, LogUnreadable
from controller.loadgen.releases import GENERATED, KNOWN_WHOLE, LOADED, PERMUTATION, POWER
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.texts import brief, number

_COUNT, _EACH, _DURATION = GENERATED
_PERIODS: Final = {
    "SingleStream": "requested_single_stream_expected_latency_ns",
    "MultiStream": "requested_multi_stream_expected_latency_ns",
}
_ROUNDING: Final = 1e-5
"""Relative: settings are printed with six digits."""
_ODD: Final = ("performance_issue_unique", "performance_issue_same", PERMUTATION)
"""Settings of audits, with which samples and queries are chosen otherwise."""


def part_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of loaded samples and generated queries; raises LogUnreadable."""
    mode = run.detail.values["effective_test_mode"]
    sets = run.detail.every.get(LOADED, ())
    whole = run.detail.has_results and run.kind.release >= KNOWN_WHOLE
    if not whole or run.is_fixed_rate or mode not in ("PerformanceOnly", "AccuracyOnly"):
        return
    for key in (*GENERATED, *POWER):
        found = len(run.detail.every.get(key, ()))
        if sets and found and found != len(sets):
            yield judged(key, f"{found} entries", f"{len(sets)} entries", LOADED, same=False)
    if any(run.said(f"effective_{name}") is True for name in _ODD) or _draws_all(run):
        return
    loaded = [_samples(each) for each in sets]
    yield from _loaded(run, loaded)
    yield from _generated(run, [*map(len, loaded)])
    yield from _durations(run)


def _draws_all(run: RunLogs) -> bool:
    """Return whether a timed run was told no number of samples, as those of 3D-UNet.

    LoadGen loads all, then, and makes more queries than were asked for: each sample as often.
    """
    return run.is_performance and run.count("effective_performance_sample_count") == 0


def _samples(said: object) -> list[int]:
    if isinstance(said, list) and all(type(each) is int and each >= 0 for each in said):
        return said
    raise LogUnreadable(f"{DETAIL}: {LOADED} is {brief(said)!r}, no list of samples")


def _wanted(run: RunLogs) -> int | None:
    """Return how many samples a run draws from, or answers; None if the log doesn't say."""
    total = run.count("qsl_reported_total_count")
    if not run.is_performance:
        return run.count("effective_accuracy_sample_count") or total
    drawn = run.count("effective_performance_sample_count")
    return None if total is None or drawn is None else min(drawn, total)


def _loaded(run: RunLogs, sets: Sequence[Sequence[int]]) -> Iterator[Check]:
    wanted, total = _wanted(run), run.count("qsl_reported_total_count")
    if wanted is None or total is None or not sets:
        return
    distinct = {sample for samples in sets for sample in samples}
    by = "the settings and the size of the data set"
    yield equal(LOADED, len(distinct), wanted, f"its distinct samples: {by}")
    padding = run.count("effective_samples_per_query") if run.scenario == "MultiStream" else 1
    most = wanted + len(sets) * ((padding or 1) - 1)
    count = sum(map(len, sets))
    yield within(f"{LOADED}, all", count, wanted, most, f"its samples, repeated ones too: {by}")
    greatest = max(distinct, default=0)
    yield within(f"{LOADED}, greatest", greatest, 0, total - 1, "qsl_reported_total_count")


def _numbers(run: RunLogs, key: str) -> list[float] | None:
    """Return the values of all parts; None if one is no number."""
    found = [number(value) for value in run.detail.every.get(key, ())]
    return None if None in found else [value for value in found if value is not None]


def _generated(run: RunLogs, sizes: Sequence[int]) -> Iterator[Check]:
    """Yield the checks of the queries that were made of each part; sizes: its loaded samples."""
    counts, each = _numbers(run, _COUNT), _numbers(run, _EACH)
    asked = run.count("effective_samples_per_query")
    if not counts or not each or len(counts) != len(each) or asked is None:
        return
    if run.is_performance:
        yield equal(_EACH, each[-1], asked, "effective_samples_per_query")
        return
    if len(sizes) != len(counts):
        return
    # Offline's query has all samples of a part; older releases print the most it may have.
    parts = [*zip(counts, each, sizes, strict=True)]
    allowed = [{asked, size} if run.scenario == "Offline" else {asked} for size in sizes]
    odd = (n for n, (_, of, _) in enumerate(parts) if of not in allowed[n] or of <= 0)
    if (part := next(odd, None)) is not None:
        yield equal(_EACH, each[part], asked, f"effective_samples_per_query, of {LOADED} {part}")
        return
    whole = math.floor if run.scenario == "MultiStream" else math.ceil  # its parts are padded
    wrong = (n for n, (count, of, size) in enumerate(parts) if count != whole(size / of))
    part = next(wrong, len(parts) - 1)
    count, of, size = parts[part]
    yield equal(_COUNT, count, whole(size / of), f"every sample of {LOADED} {part} once")


def _durations(run: RunLogs) -> Iterator[Check]:
    """Yield the check of how long the generated queries were expected to take."""
    counts, durations = _numbers(run, _COUNT), _numbers(run, _DURATION)
    if not counts or not durations or len(counts) != len(durations):
        return
    if run.scenario == "Server":
        yield from _scheduled(run, durations[-1])
        return
    period = _period_ns(run)
    if period is None:
        return
    expected = [count * period for count in counts]
    found = [*zip(counts, durations, expected, strict=True)]
    slack = [count + of * _ROUNDING for count, _, of in found]
    odd = (n for n, (_, said, of) in enumerate(found) if abs(said - of) > slack[n])
    part = next(odd, len(found) - 1)
    _, said, of = found[part]
    by = f"{_COUNT} and the expected time of a query"
    yield within(_DURATION, said, of - slack[part], of + slack[part], by)


def _period_ns(run: RunLogs) -> float | None:
    if run.scenario in _PERIODS:
        return run.number(_PERIODS[run.scenario])
    qps = run.number("effective_target_qps")
    return 1e9 / qps if qps else None


def _scheduled(run: RunLogs, duration: float) -> Iterator[Check]:
    """Yield the check that the queries of server that were issued had been made."""
    rate, queries = bounds(run, "result_scheduled_samples_per_sec"), run.count("result_query_count")
    if rate is None or not queries or rate[1] <= 0 or not run.is_performance:
        return
    least = (queries - 1) / rate[1] * 1e9
    yield within(_DURATION, duration, least, float("inf"), "the rate at which queries were due")
