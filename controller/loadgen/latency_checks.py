"""Latencies and rates: from the raw queries if there is a trace, else from each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from controller.loadgen.checks import Check, equal, printed_equal, unchecked, within
from controller.loadgen.digits import half_of
from controller.loadgen.logs import TRACE
from controller.loadgen.run_logs import RunLogs

_KEY: Final = re.compile(r"result_(\d{1,2}\.\d{2})_percentile(_per_query)?_latency_ns")
AROUND: Final = "the latencies around it"
NO_RAW: Final = f"there is no {TRACE}"


@dataclass(frozen=True, slots=True)
class Latencies:
    """The printed latencies of samples, or of multi_stream's queries."""

    keys: Mapping[float, str]
    """Percentile as a share → key, ascending."""
    middle: str
    """`_query` in the keys of queries."""

    def extreme(self, name: str) -> str:
        """Return the key of `min`, `max` or `mean`."""
        return f"result_{name}{self.middle}_latency_ns"


def printed(run: RunLogs) -> list[Latencies]:
    """Return the groups of latencies that the logs have."""
    keys = {*run.detail.values, *(run.summary.values if run.summary else ())}
    matches = [match for key in keys if (match := _KEY.fullmatch(key))]
    groups = []
    for suffix, middle in ((None, ""), ("_per_query", "_query")):
        found = {float(m[1]) / 100: m[0] for m in matches if m[2] == suffix}
        if found and run.count(f"result_mean{middle}_latency_ns") is not None:
            groups.append(Latencies(dict(sorted(found.items())), middle))
    return groups


def latency_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of all latencies, and of the rate that follows from their mean."""
    for group in printed(run):
        raw = run.raw and (run.raw.queries if group.middle else run.raw.samples)
        yield from _from_raw(run, group, raw) if raw else _from_each_other(run, group)
    mean, key = run.count("result_mean_latency_ns"), "result_qps_without_loadgen_overhead"
    rate = run.number(key)
    if mean and rate is not None:
        by = "result_mean_latency_ns"
        if key in run.detail.values:
            yield printed_equal(key, rate, 1e9 / mean, by)
        else:
            half = half_of(run, key, rate) + 1e-9
            yield within(key, rate, 1e9 / mean - half, 1e9 / mean + half, by)


def _from_raw(run: RunLogs, group: Latencies, raw: Sequence[int]) -> Iterator[Check]:
    count = len(raw)
    exact = {group.extreme("min"): raw[0], group.extreme("max"): raw[-1]}
    exact[group.extreme("mean")] = sum(raw) // count
    exact |= {key: raw[int(count * share)] for share, key in group.keys.items()}
    for key, value in exact.items():
        if (said := run.count(key)) is not None:
            yield equal(key, said, value, TRACE)


def _from_each_other(run: RunLogs, group: Latencies) -> Iterator[Check]:
    keys = [group.extreme("min"), *group.keys.values(), group.extreme("max")]
    values = [run.count(key) for key in keys]
    for place, (key, value) in enumerate(zip(keys, values, strict=True)):
        low = next((v for v in reversed(values[:place]) if v is not None), 0)
        high = next((v for v in values[place + 1 :] if v is not None), value)
        if value is not None and high is not None:
            yield within(key, value, low, high, AROUND)
    known = [value for value in values if value is not None]
    mean = run.count(group.extreme("mean"))
    if mean is not None and len(known) == len(values):
        shares = [0.0, *group.keys, 1.0]
        steps = [b - a for a, b in pairwise(shares)]
        least = sum(step * v for step, v in zip(steps, known[:-1], strict=True))
        most = sum(step * v for step, v in zip(steps, known[1:], strict=True))
        slack = (known[-1] - known[0]) / max(1, _count(run, group)) * len(steps) + 1
        yield within(group.extreme("mean"), mean, least - slack, most + slack, AROUND)
    yield unchecked(f"{keys[0]} … {keys[-1]}", None, f"to the last digit: {NO_RAW}")


def _count(run: RunLogs, group: Latencies) -> int:
    """Return of how many latencies a group is; 1 if the logs don't say."""
    queries = run.count("result_query_count") or 1
    each = run.count("effective_samples_per_query") or 1
    return queries if group.middle else queries * each
