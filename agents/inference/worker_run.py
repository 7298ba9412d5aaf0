"""LoadGen in a worker process: the model of a training workload answers queries on its stack.

LoadGen, its run lengths, its verdict, the gate for quiet and the files are those of a device's
runner. Samples are made up, and weights are random unless the knob `weights` names some, so that
speed is measured and accuracy is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic

import numpy as np
import torch
from numpy.typing import NDArray

from agents.backends.protocol import InferenceBackend
from agents.inference.on_device_result import with_facts, with_files, with_host_use
from agents.inference.run_length import MADE_UP_SAMPLES, loadgen_spec
from agents.inference.runner.audited import batched_session_of, batched_warmth_of, session_of
from agents.inference.runner.batched_session import batch_sizes
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.graphs import Sample
from agents.inference.runner.measuring import Prepared, measured
from agents.inference.runner.session import Session
from agents.inference.runner.spec import AT_ONCE, RunSpec
from agents.inference.runner.thread_use import ThreadUse
from agents.stacks.resolving import resolve
from controller.contracts.errors import WorkerFault
from controller.contracts.mobile import RunLengths
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Failure, Result, Validity
from controller.contracts.weights import KNOB, NO_WEIGHTS
from controller.contracts.wire import Job, Progress, TrainingProgram, WorkerSpec
from models.inference import InferenceWorkload
from models.training import Outputs

MODE: Final = "performance"
"""The only mode: a submission, too, is a performance run where no truth is known."""
LEAST_S: Final = 600.0
"""Least duration of a run of MLPerf Inference."""
RANDOM: Final = "random weights"
NOT_BY_THE_RULES: Final = ("made-up samples", "accuracy not known")
"""The run rules of MLPerf Inference that no run meets here."""


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


def run(spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Result:
    """Measure the job's model with LoadGen; raises WorkerFault."""
    job, program = spec.job, spec.job.program
    if not isinstance(program, TrainingProgram):
        raise TypeError(f"{job.workload} runs in a device's own runtime")
    backend = resolve(program.backend)(job.knobs)
    if not isinstance(backend, InferenceBackend):
        message = f"stack {job.stack} trains only. Use another stack, or scenario training."
        raise WorkerFault(Failure(blame=Blame.USER, kind="no_inference", message=message))
    workload = resolve(program.builder)(**program.arguments)
    folder = Path(spec.artefact_dir) / MODE

    def tell(phase: str, done: int, total: int, values: Mapping[str, float]) -> None:
        total = max(done, total)
        on_progress(Progress(phase=phase, done=done, total=total, values=dict(values)))

    weights = weights_of(job) or "random"
    told = _spec_of(job, folder, workload.batch_size)
    try:
        found = measured(told, tell, lambda: _prepared(told, workload, backend, weights))
    except RunnerFault as fault:
        blame = Blame(fault.blame)
        raise WorkerFault(Failure(blame=blame, kind=fault.kind, message=fault.message)) from fault
    return _judged(Result.model_validate(found), job, folder)


def _spec_of(job: Job, folder: Path, most: int) -> RunSpec:
    own = {
        "model": job.workload,
        "dataset": "",
        "log_dir": str(folder),
        "performance_sample_count": MADE_UP_SAMPLES,
        "threads": torch.get_num_threads(),
        "delegate": "none",
        "batch_size": most,
        "watch_host": True,
    }
    # MLPerf Inference, whose rules these runs go by, ends none early.
    return RunSpec.of(own | loadgen_spec(job, MODE, RunLengths()) | {"max_duration_ms": 0})


def _prepared(
    spec: RunSpec,
    workload: InferenceWorkload[Outputs],
    backend: InferenceBackend,
    weights: str,
) -> Prepared:
    """Build the model and warm it up with every batch size that the run has.

    weights: where they come from, for the fact of that name.
    """
    dataset = Dataset([workload.samples(spec.performance_sample_count).numpy()])
    sizes = batch_sizes(spec.queried_at_once, spec.batch_size)
    system = TorchSystem(workload, backend, workload.samples(sizes[0]))
    used = ThreadUse.now()
    warmth = batched_warmth_of(spec, system, system.prepare(dataset[0]), sizes)
    facts = {
        **backend.environment(),
        "threads_used": used.threads_since() if warmth.runs else None,
        AT_ONCE: sizes[0],
        "weights": weights,
    }
    if sizes[0] > 1:
        session: Session = batched_session_of(system, dataset, spec, sizes[0])
    else:
        session = session_of(system, dataset, spec)
    return Prepared(session, warmth, len(dataset), facts)


def _judged(result: Result, job: Job, folder: Path) -> Result:
    """Add what the run's files say, and judge it by its policy."""
    result = with_files(result, job, MODE, folder)
    result = with_host_use(result, load_policy(str(job.knobs["policy"])), folder)
    return with_facts(result, rules_missed(job, result))


def rules_missed(job: Job, result: Result) -> tuple[str, ...]:
    """Return the run rules of MLPerf Inference that a result breaks."""
    length, policy = str(job.knobs["length"]), str(job.knobs["policy"])
    duration = result.metrics.get("duration")
    others = {
        f"length {length}": length != "normal",
        f"shorter than {LEAST_S:.0f} s": duration is None or duration.value < LEAST_S,
        f"policy {policy}": policy != "lab",
        f"scenario {job.scenario}": job.scenario == "server",  # its latency bound is the sweep's
        str(result.validity): result.validity is not Validity.VALID,
    }
    missed = (reason for reason, is_so in others.items() if is_so)
    return (*(() if weights_of(job) else (RANDOM,)), *NOT_BY_THE_RULES, *missed)


def weights_of(job: Job) -> str | None:
    """Return the name of the weights that the model begins with; None: random ones."""
    name = job.knobs.get(KNOB)
    return None if name in (None, NO_WEIGHTS) else str(name)
