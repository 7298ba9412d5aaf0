"""A run on a device's own runtime: push what is missing, let LoadGen measure there, fetch the logs.

The same on a phone over adb and on this host: only the Remote differs.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from agents.android.content import DATASET, MODEL, Content
from agents.android.run_length import LENGTHS, PERFORMANCE_SAMPLES
from agents.transports.exit_reason import WorkerExit, outcome_of
from agents.transports.hearing import Hearing
from agents.transports.remote import RUNS, Ended, Remote, RemoteFault, failure_of
from controller.contracts.catalog import QualityTarget
from controller.contracts.device import Device
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Job, OnDeviceProgram, Progress, WorkerSpec

log = logging.getLogger(__name__)
PREPARE_S = 20.0
"""For the short commands around a run."""
MODES: Mapping[str, tuple[str, ...]] = {
    "performance": ("performance",),
    "accuracy": ("accuracy",),
    "submission": ("performance", "accuracy"),
}
LATENCIES = "latencies_ns.npy"


@dataclass(frozen=True, slots=True)
class _Site:
    """Where a run finds its files on the device."""

    remote: Remote
    bundle: PurePosixPath
    workload: PurePosixPath
    folder: PurePosixPath
    pushed_bytes: int


@dataclass(frozen=True, slots=True)
class OnDeviceRun:
    """A Transport for programs of the on-device kind."""

    remote_of: Callable[[Device], Remote]
    """Raises RemoteFault if the device can't be reached."""
    content: Content

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See Transport.run."""
        program = spec.job.program
        if not isinstance(program, OnDeviceProgram):
            raise TypeError(f"{spec.job.workload} is for a worker process, not for a device")
        try:
            async with self._site(spec, program) as site:
                ends_at = time.monotonic() + spec.job.deadline_s  # of all runs of a submission
                results = [
                    delegated(
                        await _measure(spec, program, site, mode, ends_at, on_progress),
                        delegate_of(spec.job),
                    )
                    for mode in MODES[str(spec.job.knobs["mode"])]
                ]
        except (RemoteFault, UserError) as error:
            return failure_of(error)
        except WorkerFault as fault:
            return fault.failure
        return judged(merged(results, site.pushed_bytes), program.quality_target)

    async def clean(self) -> int:
        """See Transport.clean; a Remote cleans up before anything else is done on it."""
        return 0

    @asynccontextmanager
    async def _site(self, spec: WorkerSpec, program: OnDeviceProgram) -> AsyncIterator[_Site]:
        """Have everything there for a block; raises RemoteFault, UserError, WorkerFault."""
        remote = self.remote_of(spec.device)
        bundle = await self.content.bundle(program.bundle, arch_of(spec.device))
        numerics = str(spec.job.knobs["numerics"])
        workload = await self.content.workload(program.workload, numerics)
        runtime = await remote.push_tree(bundle)
        files = await remote.push_tree(workload)
        ref = spec.job.ref
        folder = runtime.path.parent / RUNS / f"{ref.run_id}-{ref.attempt}"
        await _short(remote, "mkdir", "-p", str(folder))
        pushed = runtime.pushed_bytes + files.pushed_bytes
        in_trouble = False
        try:
            yield _Site(remote, runtime.path, files.path, folder, pushed)
        except RemoteFault as fault:
            in_trouble = fault.blame is not Blame.WORKLOAD
            raise
        finally:
            if not in_trouble:
                await _remove(remote, folder)


async def _measure(
    spec: WorkerSpec,
    program: OnDeviceProgram,
    site: _Site,
    mode: str,
    ends_at: float,
    on_progress: Callable[[Progress], None],
) -> Result:
    """Do one LoadGen run; raises WorkerFault with what the runner came to, RemoteFault."""
    logs = site.folder / mode
    settings = json.dumps(runner_spec(spec.job, program, site.workload, logs, mode)).encode()
    path = site.folder / f"{mode}.json"
    await _short(site.remote, "sh", "-c", 'cat > "$1"', "sh", str(path), stdin=settings)
    hearing = Hearing(on_progress)
    command = [str(site.bundle / "run"), str(path)]
    left_s = max(0.0, ends_at - time.monotonic())
    ended = await site.remote.stream(command, left_s, hearing.take)
    outcome = outcome_of(_exit(ended, hearing, spec.job.deadline_s))
    if isinstance(outcome, Failure):
        raise WorkerFault(outcome)
    target = Path(spec.artefact_dir) / mode
    await site.remote.pull(logs, target)
    return _with_files(outcome, mode, target)


def arch_of(device: Device) -> str:
    """Return the architecture a device's programs are for: a phone's ABI, or the host's."""
    return str(device.attribute("abi") or device.attribute("architecture"))


