"""LoadGen in a worker process: the model of a training workload answers queries on its stack.

LoadGen, its run lengths, its verdict, the gate for quiet, the files and the metric of accuracy are
those of a device's runner. Samples are made up unless the workload has some with truths, and
weights are random unless the knob `weights` names some: with both, accuracy is measured beside
speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic

import numpy as np
import torch
from numpy.typing import NDArray

from agents.backends.protocol import InferenceBackend
from agents.inference.on_device_result import merged, with_facts, with_files, with_host_use
from agents.inference.run_length import MADE_UP_SAMPLES, loadgen_spec, repeats
from agents.inference.runner.audited import batched_session_of, batched_warmth_of, session_of
from agents.inference.runner.batched_session import batch_sizes
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.graphs import Sample
from agents.inference.runner.measuring import Prepared, measured
from agents.inference.runner.session import Session
from agents.inference.runner.spec import AT_ONCE, RunSpec
from agents.inference.runner.thread_use import ThreadUse
from agents.inference.worker_accuracy import (
    TrueSamples,
    held_to_target,
    modes_of,
    require_scorer,
    scored,
    weights_of,
)
from agents.stacks.resolving import resolve
from controller.contracts.errors import WorkerFault
from controller.contracts.mobile import RunLengths
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Environment, Failure, Result, Validity
from controller.contracts.wire import Job, Progress, TrainingProgram, WorkerSpec
from models.inference import InferenceWorkload, ScoredWorkload
from models.training import Outputs

LEAST_S: Final = 600.0
"""Least duration of a run of MLPerf Inference."""
RANDOM: Final = "random weights"
MADE_UP: Final = "made-up samples"
OWN_DATA: Final = "data set not checked"
UNKNOWN: Final = "accuracy not known"
OWN_TARGET: Final = "a quality target of the sweep's own"
"""Run rules of MLPerf Inference that a run doesn't meet; no data set here is known to be its."""


class TorchSystem(Generic[Outputs]):
    """The BatchSystem of a workload's model on a stack."""

    def __init__(
        self,
        workload: InferenceWorkload[Outputs],
        backend: InferenceBackend,
        samples: torch.Tensor,
    ) -> None:
        """Build the model for batches of as many as `samples`."""
        self._workload, self._backend = workload, backend
        self._model = backend.prepare_inference(workload, samples)

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """See System.prepare."""
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        """See System.answer."""
        return self.answers([sample])[0]

    def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
        """See BatchSystem.answers."""
        tensors = [torch.from_numpy(sample[0]) for sample in samples]
        batch = torch.stack(tensors) if len(tensors) > 1 else tensors[0].unsqueeze(0)
        found = self._backend.infer(self._workload, self._model, batch)
        return [np.ascontiguousarray(answer.numpy()) for answer in found]


class SystemUnderTest(Generic[Outputs]):
    """A workload's model on a stack, built once for all runs of a submission, and its samples."""

    def __init__(
        self, workload: InferenceWorkload[Outputs], backend: InferenceBackend, weights: str
    ) -> None:
        """Read what is true of its samples; raises DataUnusable.

        weights: where they come from, for the fact of that name.
        """
        self.workload, self._backend, self._weights = workload, backend, weights
        self.scored = workload if isinstance(workload, ScoredWorkload) else None
        self.truths = len(self.scored.truths()) if self.scored else 0
        self._model: TorchSystem[Outputs] | None = None

    @property
    def most_held(self) -> int:
        """Samples in memory at once."""
        return min(MADE_UP_SAMPLES, self.truths or MADE_UP_SAMPLES)

    def facts(self) -> Environment:
        """Return what is known of its samples."""
        return self.scored.data_facts() if self.scored and self.truths else {}

    def prepared(self, spec: RunSpec) -> Prepared:
        """Build the model and warm it up with every batch size that the run has."""
        dataset = self._samples(spec.performance_sample_count)
        sizes = batch_sizes(spec.queried_at_once, spec.batch_size)
        if self._model is None:
            samples = self.workload.samples(sizes[0])
            self._model = TorchSystem(self.workload, self._backend, samples)
        used = ThreadUse.now()
        warmth = batched_warmth_of(spec, self._model, self._model.prepare(dataset[0]), sizes)
        facts = {
            **self._backend.environment(),
            "threads_used": used.threads_since() if warmth.runs else None,
            AT_ONCE: sizes[0],
            "weights": self._weights,
        }
        if sizes[0] > 1:
            session: Session = batched_session_of(self._model, dataset, spec, sizes[0])
        else:
            session = session_of(self._model, dataset, spec)
        return Prepared(session, warmth, len(dataset), facts)

    def _samples(self, count: int) -> Dataset:
        if self.scored and self.truths:
            return Dataset([TrueSamples(self.scored, self.truths)])
        return Dataset([self.workload.samples(count).numpy()])


