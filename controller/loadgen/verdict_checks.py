"""LoadGen's verdict, worked out again: duration, queries, latency limit, early stopping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controller.loadgen.between import words
from controller.loadgen.checks import Check, equal, unchecked, within
from controller.loadgen.early_stopping import MOST_QUERIES, Estimate, estimate, queries_needed
from controller.loadgen.latency_checks import NO_RAW, printed
from controller.loadgen.logs import TRACE
from controller.loadgen.releases import EARLY_STOPPING
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.time_checks import count_is_waived, issued_s, query_count, sample_count

OF_MULTI_STREAM: Final = 0.99
"""Percentile that LoadGen also estimates from a run of single_stream."""
BY_RULE: Final = "LoadGen's formula"
_TOO_LITTLE: Final = "the logs lack what it depends on, or are too close to it"
_STOPPING: Final = "early_stopping_met"
_QUERIES: Final = "result_min_queries_met"
_PARTS: Final = {
    "result_min_duration_met": "effective_min_duration_ms and the time",
    _QUERIES: "the number of queries and samples",
    "result_perf_constraints_met": "effective_target_latency_ns and the percentile",
    _STOPPING: BY_RULE,
}


def verdict_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of the verdict, its parts, and what early stopping is based on."""
    parts = {
        "result_min_duration_met": _duration_met(run),
        _QUERIES: _queries_met(run),
        _STOPPING: _stopping_met(run),
    }
    if run.scenario == "Server":
        parts["result_perf_constraints_met"] = _fast_enough(run)
    for key, expected in parts.items():
        yield from _part(run, key, expected)
    yield from _validity(run, [(key, parts[key]) for key in parts])
    if not run.counts_tokens:
        yield from _overlatency(run)
        yield from _estimates(run)


def _part(run: RunLogs, key: str, expected: bool | None) -> Iterator[Check]:
    said = run.flag(key)
    if said is None:
        found = "not known" if expected is None else ("yes" if expected else "no")
        why = f"the logs do not have it; by {_PARTS[key]} it is: {found}"
        yield unchecked(key, None, why)
    elif expected is None:
        why = "it counts tokens" if run.counts_tokens else _TOO_LITTLE
        yield unchecked(key, said, why)
    else:
        yield equal(key, said, expected, _PARTS[key])


def _validity(run: RunLogs, parts: Sequence[tuple[str, bool | None]]) -> Iterator[Check]:
    """Yield the check of the verdict: what was recomputed, else what is printed."""
    stops_early = run.kind.release >= EARLY_STOPPING or run.flag(_STOPPING) is not None
    left_out = {
        *(() if stops_early else (_STOPPING,)),
        *((_QUERIES,) if count_is_waived(run) else ()),
    }
    judged = [(key, found) for key, found in parts if key not in left_out]
    met = [run.flag(key) if found is None else found for key, found in judged]
    known = [value for value in met if value is not None]
    if False not in known and len(known) < len(met):
        yield unchecked("result_validity", run.said("result_validity"), "a part is not known")
        return
    verdict = "INVALID" if False in known else "VALID"
    yield equal("result_validity", run.said("result_validity"), verdict, "its parts")


def _duration_met(run: RunLogs) -> bool | None:
    least_ms, time = run.count("effective_min_duration_ms"), issued_s(run)
    if least_ms == 0:
        return True
    if least_ms is None or time is None:
        return None
    low, high = time
    if low >= least_ms / 1e3:
        return True
    return False if high < least_ms / 1e3 else None


def _queries_met(run: RunLogs) -> bool | None:
    queries, samples = query_count(run), sample_count(run)
    least, least_samples = (
        run.count(f"effective_{name}") for name in ("min_query_count", "min_sample_count")
    )
    if queries is None or samples is None or least is None:
        return None
    return queries >= least and samples >= (least_samples or 0)


def _fast_enough(run: RunLogs) -> bool | None:
    share, target = run.number("effective_target_latency_percentile"), _target_ns(run)
    if share is None or target is None or not 0 < share < 1 or run.counts_tokens:
        return None
    if run.raw:
        return run.raw.samples[int(len(run.raw.samples) * share)] <= target
    reached = run.count(f"result_{share * 100:.2f}_percentile_latency_ns")
    return None if reached is None else reached <= target


def _target_ns(run: RunLogs) -> int | None:
    return run.count("effective_target_latency_ns")


def _slow(run: RunLogs) -> int | None:
    """Return how many queries of server were late."""
    target = _target_ns(run)
    if run.raw and target is not None:
        return sum(latency > target for latency in run.raw.samples)
    return run.count("result_overlatency_query_count")


def percentile_of(run: RunLogs) -> float:
    """Return the share of queries that a scenario's metric is about."""
    said = run.number("effective_target_latency_percentile")
    if said is not None and 0 < said < 1:
        return said
    return 0.9 if run.scenario == "SingleStream" else 0.99


