"""A run on a device's own runtime: push missing files, run LoadGen there, fetch the logs.

Works on a phone over adb and on this host: only the Remote differs.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agents.attempts.worker_protocol import MessageReader
from agents.host.exit_reason import WorkerExit, outcome_of
from agents.inference.content import Content, Ready, score_answers
from agents.inference.image_spec import image_spec
from agents.inference.on_device_result import (
    begun,
    fewer_held,
    merged,
    with_files,
    with_host_use,
    with_run_rules,
)
from agents.inference.quality import delegated, judged
from agents.inference.requirements import untold
from agents.inference.requirements_probe import require
from agents.inference.run_length import MADE_UP_SAMPLES, loadgen_spec
from agents.remotes.remote import (
    NOT_STARTED,
    RUNS,
    Ended,
    FaultKind,
    Remote,
    RemoteFault,
    failure_of,
)
from controller.contracts.device import Device, DeviceKind
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.mobile import OnDevice, Top1
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Environment, Failure, Outcome, Result, Validity
from controller.contracts.wire import Job, OnDeviceProgram, Progress, WorkerSpec
from models.mobile.preparation import MODEL

log = logging.getLogger(__name__)
PREPARE_S = 20.0
"""Deadline in seconds for the short commands around a run."""
MODES: Mapping[str, tuple[str, ...]] = {
    "performance": ("performance",),
    "accuracy": ("accuracy",),
    "submission": ("performance", "accuracy"),
}
ANSWERS = "mlperf_log_accuracy.json"


@dataclass(frozen=True, slots=True)
class _Site:
    """A run's files on the device."""

    remote: Remote
    bundle: PurePosixPath
    ready: Ready
    files: PurePosixPath
    """Folder with the task's model and inputs."""
    folder: PurePosixPath
    facts: Environment
    """What was pushed, and what could not be checked before."""
    began: float
    """When the run began, on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class LoadGenRunner:
    """The attempt runner that runs MLPerf LoadGen on a device."""

    remote_of: Callable[[Device], Remote]
    """Returns a device's Remote; raises RemoteFault if the device can't be reached."""
    content: Content

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        program = spec.job.program
        if not isinstance(program, OnDeviceProgram):
            raise TypeError(f"{spec.job.workload} is for a worker process, not for a device")
        try:
            async with self._site(spec, program) as site:
                ends_at = time.monotonic() + spec.job.deadline_s  # for all runs of a submission
                results = [
                    delegated(
                        await _measure(spec, program, site, mode, ends_at, on_progress),
                        str(spec.job.knobs["delegate"]),
                    )
                    for mode in modes_of(spec.job, site.ready)
                ]
        except (RemoteFault, UserError) as error:
            return failure_of(error)
        except WorkerFault as fault:
            return fault.failure
        own = float(spec.job.knobs["quality_target"])
        result = judged(merged(results, site.facts), program.quality_target, own)
        return with_run_rules(spec, result)

    async def clean(self) -> int:
        """See AttemptRunner.clean; a Remote cleans up before its first use."""
        return 0

    @asynccontextmanager
    async def _site(self, spec: WorkerSpec, program: OnDeviceProgram) -> AsyncIterator[_Site]:
        """Push all files for the block; raises RemoteFault, UserError, WorkerFault."""
        began = time.monotonic()
        remote = self.remote_of(spec.device)
        runtime = await self.content.runtime(program.bundle, str(spec.device.architecture))
        ready = await self.content.task(*task_of(spec.job, program.workload))
        seen = await require(remote, runtime, spec.device.id)
        bundle = await remote.push_tree(runtime.tree)
        files = await remote.push_tree(ready.tree)
        ref = spec.job.ref
        folder = bundle.path.parent / RUNS / f"{ref.run_id}-{ref.attempt}"
        trees = (runtime.starter, runtime.tree, ready.tree)
        facts: Environment = {
            "pushed_bytes": seen.pushed_bytes + bundle.pushed_bytes + files.pushed_bytes,
            "stored_bytes": sum(tree.archive_bytes for tree in trees),
        }
        if unread := untold(seen.told):
            facts["requirements_untold"] = unread
        async with run_folder(remote, folder):
            yield _Site(remote, bundle.path, ready, files.path, folder, facts, began)


async def _measure(
    spec: WorkerSpec,
    program: OnDeviceProgram,
    site: _Site,
    mode: str,
    ends_at: float,
    on_progress: Callable[[Progress], None],
) -> Result:
    """Do one LoadGen run; raises WorkerFault if the runner failed, and RemoteFault."""
    logs = site.folder / mode
    on_host = spec.device.kind is DeviceKind.CPU_HOST
    told = runner_spec(spec.job, site.ready, site.files, logs, mode) | {"watch_host": on_host}
    settings = json.dumps(told).encode()
    path = site.folder / f"{mode}.json"
    await short(site.remote, "sh", "-c", 'cat > "$1"', "sh", str(path), stdin=settings)
    reader = MessageReader(on_progress)
    # Name the shell explicitly: the interpreter in the script's first line may not exist on the
    # device.
    command = ["sh", str(site.bundle / "run"), str(path)]
    now = time.monotonic()
    ready_s, left_s = now - site.began, max(0.0, ends_at - now)
    ended = await site.remote.stream(command, left_s, reader.take)
    outcome = not_started(ended, reader) or outcome_of(_exit(ended, reader, spec.job.deadline_s))
    if isinstance(outcome, Failure):
        raise WorkerFault(outcome)
    if fewer := fewer_held(outcome):
        log.warning("%s on %s: %s", spec.job.workload, spec.device.id, fewer)
    target = Path(spec.artefact_dir) / mode
    await site.remote.pull(logs, target)
    result = with_files(begun(outcome, ready_s), spec.job, mode, target)
    if on_host and mode == "performance":
        result = with_host_use(result, load_policy(str(spec.job.knobs["policy"])), target)
    return await _scored(result, site.ready, target) if mode == "accuracy" else result


async def _scored(result: Result, ready: Ready, folder: Path) -> Result:
    """Add the score of an accuracy run's answers; raises UserError."""
    found = await score_answers(ready, folder / ANSWERS)
    reasons = (*result.reasons, *found.objections)
    return result.model_copy(
        update={
            "validity": Validity.INVALID if reasons else Validity.VALID,
            "reasons": reasons,
            "metrics": {**result.metrics, **found.metrics},
        }
    )