def run(spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Result:
    """Measure the job's model with LoadGen; raises WorkerFault, DataUnusable, DatasetUnusable."""
    job, program = spec.job, spec.job.program
    if not isinstance(program, TrainingProgram):
        raise TypeError(f"{job.workload} runs in a device's own runtime")
    backend = resolve(program.backend)(job.knobs)
    if not isinstance(backend, InferenceBackend):
        message = f"stack {job.stack} trains only. Use another stack, or scenario training."
        raise WorkerFault(Failure(blame=Blame.USER, kind="no_inference", message=message))
    workload = resolve(program.builder)(**program.arguments)
    system = SystemUnderTest(workload, backend, weights_of(job) or "random")
    modes = modes_of(job, system.truths)
    if "accuracy" in modes and system.scored:
        require_scorer(job, system.scored.output)
    facts = system.facts()
    result = merged([_measured(spec, mode, system, on_progress) for mode in modes], facts)
    has_truths, was_scored = system.truths > 0, "accuracy" in modes
    if was_scored:
        result = held_to_target(result, job, program.quality_target)
    missed = rules_missed(job, result, has_truths=has_truths, was_scored=was_scored)
    return with_facts(result, missed)


def _measured(
    spec: WorkerSpec,
    mode: str,
    system: SystemUnderTest[Outputs],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Return the result of one LoadGen run, scored if its mode is accuracy."""
    job, folder = spec.job, Path(spec.artefact_dir) / mode

    def tell(phase: str, done: int, total: int, values: Mapping[str, float]) -> None:
        total = max(done, total)
        on_progress(Progress(phase=phase, done=done, total=total, values=dict(values)))

    told = _spec_of(job, mode, folder, system.workload.batch_size, system.most_held)
    try:
        found = measured(told, tell, lambda: system.prepared(told))
    except RunnerFault as fault:
        blame = Blame(fault.blame)
        raise WorkerFault(Failure(blame=blame, kind=fault.kind, message=fault.message)) from fault
    result = with_files(Result.model_validate(found), job, mode, folder)
    if mode == "performance":
        return with_host_use(result, load_policy(str(job.knobs["policy"])), folder)
    if system.scored is None:
        return result
    return scored(result, system.scored, folder, repeats(job, system.truths, system.most_held))


def _spec_of(job: Job, mode: str, folder: Path, most: int, held: int) -> RunSpec:
    """Return what the runner is told; most: samples computed at once; held: in memory."""
    own = {
        "model": job.workload,
        "dataset": "",
        "log_dir": str(folder),
        "performance_sample_count": held,
        "threads": torch.get_num_threads(),
        "delegate": "none",
        "batch_size": most,
        "watch_host": True,
    }
    # MLPerf Inference, whose rules these runs go by, ends none early.
    return RunSpec.of(own | loadgen_spec(job, mode, RunLengths()) | {"max_duration_ms": 0})


def rules_missed(
    job: Job, result: Result, *, has_truths: bool, was_scored: bool
) -> tuple[str, ...]:
    """Return the run rules of MLPerf Inference that a result breaks.

    has_truths: of the samples; was_scored: whether their answers were.
    """
    length, policy = str(job.knobs["length"]), str(job.knobs["policy"])
    duration = result.metrics.get("duration")
    reasons = {
        RANDOM: weights_of(job) is None,
        OWN_DATA if has_truths else MADE_UP: True,
        UNKNOWN: not was_scored,
        OWN_TARGET: bool(job.knobs.get("quality_target")),
        f"length {length}": length != "normal",
        f"shorter than {LEAST_S:.0f} s": duration is None or duration.value < LEAST_S,
        f"policy {policy}": policy != "lab",
        f"scenario {job.scenario}": job.scenario == "server",  # its latency bound is the sweep's
        str(result.validity): result.validity is not Validity.VALID,
    }
    return tuple(reason for reason, is_so in reasons.items() if is_so)