def delegate_of(job: Job) -> str:
    """Return what is to run the graph; a run queued by an earlier release may not say."""
    return str(job.knobs.get("delegate", "xnnpack"))


def runner_spec(
    job: Job, program: OnDeviceProgram, files: PurePosixPath, logs: PurePosixPath, mode: str
) -> dict[str, object]:
    """Return what the runner on the device is told: see agents/android/runner/spec.py."""
    length = LENGTHS[job.scenario][str(job.knobs["length"])]
    return {
        "model": str(files / MODEL),
        "dataset": str(files / DATASET),
        "log_dir": str(logs),
        "scenario": job.scenario,
        "mode": mode,
        "min_query_count": length.min_query_count,
        "min_duration_ms": length.min_duration_ms,
        "performance_sample_count": min(PERFORMANCE_SAMPLES, program.workload.dataset.samples),
        "threads": job.knobs["threads"],
        "delegate": delegate_of(job),
        "input_mean": program.workload.input_mean,
        "input_std": program.workload.input_std,
        "die_with_stdin": True,
    }


def merged(results: list[Result], pushed_bytes: int) -> Result:
    """Return one result for the runs of a submission: every metric, every reason."""
    first = results[0]
    reasons = tuple(dict.fromkeys(reason for result in results for reason in result.reasons))
    return Result(
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=reasons,
        # The performance run is the first, and its peak memory is the one that stands.
        metrics={n: m for result in reversed(results) for n, m in result.metrics.items()},
        environment={**first.environment, "pushed_bytes": pushed_bytes},
        artefacts={n: path for result in results for n, path in result.artefacts.items()},
    )


def judged(result: Result, target: QualityTarget | None) -> Result:
    """Make a result INVALID whose accuracy is known and below the quality target."""
    measured = result.metrics.get(target.metric) if target else None
    if target is None or measured is None or measured.value >= target.value:
        return result
    reason = f"{target.metric} {measured.value:.4f} is below the quality target {target.value:.4f}"
    return _invalid(result, reason)


def delegated(result: Result, wanted: str) -> Result:
    """Make a result INVALID that another delegate has computed than its knobs ask for.

    LiteRT goes on without XNNPACK, and says nothing, where it can't be used.
    """
    used = result.environment.get("delegate")
    return result if used == wanted else _invalid(result, f"delegate {used} ran it, not {wanted}")


def _invalid(result: Result, reason: str) -> Result:
    update = {"validity": Validity.INVALID, "reasons": (*result.reasons, reason)}
    return result.model_copy(update=update)


def _with_files(result: Result, mode: str, folder: Path) -> Result:
    """Point a result's artefacts at what was pulled, and keep its raw latencies as samples."""
    artefacts = {f"{mode}_{n}": str(folder / Path(p).name) for n, p in result.artefacts.items()}
    metrics = dict(result.metrics)
    if mode == "performance" and "latency_p50" in metrics:
        latencies = tuple(float(ns) / 1e9 for ns in np.load(folder / LATENCIES))
        metrics["latency"] = Measurement.of_samples(latencies, Unit.SECONDS)
    return result.model_copy(update={"artefacts": artefacts, "metrics": metrics})


def _exit(ended: Ended, hearing: Hearing, deadline_s: float) -> WorkerExit:
    signalled = ended.exit_code > 128  # as a shell gives a signal
    return WorkerExit(
        returncode=128 - ended.exit_code if signalled else ended.exit_code,
        last_message=hearing.last,
        garbled=hearing.garbled if not ended.merged else None,
        past_deadline_s=deadline_s if ended.past_deadline else None,
        out_of_memory=False,
        output=ended.stderr.decode(errors="replace"),
    )


async def _remove(remote: Remote, folder: PurePosixPath) -> None:
    """Remove a run's folder; if that can't be done, it is when the device is next taken in."""
    try:
        await _short(remote, "rm", "-rf", str(folder))
    except (RemoteFault, WorkerFault) as trouble:
        log.warning("%s is left for now: %s", folder, trouble)


async def _short(remote: Remote, *argv: str, stdin: bytes = b"") -> bytes:
    done = await remote.run(argv, PREPARE_S, stdin)
    if done.exit_code != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
        message = f"{argv[0]} on the device exited with {done.exit_code}: {said}"
        raise WorkerFault(Failure(blame=Blame.DEVICE, kind="command", message=message))
    return done.stdout
