"""`python -m agents.inference.runner SPEC.json`: do one run; print JSON lines, see messages.py.

Exit status 0 with a result, VALID or INVALID, and 1 with a failure.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from agents.inference.runner import host_use, logs
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import RunnerFault, spec_invalid, storage_fault
from agents.inference.runner.messages import MessageWriter, told_every_second
from agents.inference.runner.model import TfliteModel
from agents.inference.runner.pace import Pace
from agents.inference.runner.sampler import FILE, sampling
from agents.inference.runner.session import Session, WarmUp, expected_samples, warm_up
from agents.inference.runner.spec import RunSpec
from agents.inference.runner.thread_use import ThreadUse

LATENCIES: Final = "latencies_ns.npy"


def main() -> int:
    """Do the run that the spec named on the command line describes."""
    messages = MessageWriter.claim_stdout()
    spec: RunSpec | None = None
    try:
        if len(sys.argv) != 2:
            raise spec_invalid("usage: runner SPEC.json")
        spec = RunSpec.read(Path(sys.argv[1]))
        if spec.die_with_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        messages.result(run(spec, messages))
    except Exception as error:  # noqa: BLE001 - the boundary: every fault becomes a failure
        storage = storage_fault(Path(spec.log_dir).parent) if spec else None
        messages.failure(storage or _fault_of(error))
        return 1
    return 0


def _fault_of(error: Exception) -> RunnerFault:
    if isinstance(error, RunnerFault):
        return error
    traceback.print_exc()
    return RunnerFault("exception", f"{type(error).__name__}: {error}", "workload")


def run(spec: RunSpec, messages: MessageWriter) -> dict[str, Any]:
    """Load, warm up, measure with LoadGen, and return the result; raises RunnerFault."""
    folder = _made(Path(spec.log_dir))
    period_s = spec.sampling_s if spec.mode == "performance" else 0.0
    rested = _rest(folder, period_s, spec.rest_s, messages)
    model = TfliteModel(spec)
    dataset = _dataset(spec, model)
    messages.progress("warm-up", 0, 1, {})
    used = ThreadUse.now()
    warmth = warm_up(model, model.prepare(dataset[0]))
    threads_used = used.threads_since()
    session = Session(model, dataset, spec)
    total = expected_samples(spec, len(dataset), warmth.fastest_s)
    watched = host_use.host_watched(folder, wanted=spec.watch_host and spec.mode == "performance")
    with sampling(folder, period_s) as sampler, watched:
        _measure(session, total, warmth, spec, messages)
    np.save(folder / LATENCIES, np.frombuffer(session.latencies_ns, dtype=np.int64))
    log = logs.DetailLog.parse(logs.read(folder, logs.DETAIL))
    environment = _environment(spec, model, log, session, warmth)
    return _verdict(spec, log) | {
        "environment": {
            **environment,
            **rested,
            "threads_used": threads_used,
            "sampler_cpu_share": sampler.cpu_share,
        },
        "artefacts": _artefacts(spec, folder),
    }


def _rest(
    folder: Path, period_s: float, rest_s: float, messages: MessageWriter
) -> Mapping[str, float]:
    """Sample the idle device and return when that was; with a rest of 0 s, do nothing."""
    if not (period_s and rest_s):
        return {}
    messages.progress("rest", 0, 1, {})
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    with sampling(folder, period_s):
        time.sleep(rest_s)
    ended = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {"rested_from_uptime_s": began, "rested_until_uptime_s": ended}


def _measure(
    session: Session, total: int, warmth: WarmUp, spec: RunSpec, messages: MessageWriter
) -> None:
    pace = Pace()

    def tell() -> None:
        done = session.done
        messages.progress(spec.scenario, done, total, {"throughput": pace.after(done)})

    with told_every_second(tell):
        session.run(warmth.fastest_s)


def _dataset(spec: RunSpec, model: TfliteModel) -> Dataset:
    if spec.dataset:
        return Dataset.read(Path(spec.dataset))
    return Dataset(model.made_up(spec.performance_sample_count))


def _verdict(spec: RunSpec, log: logs.DetailLog) -> dict[str, object]:
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


def _environment(
    spec: RunSpec, model: TfliteModel, log: logs.DetailLog, session: Session, warmth: WarmUp
) -> Mapping[str, object]:
    taken = model.delegated
    return {
        "runtime": model.runtime,
        model.runtime: model.version,
        "loadgen": str(log["loadgen_version"]),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "delegate": model.delegate,
        "delegate_partitions": taken.partitions,
        "delegated_nodes": taken.taken,
        "graph_nodes": taken.nodes,
        "undelegated_operators": taken.left,
        "threads": spec.threads,
        "input_type": model.input_type,
        "mode": spec.mode,
        "samples": session.done,
        "started_at_uptime_s": session.started_at,
        "runner_to_first_query_s": _since_start(session.started_at),
        "warm_up_runs": warmth.runs,
        "expected_latency_s": warmth.fastest_s,
        "min_query_count": spec.min_query_count,
        "min_duration_ms": spec.min_duration_ms,
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
    if spec.mode == "accuracy":
        files["loadgen_accuracy"] = logs.ACCURACY
    elif spec.sampling_s:
        files["conditions"] = FILE
    if spec.watch_host and spec.mode == "performance":
        files["host_use"] = host_use.FILE
    return {name: str(folder / file) for name, file in files.items()}


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise spec_invalid(f"log_dir {folder}: {error}") from error
    return folder


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)  # whoever started the run is gone


if __name__ == "__main__":
    sys.exit(main())
