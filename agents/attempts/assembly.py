"""The chain of attempt runners for each kind of device, assembled in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agents.attempts.command import DeviceRunner
from agents.attempts.exclusive_host import ExclusiveHostRunner
from agents.attempts.kept_peaks import KeptPeaks
from agents.attempts.metered import metered
from agents.attempts.paired import paired_runs, paired_workers
from agents.attempts.phone import PhoneRunner
from agents.attempts.profiled import ProfiledRunner
from agents.attempts.protocol import AttemptRunner
from agents.attempts.reference_run import ReferenceRuns
from agents.attempts.referenced import ReferencedRunner
from agents.attempts.worker_process import WorkerProcess
from agents.energy.meter import Meter
from agents.inference.content import Content
from agents.inference.reference_answers import ReferenceAnswers
from agents.inference.runner.spec import SCENARIOS
from agents.phones.discovery import Phones
from agents.remotes.local import LocalRemote
from agents.remotes.remote import Remote
from agents.stacks.interpreter import stack_worker
from controller.contracts.base import Scalar
from controller.contracts.device import Device, DeviceKind
from controller.contracts.result import Outcome
from controller.contracts.wire import Progress, TrainingProgram, WorkerSpec


@dataclass(frozen=True, slots=True)
class RunnerByProgram:
    """Chooses a runner by the kind of the job's program, and by its scenario."""

    training: AttemptRunner
    queried: AttemptRunner
    """Of workers in which LoadGen issues queries."""
    on_device: AttemptRunner
    remote: Remote
    """Cleaned by `clean`, in place of `on_device`."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        return await self._runner(spec).run(spec, on_progress)

    def _runner(self, spec: WorkerSpec) -> AttemptRunner:
        if not isinstance(spec.job.program, TrainingProgram):
            return self.on_device
        return self.queried if spec.job.scenario in SCENARIOS else self.training

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.training.clean() + await self.remote.clean()


def attempt_runners(
    owner: str,
    folder: Path,
    content: Content,
    stacks: Path,
    phones: Phones,
    on_conditions: Callable[[str, Mapping[str, Scalar]], None],
    meter: Meter | None,
    this_host: Device,
) -> dict[DeviceKind, AttemptRunner]:
    """Return the runner for each kind of device; each wraps others, listed from the outside in.

    owner: the agent's id, which marks its processes. folder: the agent's folder. stacks: folder
    with the stacks' environments. on_conditions: called with a phone's id and conditions. meter:
    the user's power meter, which runs beside each run. this_host: where references are computed.
    """
    host = LocalRemote.of(folder / "device", owner)
    workers = WorkerProcess(owner, partial(stack_worker, stacks))
    timed = metered(paired_workers(workers), meter, lambda _: host)
    queried = metered(paired_runs(workers), meter, lambda _: host)
    training = ProfiledRunner(timed, workers, KeptPeaks(folder / "peaks"))
    on_host = metered(DeviceRunner(lambda _: host, content), meter, lambda _: host)
    on_phone = metered(DeviceRunner(phones.remote_of, content), meter, phones.remote_of)
    servers = ExclusiveHostRunner(RunnerByProgram(training, queried, paired_runs(on_host), host))
    on_phones = PhoneRunner(paired_runs(on_phone), phones, on_conditions)
    references = ReferenceRuns(content, host, this_host, ReferenceAnswers(folder / "references"))
    return {
        DeviceKind.CPU_HOST: ReferencedRunner(servers, references),
        DeviceKind.ANDROID: ReferencedRunner(on_phones, references),
    }
