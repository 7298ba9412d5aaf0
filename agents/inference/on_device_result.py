"""The results of runs on a device: metrics from their files, and the device's sampled
conditions."""

from __future__ import annotations

import math
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import TypeAdapter

from agents.energy.readings import readings_of
from agents.energy.sampled import energy_of
from agents.energy.trace import Span
from agents.host.cpu_watch import CpuTimes
from agents.host.disturbance import judged
from agents.inference.quality import invalid
from agents.inference.run_rules import rules_missed
from agents.inference.runner import host_use
from agents.inference.runner.sampler import FILE
from agents.inference.runner.spec import AT_ONCE
from agents.inference.throttling import charging_began, findings, summary
from controller.contracts.audit import LATENCY, audit_of
from controller.contracts.documents import read_json
from controller.contracts.policy import Policy, load_policy
from controller.contracts.result import Environment, Measurement, Result, worst
from controller.contracts.suite_rules import SUITE_RULES
from controller.contracts.suite_version import TARGET_UNKNOWN, rules_of, target_unknown
from controller.contracts.units import Unit
from controller.contracts.unreadable import UNREADABLE
from controller.contracts.wire import Job, OnDeviceProgram, WorkerSpec
from controller.loadgen.audit_pattern import FILE as AUDIT_FILE
from controller.loadgen.audit_pattern import kept
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.own_latencies import FILE as LATENCIES
from controller.loadgen.own_latencies import read_latencies
from controller.stats.prediction import predictions

LATENCIES_BYTES: Final = 128 << 20
"""Largest file of latencies that is read: 16 million samples, 28,000 a second for ten minutes."""
SAMPLED_BYTES: Final = 32 << 20
"""Largest file of sampled conditions that is read: an hour on a host of 256 cores."""
PERFORMANCE: Final = frozenset(
    {
        *("duration", "throughput", "peak_memory"),
        *(f"latency_{of}" for of in ("p50", "p90", "p99", "mean", "min", "max")),
        *("early_stopping_p90", "early_stopping_p99"),
    }
)
"""The metrics that a runner tells of a performance run; all others come from its files."""
ACCURACY: Final = frozenset({"peak_memory"})
"""Those that it tells of an accuracy run, which this host scores."""
_CPU_TIMES = TypeAdapter(CpuTimes)


def merged(results: list[Result], facts: Environment) -> Result:
    """Merge the results of a submission's runs: all metrics, all reasons.

    facts: those that all runs share.
    """
    first = results[0]
    reasons = tuple(dict.fromkeys(reason for result in results for reason in result.reasons))
    return Result(
        validity=worst(result.validity for result in results),
        reasons=reasons,
        # The performance run is the first; its peak memory is reported.
        metrics={n: m for result in reversed(results) for n, m in result.metrics.items()},
        environment={**first.environment, **facts},
        artefacts={n: path for result in results for n, path in result.artefacts.items()},
    )


def fewer_held(result: Result) -> str | None:
    """Return what to log if the device's memory held fewer samples than the task wants."""
    said = result.environment
    held, wanted = said.get("performance_samples"), said.get("samples_wanted")
    if not isinstance(held, int) or not isinstance(wanted, int) or held >= wanted:
        return None
    free, each = said.get("memory_before_samples_bytes"), said.get("sample_bytes")
    return f"memory holds {held} of {wanted} samples: {each} bytes each, {free} bytes available"


def begun(result: Result, ready_s: float) -> Result:
    """Record the time from the run's start to the first query: pushes, checks, warm-up.

    ready_s: until the runner was ordered to start; the delay of that order is not included.
    """
    runner_s = result.environment.get("runner_to_first_query_s")
    if not isinstance(runner_s, int | float):
        return result
    facts = {"start_to_first_query_s": ready_s + runner_s}
    return result.model_copy(update={"environment": {**result.environment, **facts}})


def with_facts(
    result: Result, missed: tuple[str, ...], by: Mapping[str, str] = MappingProxyType({})
) -> Result:
    """Record whether a result meets the suite's run rules, and if not, why.

    by: facts that say which rules these are.
    """
    facts = {**by, "meets_run_rules": not missed, "run_rules_missed": missed}
    return result.model_copy(update={"environment": {**result.environment, **facts}})


def with_run_rules(spec: WorkerSpec, result: Result) -> Result:
    """Judge a result of a device's own runtime by the suite's run rules; again as more is known."""
    job, program = spec.job, spec.job.program
    if not isinstance(program, OnDeviceProgram):
        return result
    rules = rules_of(job.workload, job.knobs)
    by = {SUITE_RULES: rules.claim} if rules else {}
    if why := target_unknown(job.workload, job.knobs):
        by[TARGET_UNKNOWN] = why
    return with_facts(result, rules_missed(job, program, spec.device, result), by)