def task_of(job: Job, workload: OnDevice) -> tuple[str, OnDevice, str, str | None]:
    """Return the workload's name, its manifest, the numerics and the data set, if any, of a job."""
    dataset = workload.dataset_of(job.knobs)
    return job.workload, workload, str(job.knobs["numerics"]), dataset


def modes_of(job: Job, ready: Ready) -> tuple[str, ...]:
    """Return the modes of a job's LoadGen runs; raises UserError for accuracy without a truth.

    A submission of a data set without truth is only a performance run, and breaks the run rules.
    """
    mode = str(job.knobs["mode"])
    if ready.has_truth or mode == "performance":
        return MODES[mode]
    if mode == "submission":
        return ("performance",)
    raise UserError(
        f"run {job.workload} with mode=accuracy",
        "its data set has no ground truth",
        "Choose another data set or set mode=performance.",
    )


def runner_spec(
    job: Job, ready: Ready, files: PurePosixPath, logs: PurePosixPath, mode: str
) -> dict[str, object]:
    """Return the spec for the runner on the device: see agents/inference/runner/spec.py."""
    workload = ready.workload
    held = min(workload.performance_samples, ready.samples or MADE_UP_SAMPLES)
    told: dict[str, object] = {
        "model": str(files / MODEL),
        "dataset": str(files) if ready.samples else "",
        "log_dir": str(logs),
        "performance_sample_count": held,
        "threads": job.knobs["threads"],
        "delegate": job.knobs["delegate"],
        "batch_size": job.knobs["batch_size"],
        "answer": workload.output.kind,
        "die_with_stdin": True,
    }
    if isinstance(workload.output, Top1):
        told["first_class"] = workload.output.offset
    return {**told, **image_spec(workload.input), **loadgen_spec(job, mode, workload.run_lengths)}


def not_started(ended: Ended, reader: MessageReader) -> Failure | None:
    """Return the failure to start the runner, or None if it has started."""
    if reader.began or ended.past_deadline or ended.exit_code not in NOT_STARTED:
        return None
    said = ended.stderr.decode(errors="replace").strip() or reader.garbled or ""
    words = said.splitlines()[-1] if said else f"exit status {ended.exit_code}"
    message = f"cannot start the runner on the device: {words}"
    return Failure(
        blame=Blame.DEVICE,
        kind=FaultKind.NO_EXEC,
        message=message,
        output=said,
        exit_code=ended.exit_code,
    )


def _exit(ended: Ended, reader: MessageReader, deadline_s: float) -> WorkerExit:
    signalled = ended.exit_code > 128  # a shell reports a signal as 128 + its number
    return WorkerExit(
        returncode=128 - ended.exit_code if signalled else ended.exit_code,
        last_message=reader.last,
        garbled=reader.garbled if not ended.merged else None,
        past_deadline_s=deadline_s if ended.past_deadline else None,
        out_of_memory=ended.out_of_memory,
        output=ended.stderr.decode(errors="replace"),
    )


@asynccontextmanager
async def run_folder(remote: Remote, folder: PurePosixPath) -> AsyncIterator[None]:
    """Make a run's folder on a device and remove it after the block, unless the device fails."""
    await short(remote, "mkdir", "-p", str(folder))
    in_trouble = False
    try:
        yield
    except RemoteFault as fault:
        in_trouble = fault.blame is not Blame.WORKLOAD
        raise
    finally:
        if not in_trouble:
            await _remove(remote, folder)


async def _remove(remote: Remote, folder: PurePosixPath) -> None:
    """Remove a run's folder; on failure, it is removed when the device is next taken in."""
    try:
        await short(remote, "rm", "-rf", str(folder))
    except (RemoteFault, WorkerFault) as trouble:
        log.warning("%s is left for now: %s", folder, trouble)


async def short(remote: Remote, *argv: str, stdin: bytes = b"") -> bytes:
    """Return the output of a short command around a run; raises RemoteFault, WorkerFault."""
    done = await remote.run(argv, PREPARE_S, stdin)
    if done.exit_code != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
        message = f"{argv[0]} on the device exited with status {done.exit_code}: {said}"
        raise WorkerFault(Failure(blame=Blame.DEVICE, kind="command", message=message))
    return done.stdout
