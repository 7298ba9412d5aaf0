"""A run of LoadGen on any system: rest, warm-up, the test, and its result from LoadGen's logs."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from agents.inference.runner import host_use
from agents.inference.runner.faults import clock_set, log_unreadable, spec_invalid
from agents.inference.runner.messages import told_every_second
from agents.inference.runner.pace import Pace
from agents.inference.runner.sampler import FILE, sampling
from agents.inference.runner.session import Session, WarmUp, expected_samples
from agents.inference.runner.spec import RunSpec
from agents.inference.runner.wall_clock import Clocks
from controller.loadgen import logs
from controller.loadgen.audit_pattern import FILE as AUDIT

LATENCIES: Final = "latencies_ns.npy"
Tell = Callable[[str, int, int, Mapping[str, float]], None]
"""Takes a phase, the done and the total number of its parts, and current values."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A system that has warmed up, ready for LoadGen."""

    session: Session
    warmth: WarmUp
    images: int
    """Samples of its data set."""
    facts: Mapping[str, object]
    """The system's own facts for the result's environment."""


def measured(spec: RunSpec, tell: Tell, prepare: Callable[[], Prepared]) -> dict[str, Any]:
    """Prepare a system, measure it with LoadGen, and return the result; raises RunnerFault.

    `prepare` is called after the rest, so that idle power is that without a model.
    """
    folder = _made(Path(spec.log_dir))
    period_s = spec.sampling_s if spec.mode == "performance" else 0.0
    rested = _rest(folder, period_s, spec.rest_s, tell)
    prepared = prepare()
    watched = host_use.host_watched(folder, wanted=spec.watch_host and spec.mode == "performance")
    with sampling(folder, period_s) as sampler, watched:
        passed = _measure(prepared, spec, tell)
    latencies = np.frombuffer(prepared.session.latencies_ns, dtype=np.int64)
    np.save(folder / LATENCIES, latencies)
    if spec.audit and spec.mode == "performance":
        np.save(folder / AUDIT, np.array(prepared.session.audit_ns, dtype=np.int64))
    facts = {**rested, "sampler_cpu_share": sampler.cpu_share}
    return _told(spec, prepared, facts, passed)


def _told(
    spec: RunSpec, prepared: Prepared, facts: Mapping[str, object], passed: Clocks
) -> dict[str, Any]:
    """Return the result from LoadGen's logs, INVALID if the clock was set or slewed.

    Raises RunnerFault. A run with a time that no clock which nobody sets tells, has no result.
    """
    objection = None
    if spec.mode == "performance":  # an accuracy run has no times
        objection, facts = passed.objection, {**facts, "wall_clock_set_by_s": passed.set_by_s}
    try:
        return _logged(spec, prepared, facts, objection)
    except (logs.LogUnreadable, ArithmeticError) as error:
        if objection and passed.is_set:  # a slew leaves no log that can't be read
            raise clock_set(objection) from error
        raise log_unreadable(str(error)) from error


def _logged(
    spec: RunSpec, prepared: Prepared, facts: Mapping[str, object], objection: str | None
) -> dict[str, Any]:
    """Return the result from LoadGen's logs; raises LogUnreadable, and RunnerFault.

    objection: why LoadGen's times are wrong.
    """
    folder = Path(spec.log_dir)
    log = logs.DetailLog.parse(logs.read(folder, logs.DETAIL))
    verdict = _verdict(spec, log)
    for name, metric in verdict["metrics"].items():
        if metric["value"] <= 0:
            seen = f"LoadGen's {name} is {metric['value']:.3g} {metric['unit']}"
            raise clock_set(objection or f"{seen}, so the wall clock was set during the run")
    if objection:
        reasons = [objection, *verdict["reasons"]]
        verdict |= {"validity": "INVALID", "reasons": reasons}
    return verdict | {
        "environment": {**_environment(spec, log, prepared), **facts},
        "artefacts": _artefacts(spec, folder),
    }