def with_files(result: Result, job: Job, mode: str, folder: Path) -> Result:
    """Add the pulled files as artefacts, and the raw latencies as samples.

    Raises LogUnreadable if a file is none that the runner writes, or doesn't fit its result, or if
    that has a metric that no runner tells: a device's own word is not its accuracy.
    """
    told = PERFORMANCE if mode == "performance" else ACCURACY
    if strange := sorted(result.metrics.keys() - told):
        which = f"{strange[0][:80]!a} in mode {mode}"
        raise LogUnreadable(f"the runner's result: a metric {which}, which no runner tells")
    if repeated := sorted(name for name, metric in result.metrics.items() if metric.samples):
        raise LogUnreadable(f"the runner's result: samples of {repeated[0]}, which has one value")
    artefacts = {f"{mode}_{n}": str(folder / Path(p).name) for n, p in result.artefacts.items()}
    metrics = dict(result.metrics)
    if mode == "performance":
        if audit_of(job.knobs):
            metrics[LATENCY] = audited(folder / AUDIT_FILE, str(audit_of(job.knobs)))
        latencies = times_of(folder / LATENCIES)
        if not latencies:
            raise LogUnreadable(f"{LATENCIES}: no latency")
        if len(latencies) != (count := result.environment.get("samples")):
            raise LogUnreadable(f"{LATENCIES}: {len(latencies)} latencies for {count} samples")
        if job.scenario == "single_stream":
            metrics["latency"] = Measurement.of_samples(latencies, Unit.SECONDS)
        if job.scenario == "offline":
            size = result.environment.get(AT_ONCE, 1)
            latencies = of_full_batches(latencies, max(1, size if isinstance(size, int) else 1))
        if job.knobs["length"] != "normal":
            metrics |= predictions(job.scenario, latencies)
        policy = load_policy(str(job.knobs["policy"]))
        result = sampled(result, policy, latencies, folder, queries_of(result, job))
        metrics |= result.metrics
    return result.model_copy(update={"artefacts": artefacts, "metrics": metrics})


def audited(path: Path, audit: str) -> Measurement:
    """Return the times that an audit judges, in its order; 0 without a full batch.

    Raises LogUnreadable.
    """
    times = kept(times_of(path), audit)
    return Measurement.of_samples(tuple(times or (0.0,)), Unit.SECONDS)


def times_of(path: Path) -> tuple[float, ...]:
    """Return a file of the runner's times in seconds, all above 0; raises LogUnreadable."""
    _require_size(path, LATENCIES_BYTES)
    told = read_latencies(path) or ()
    if told and (least := min(told)) <= 0:
        raise LogUnreadable(f"{path.name}: a time of {least} ns")
    return tuple(float(ns) / 1e9 for ns in told)


def _require_size(path: Path, most: int) -> None:
    """Raise LogUnreadable for what is no file, missing or larger than this, in bytes."""
    try:
        found = path.stat()
    except OSError as error:
        raise LogUnreadable(f"{path.name}: {error.strerror or error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise LogUnreadable(f"{path.name}: not a regular file")
    if found.st_size > most:
        raise LogUnreadable(f"{path.name}: {found.st_size} bytes, more than the limit of {most}")


def of_full_batches(latencies_s: tuple[float, ...], size: int) -> tuple[float, ...]:
    """Return one latency a batch, since those of a batch are one measurement.

    A smaller last batch is left out: it may be slower with nothing throttled.
    """
    return latencies_s[: len(latencies_s) // size * size : size]


def sampled(
    result: Result, policy: Policy, latencies_s: Sequence[float], folder: Path, queries: int
) -> Result:
    """Add the device's sampled conditions; make the result INVALID if its policy forbids any.

    Raises LogUnreadable.
    """
    path, started = folder / FILE, result.environment.get("started_at_uptime_s")
    if not path.exists() or not isinstance(started, int | float):
        return result
    _require_size(path, SAMPLED_BYTES)
    readings = readings_of(path.read_text(errors="replace"), started)
    duration_s = _duration_s(result)
    rest = rest_of(result.environment, started)
    energy = energy_of(readings, Span(0.0, duration_s), rest, queries)
    from_s = rest.ended_s if rest else -math.inf
    rested = [reading for reading in readings if reading.at_s <= from_s]
    readings = [reading for reading in readings if reading.at_s > from_s]
    found = charging_began(readings, policy)
    if policy.throttled:
        found += findings(readings, latencies_s, duration_s, policy.throttled, rested=rested)
    metrics = {**result.metrics, **energy.metrics}
    environment = {**result.environment, **summary(readings, duration_s), **energy.facts}
    result = result.model_copy(update={"metrics": metrics, "environment": environment})
    for finding in found:
        result = invalid(result, f"policy {policy.name}: {finding}")
    return result


def _duration_s(result: Result) -> float:
    duration = result.metrics.get("duration")
    if duration is None or duration.value <= 0:
        raise LogUnreadable("the runner's result: no duration above 0 s")
    return duration.value


def with_host_use(result: Result, policy: Policy, folder: Path) -> Result:
    """Add how quiet the server was while LoadGen ran; make the result DISTURBED or INVALID by its
    policy.

    Without the runner's file, or if it is damaged, that is not known and not judged.
    """
    try:
        timed = read_json(_CPU_TIMES, folder / host_use.FILE)
    except UNREADABLE:
        return result
    return judged(result, timed, policy)


def rest_of(environment: Environment, started_uptime_s: float) -> Span | None:
    """Return when the device was at rest, in seconds since the first query, or None."""
    began, ended = (environment.get(f"rested_{end}_uptime_s") for end in ("from", "until"))
    if not isinstance(began, int | float) or not isinstance(ended, int | float):
        return None
    return Span(began - started_uptime_s, ended - started_uptime_s)


def queries_of(result: Result, job: Job) -> int:
    """Return the number of queries that LoadGen issued; for offline, the number of samples."""
    samples = result.environment.get("samples")
    if not isinstance(samples, int):
        return 0
    several = job.scenario == "multi_stream"
    return samples // int(job.knobs["samples_per_query"]) if several else samples