def _stopping_met(run: RunLogs) -> bool | None:
    queries, share = query_count(run), percentile_of(run)
    if run.scenario == "Offline":
        return True
    if queries is None or queries > MOST_QUERIES or run.counts_tokens:
        return None
    if run.scenario != "Server":
        return estimate(queries, share).discarded is not None
    slow = _slow(run)
    return None if slow is None else queries >= queries_needed(min(slow, MOST_QUERIES), share)


def _overlatency(run: RunLogs) -> Iterator[Check]:
    key, target, queries = "result_overlatency_query_count", _target_ns(run), query_count(run)
    said = run.count(key)
    if run.scenario != "Server" or said is None or target is None or not queries:
        return
    if run.raw:
        yield equal(key, said, _slow(run), TRACE)
        return
    low, high = 0, queries
    for group in printed(run):
        for share, name in group.keys.items():
            if (reached := run.count(name)) is not None and reached > target:
                low = max(low, queries - int(queries * share))
            elif reached is not None:
                high = min(high, queries - int(queries * share) - 1)
    yield within(key, said, low, high, f"the percentiles; {NO_RAW}")


# --- what early stopping estimates ----------------------------------------------------------------


def _estimates(run: RunLogs) -> Iterator[Check]:
    said, queries = run.said("early_stopping_result"), query_count(run)
    if said is None or not queries or queries > MOST_QUERIES:
        return
    if run.scenario == "Offline":
        expected: str | None = ""  # its only query can't stop early
    elif run.scenario == "Server":
        expected = _server_text(run, queries)
    else:
        share = percentile_of(run)
        shares = {share: _key(run, first=True)}
        if run.scenario == "SingleStream":
            shares[OF_MULTI_STREAM] = _key(run, first=False)
        for of, key in shares.items():
            yield from _estimate(run, key, estimate(queries, of), queries)
        expected = _text(run, queries, shares)
    if expected is None:
        yield unchecked("early_stopping_result", said, "the log lacks an estimate")
    else:
        yield equal("early_stopping_result", words(str(said)), words(expected), BY_RULE)


def _key(run: RunLogs, *, first: bool) -> str:
    """Return the key of an estimate: `_ss` of single_stream's metric, `_ms` of multi_stream's."""
    return f"early_stopping_latency_{'ss' if first and run.scenario == 'SingleStream' else 'ms'}"


def _estimate(run: RunLogs, key: str, found: Estimate, queries: int) -> Iterator[Check]:
    said = run.count(key)
    if said is None:
        return
    if found.discarded is None:
        yield equal(key, said, 0, f"{BY_RULE}: too few queries")
        return
    place = queries - found.discarded - 1
    raw = run.raw and (run.raw.queries if run.scenario == "MultiStream" else run.raw.samples)
    if raw and len(raw) == queries:
        yield equal(key, said, raw[place], TRACE)
        return
    groups = printed(run)
    if not groups:
        yield unchecked(key, said, "the logs lack the latencies around it")
        return
    group = groups[-1]
    low, high = run.count(group.extreme("min")) or 0, run.count(group.extreme("max")) or 0
    for share, name in group.keys.items():
        reached = run.count(name)
        if reached is not None and int(queries * share) <= place:
            low = max(low, reached)
        elif reached is not None:
            high = min(high, reached)
    yield within(key, said, low, high, f"the percentiles around it; {NO_RAW}")


def _text(run: RunLogs, queries: int, shares: dict[float, str]) -> str | None:
    """Return LoadGen's text about an estimate; None if the log lacks a figure of it."""
    parts = []
    for number, (share, key) in enumerate(shares.items()):
        found, named = estimate(queries, share), f"{share * 100:.1f}th percentile"
        if found.discarded is None and number == 0:
            return (
                f"Only processed {queries} queries. Need to process at least {found.least} "
                "queries for early stopping."
            )
        if found.discarded is None:
            parts.append(
                f"Not enough queries processed for {named} early stopping estimate "
                f"(would need to process at least {found.least} total queries)."
            )
            continue
        if number == 0:
            parts.append(f"Processed at least {found.least} queries ({queries}).")
            parts.append(f"Would discard {found.discarded} highest latency queries.")
        value = run.count(key)
        if value is None:
            return None
        parts.append(f"Early stopping {named} estimate: {value}")
    return " ".join(parts)


def _server_text(run: RunLogs, queries: int) -> str | None:
    slow = _slow(run)
    if slow is None:
        return None
    more = queries_needed(min(slow, MOST_QUERIES), percentile_of(run)) - queries
    if more <= 0:
        return "Run successful."
    return (
        f"Run unsuccessful. Processed {queries} queries. Would need to run at least {more} more "
        "queries, with the run being successful if every additional query were under latency."
    )
