"""The profile pass that counts: what the kernel and the CPU's counters say of each phase.

Its steps run as the plain run's do: no profiler, the same malloc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Generic

import torch

from agents.backends.protocol import TrainingBackend
from agents.backends.stepping import OneProcess
from agents.profiling.names import COUNTERS
from agents.profiling.perf_stat import Perf, counted_by, probe
from agents.profiling.software_counters import SoftwareCounters
from agents.scenarios.training import Steps, Trainer
from controller.contracts.base import Scalar
from controller.contracts.counters import Counters
from controller.contracts.policy import load_policy
from controller.contracts.result import Result, Validity
from controller.contracts.topdown import TopDown
from controller.contracts.wire import Progress
from controller.profiles.model import PHASES
from models.training import Batch, Outputs, TrainingWorkload

OnProgress = Callable[[Progress], None]
Mark = Callable[[str], None]
"""Called with a phase as it begins; with an empty text between phases."""
MOST_STEPS = 5
WHOLE = "step"


def count(
    workload: TrainingWorkload[Batch, Outputs],
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    folder: Path,
    on_progress: OnProgress,
    find_perf: Callable[[], Perf | str] = probe,
) -> Result:
    """Train some steps and count in each phase; return a result with the counters' path."""
    phases = Phases()
    trainer = Trainer(MarkedProcess(workload, backend, phases))
    for _ in range(max(1, int(knobs["warmup_steps"]))):
        trainer.step()
    steps_wanted = min(int(knobs["steps"]), MOST_STEPS)
    kernel = SoftwareCounters()
    trainer.restart()
    with trainer.timing():
        kernel.start()
        steps = phases.marked(kernel.enter, lambda: _steps(trainer, steps_wanted, on_progress))
        kernel.stop()
    section = trainer.section
    hardware = _hardware(find_perf, phases, trainer, steps_wanted, folder)
    result = trainer.result(steps, load_policy(str(knobs["policy"])), section)
    found = Counters(
        steps=len(steps),
        phases=tuple(
            counts.model_copy(update={"topdown": hardware.shares.get(counts.phase)})
            for counts in kernel.per_step(len(steps))
        ),
        whole=hardware.shares.get(WHOLE),
        no_topdown=hardware.why_not,
        notes=() if result.validity is Validity.VALID else result.reasons,
    )
    path = folder / COUNTERS
    path.write_text(found.model_dump_json())
    return result.model_copy(update={"artefacts": {"counters": str(path)}})


def _steps(trainer: Trainer, count: int, on_progress: OnProgress) -> Steps:
    steps = []
    for number in range(count):
        steps.append(trainer.step())
        on_progress(Progress(phase="counting", done=number + 1, total=count))
    return steps


class _Hardware:
    """Top-down shares by phase and of the whole step, or why there are none."""

    def __init__(self, shares: Mapping[str, TopDown], why_not: str | None) -> None:
        self.shares, self.why_not = shares, why_not


def _hardware(
    find_perf: Callable[[], Perf | str],
    phases: Phases,
    trainer: Trainer,
    count: int,
    folder: Path,
) -> _Hardware:
    """Count further steps: first whole ones, then each phase; two sessions would share counters."""
    perf = find_perf()
    if isinstance(perf, str):
        return _Hardware({}, perf)

    def train() -> Steps:
        return _steps(trainer, count, lambda _: None)

    try:
        with counted_by(perf, [WHOLE], folder) as (whole, found):
            whole.enter(WHOLE)
            train()
        with counted_by(perf, PHASES, folder) as (by_phase, of_phases):
            phases.marked(by_phase.enter, train)
        found |= of_phases
    except OSError as error:
        return _Hardware({}, f"{perf.told} failed: {error.strerror or error}")
    shares = {phase: told for phase, told in found.items() if isinstance(told, TopDown)}
    said = [told for told in found.values() if isinstance(told, str)]
    return _Hardware(shares, None if shares else f"{perf.told} counted nothing: {said[0][:160]}")


class Phases:
    """Tells whoever listens which phase begins."""

    def __init__(self) -> None:
        self._mark: Mark | None = None

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        if self._mark:
            self._mark(phase)

    def marked(self, mark: Mark, run: Callable[[], Steps]) -> Steps:
        """Run steps and tell `mark` of their phases."""
        self._mark = mark
        try:
            return run()
        finally:
            self._mark = None


class MarkedProcess(OneProcess[Batch, Outputs]):
    """Training in this process that tells of its phases."""

    def __init__(
        self,
        workload: TrainingWorkload[Batch, Outputs],
        backend: TrainingBackend,
        phases: Phases,
    ) -> None:
        super().__init__(MarkedWorkload(workload, phases), backend)
        self._phases = phases

    def start(self) -> None:
        """See Stepping.start."""
        super().start()
        step, phases = self._optimizer.step, self._phases

        # On the object: stacks replace the method, and hooks of its class are then not called.
        @wraps(step)
        def marked(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever a stack hands in
            phases.enter("optimizer")
            try:
                return step(*given, **named)
            finally:
                phases.enter("")

        self._optimizer.step = marked  # type: ignore[method-assign]


class MarkedWorkload(Generic[Batch, Outputs]):
    """A TrainingWorkload that tells of its phases; backward is from the loss to the optimizer."""

    def __init__(self, workload: TrainingWorkload[Batch, Outputs], phases: Phases) -> None:
        self._workload, self._phases = workload, phases
        self.batch_size = workload.batch_size

    def build_model(self) -> torch.nn.Module:
        """See TrainingWorkload.build_model."""
        return self._workload.build_model()

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """See TrainingWorkload.build_optimizer."""
        return self._workload.build_optimizer(model)

    def batch(self, step: int) -> Batch:
        """See TrainingWorkload.batch."""
        self._phases.enter("load")
        batch = self._workload.batch(step)
        self._phases.enter("")
        return batch

    def forward(self, model: torch.nn.Module, batch: Batch) -> Outputs:
        """See TrainingWorkload.forward."""
        self._phases.enter("forward")
        outputs = self._workload.forward(model, batch)
        self._phases.enter("")
        return outputs

    def loss(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        """See TrainingWorkload.loss."""
        self._phases.enter("loss")
        loss = self._workload.loss(outputs, batch)
        self._phases.enter("backward")
        return loss