def _rest(folder: Path, period_s: float, rest_s: float, tell: Tell) -> Mapping[str, float]:
    """Sample the idle device and return when that was; with a rest of 0 s, do nothing."""
    if not (period_s and rest_s):
        return {}
    tell("rest", 0, 1, {})
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    with sampling(folder, period_s):
        time.sleep(rest_s)
    ended = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {"rested_from_uptime_s": began, "rested_until_uptime_s": ended}


def _measure(prepared: Prepared, spec: RunSpec, tell: Tell) -> Clocks:
    """Run LoadGen's test; return what passed meanwhile on the clocks."""
    pace, session = Pace(), prepared.session
    total = expected_samples(spec, prepared.images, prepared.warmth.fastest_s)

    def tell_pace() -> None:
        done = session.done
        tell(spec.scenario, done, total, {"throughput": pace.after(done)})

    with told_every_second(tell_pace):
        began = Clocks.now()
        session.run(prepared.warmth.fastest_s)
        return began.passed()


def _verdict(spec: RunSpec, log: logs.DetailLog) -> dict[str, Any]:
    """Return validity, reasons and metrics from LoadGen's log."""
    if spec.mode == "accuracy":  # scored later, where the truth is known
        reasons = tuple(f"LoadGen: {error}" for error in log.errors)
        metrics: dict[str, dict[str, object]] = {}
    else:
        reasons = logs.objections(log)
        metrics = _performance(spec, log)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB
    metrics["peak_memory"] = _measurement(peak_bytes, "bytes")
    return {
        "validity": "INVALID" if reasons else "VALID",
        "reasons": list(reasons),
        "metrics": metrics,
    }


def _performance(spec: RunSpec, log: logs.DetailLog) -> dict[str, dict[str, object]]:
    metrics = {"duration": _measurement(logs.duration_s(log, spec.scenario), "s")}
    throughput = logs.throughput(log, spec.scenario)
    if throughput is not None:
        metrics["throughput"] = _measurement(throughput, "samples/s")
    if spec.scenario != "offline":
        for name, seconds in logs.latency_metrics(log, spec.scenario).items():
            metrics[name] = _measurement(seconds, "s")
    return metrics


def _measurement(value: float, unit: str) -> dict[str, object]:
    return {"value": value, "unit": unit}


def _environment(spec: RunSpec, log: logs.DetailLog, prepared: Prepared) -> Mapping[str, object]:
    session, warmth = prepared.session, prepared.warmth
    return {
        "loadgen": str(log["loadgen_version"]),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "mode": spec.mode,
        "samples": session.done,
        "started_at_uptime_s": session.started_at,
        "runner_to_first_query_s": _since_start(session.started_at),
        "warm_up_runs": warmth.runs,
        "expected_latency_s": warmth.fastest_s,
        **logs.asked(log, spec.scenario),
        "ended_at_longest": spec.mode == "performance" and logs.ended_at_longest(log),
        "loadgen_seeds": logs.seeds(log),
        **prepared.facts,
        **session.facts(),
    }


def _since_start(uptime_s: float | None) -> float | None:
    """Return the seconds from this process's start to a moment, rounded to a hundredth."""
    if uptime_s is None:
        return None
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return uptime_s - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _artefacts(spec: RunSpec, folder: Path) -> Mapping[str, str]:
    files = {
        "latencies": LATENCIES,
        "loadgen_detail": logs.DETAIL,
        "loadgen_summary": logs.SUMMARY,
    }
    trace = folder / logs.TRACE
    if trace.exists() and trace.stat().st_size:  # LoadGen makes an empty file for none
        files["loadgen_trace"] = logs.TRACE
    if spec.mode == "accuracy":
        files["loadgen_accuracy"] = logs.ACCURACY
    elif spec.sampling_s:
        files["conditions"] = FILE
    if spec.audit and spec.mode == "performance":
        files["audit"] = AUDIT
    if spec.watch_host and spec.mode == "performance":
        files["host_use"] = host_use.FILE
    return {name: str(folder / file) for name, file in files.items()}


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise spec_invalid(f"log_dir {folder}: {error}") from error
    return folder
