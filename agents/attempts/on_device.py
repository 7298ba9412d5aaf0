"""A run on a device's own runtime: push missing files, run LoadGen there, fetch the logs.

Works on a phone over adb and on this host: only the Remote differs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agents.attempts.runner_program import run_folder, run_runner, write_spec
from agents.inference.content import Content, Ready, identity_of, score_answers
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
from agents.inference.run_length import MADE_UP_SAMPLES, MODES, loadgen_spec, repeats
from agents.inference.run_rules import DATASET_ORIGIN
from agents.remotes.remote import (
    RUNS,
    FaultKind,
    Remote,
    RemoteFault,
    failure_of,
)
from controller.contracts.audit import SCORED, AuditCheck, audit_of
from controller.contracts.device import Device, DeviceKind
from controller.contracts.errors import AnswersUnreadable, UserError, WorkerFault
from controller.contracts.mobile import OnDevice, Top1
from controller.contracts.policy import load_policy
from controller.contracts.result import (
    Blame,
    Environment,
    Failure,
    Outcome,
    Result,
    Validity,
)
from controller.contracts.wire import Job, OnDeviceProgram, Progress, WorkerSpec
from controller.loadgen.logs import LogUnreadable
from models.mobile.preparation import MODEL

log = logging.getLogger(__name__)
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
            DATASET_ORIGIN: ready.origin,  # None, too: the device's own word is not it
        }
        facts |= identity_of(runtime, ready)
        if audit_of(spec.job.knobs) and ready.has_truth:
            facts[SCORED] = ready.samples
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
    path = site.folder / f"{mode}.json"
    await write_spec(site.remote, path, told)
    now = time.monotonic()
    ready_s, left_s = now - site.began, max(0.0, ends_at - now)
    outcome = await run_runner(
        site.remote, site.bundle, path, (left_s, spec.job.deadline_s), on_progress
    )
    if fewer := fewer_held(outcome):
        log.warning("%s on %s: %s", spec.job.workload, spec.device.id, fewer)
    target = Path(spec.artefact_dir) / mode
    await site.remote.pull(logs, target)
    try:  # beside the event loop: a device may send files that take long to read
        result = await asyncio.to_thread(
            with_files, begun(outcome, ready_s), spec.job, mode, target
        )
    except LogUnreadable as error:
        raise _damaged(str(error)) from error
    if on_host and mode == "performance":
        result = with_host_use(result, load_policy(str(spec.job.knobs["policy"])), target)
    if mode != "accuracy":
        return result
    held = result.environment.get("performance_samples")  # of a phone, what its memory held
    repeated = repeats(spec.job, site.ready.samples, held if isinstance(held, int) else 0)
    return await _scored(result, site.ready, target, repeated)


def _damaged(what: str) -> WorkerFault:
    message = f"cannot read what the run left on the device: {what}"
    return WorkerFault(Failure(blame=Blame.DEVICE, kind=FaultKind.PROTOCOL, message=message))


async def _scored(result: Result, ready: Ready, folder: Path, repeated: int) -> Result:
    """Add the score of an accuracy run's answers; raises UserError.

    Raises WorkerFault if they can't be read.
    """
    try:
        found = await score_answers(ready, folder / ANSWERS, repeated)
    except AnswersUnreadable as error:
        raise _damaged(f"{ANSWERS}: {error.seen}") from error
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
    if audit_of(job.knobs) in (AuditCheck.CACHE, AuditCheck.COLD_START):
        return ("performance",)
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
    if "xnnpack" in job.knobs:  # tflite's runtime has no such options
        told["executor"] = job.knobs["xnnpack"]
    if isinstance(workload.output, Top1):
        told["first_class"] = workload.output.offset
    return {**told, **image_spec(workload.input), **loadgen_spec(job, mode, workload.run_lengths)}
