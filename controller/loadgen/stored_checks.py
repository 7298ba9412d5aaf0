"""Each figure of a stored result of ours against LoadGen's logs of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from controller.contracts.audit import LATENCY, audit_of
from controller.contracts.manifests import QualityTarget
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.contracts.suite_rules import SuiteRules
from controller.loadgen import audit_pattern, logs
from controller.loadgen.audit_pattern import kept
from controller.loadgen.checks import Check, Verdict, equal, judged, unchecked, within
from controller.loadgen.own_latencies import FILE, read_latencies
from controller.loadgen.rule_checks import rule_checks
from controller.loadgen.run_logs import SCENARIOS, RunLogs

OWN: Final = "LoadGen's logs"
_SLACK: Final = 0.05
_DISPATCH_S: Final = 500e-6
"""By so much may LoadGen's percentile differ from that of the runner's own clock: it adds its
dispatch, which waits for Python's lock where other threads hold it."""


def stored_checks(result: StoredResult, run: RunLogs, folder: Path) -> Iterator[Check]:
    """Yield the checks of a result against its performance run, whose files are in `folder`."""
    log, scenario = run.detail.log, SCENARIOS[run.scenario]
    yield equal("scenario", result.scenario, scenario, OWN)
    yield from _metrics(result, log, scenario)
    yield from _facts(result, log, scenario)
    yield from _validity(result, log)
    yield from _own_clock(result, run, folder)


def _metrics(result: StoredResult, log: logs.DetailLog, scenario: str) -> Iterator[Check]:
    expected = {"duration": logs.duration_s(log, scenario)}
    if (rate := logs.throughput(log, scenario)) is not None:
        expected["throughput"] = rate
    if scenario != "offline":
        expected |= logs.latency_metrics(log, scenario)
    for name, value in expected.items():
        if (metric := result.metrics.get(name)) is None:
            yield judged(name, "nothing", value, OWN, same=False)
        else:
            yield equal(name, metric.value, value, OWN)
            if metric.samples:  # tables would rank by them
                yield judged(f"{name} samples", len(metric.samples), "none", OWN, same=False)
    known = {*expected, "latency", LATENCY}
    if more := sorted(set(result.metrics) - known):
        yield unchecked(", ".join(more), None, "LoadGen's logs do not have them")


def _facts(result: StoredResult, log: logs.DetailLog, scenario: str) -> Iterator[Check]:
    said: Mapping[str, object] = result.environment
    expected: dict[str, object] = {
        "loadgen": str(log["loadgen_version"]),
        **logs.asked(log, scenario),
        "ended_at_longest": logs.ended_at_longest(log),
    }
    for name, value in expected.items():
        if name in said:  # older results lack some
            yield equal(name, said[name], value, OWN)
    seeds = said.get("loadgen_seeds")
    if isinstance(seeds, list | tuple):
        yield equal("loadgen_seeds", ", ".join(map(str, seeds)), ", ".join(logs.seeds(log)), OWN)


def _validity(result: StoredResult, log: logs.DetailLog) -> Iterator[Check]:
    found = logs.objections(log)
    untold = [why for why in found if why not in result.reasons]
    by = f"{OWN}: {untold[0]}" if untold else OWN
    best = "at best INVALID" if found else "VALID, but for what LoadGen does not see"
    same = not untold and not (found and result.validity is not Validity.INVALID)
    yield judged("validity", result.validity, best, by, same=same)


def _own_clock(result: StoredResult, run: RunLogs, folder: Path) -> Iterator[Check]:
    if (audit := audit_of(result.knobs)) and LATENCY in result.metrics:
        times = kept(read_latencies(folder / audit_pattern.FILE) or (0,), audit)
        same = result.metrics[LATENCY].samples == tuple(float(ns) / 1e9 for ns in times)
        count, expected = (f"{len(n)} samples" for n in (result.metrics[LATENCY].samples, times))
        yield judged(LATENCY, count, expected, audit_pattern.FILE, same=same)
    own_ns = read_latencies(folder / FILE)
    if not own_ns:
        yield unchecked("latency", None, f"there is no {FILE}")
        return
    if run.scenario != "SingleStream":
        yield unchecked("latency", None, "only single_stream has one latency a query")
        return
    samples = tuple(float(ns) / 1e9 for ns in own_ns)
    if metric := result.metrics.get("latency"):
        yield equal("latency", metric.value, median(samples), FILE)
        if metric.samples:
            same = metric.samples == samples
            count, expected = f"{len(metric.samples)} samples", f"{len(samples)} samples"
            yield judged("latency samples", count, expected, FILE, same=same)
    yield equal("result_query_count", run.count("result_query_count"), len(samples), FILE)
    reached, key = sorted(samples)[int(len(samples) * 0.9)], "result_90.00_percentile_latency_ns"
    if (said := run.count(key)) is not None and audit_of(result.knobs):
        yield unchecked(key, said, "an audit prepares samples on LoadGen's clock")
    elif said is not None:
        low, high = (1e9 * (reached * (1 + sign * _SLACK) + sign * _DISPATCH_S) for sign in (-1, 1))
        yield within(key, said, round(low), round(high), f"{FILE}, by the runner's own clock")


def quality_check(result: StoredResult, target: QualityTarget | None) -> Check:
    """Return the check of a result's accuracy against the least that counts."""
    if target is None:
        return unchecked("accuracy", None, "there is no target for this cell")
    metric = result.metrics.get(target.metric)
    if metric is None:
        return unchecked(target.metric, None, "the result does not have it")
    met, least = metric.value >= target.value, f"at least {target.value:.6g}"
    if met or result.validity is not Validity.INVALID:
        return judged(target.metric, metric.value, least, "the target", same=met)
    return judged(target.metric, metric.value, least, "the target; it is INVALID", same=True)


def ruled_checks(
    result: StoredResult, run: RunLogs, rules: SuiteRules | None, task: str
) -> Iterator[Check]:
    """Yield the checks by a round's rules: what breaks one is right in a result that says so."""
    if rules is None:
        yield unchecked("run rules", None, "the cell goes by no round of MLPerf Mobile")
        return
    told = result.environment.get("meets_run_rules") is False
    for check in rule_checks(run, rules, task):
        if check.verdict is Verdict.DIFFERS and told and "seed" not in check.figure:
            by = f"{check.by}; the result says that it misses rules"
            yield check.model_copy(update={"verdict": Verdict.SAME, "by": by})
        else:
            yield check
