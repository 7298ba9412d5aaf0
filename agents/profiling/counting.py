"""The profile pass that counts: what the kernel and the CPU's counters say of each phase.

Its steps run as the plain run's do: no profiler, the same malloc.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agents.backends.protocol import TrainingBackend
from agents.profiling.names import COUNTERS
from agents.profiling.perf_stat import Perf, counted_by, probe
from agents.profiling.phases import PhasedProcess
from agents.profiling.software_counters import SoftwareCounters
from agents.scenarios.training import Steps, Trainer
from controller.contracts.base import Scalar
from controller.contracts.counters import Counters
from controller.contracts.policy import load_policy
from controller.contracts.result import Result, Validity
from controller.contracts.topdown import TopDown
from controller.contracts.wire import Progress
from controller.profiles.model import LOAD, PHASES
from models.training import Batch, Outputs, TrainingWorkload

OnProgress = Callable[[Progress], None]
Mark = Callable[[str], None]
"""Called with a phase as it begins; with an empty text between phases."""
MOST_STEPS = 5
WHOLE = "step"
BRIEF_S = 1e-3
"""Of a phase that perf may miss, without a word."""


def count(
    workload: TrainingWorkload[Batch, Outputs],
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    folder: Path,
    on_progress: OnProgress,
    find_perf: Callable[[], Perf | str] = probe,
    brief_s: float = BRIEF_S,
) -> Result:
    """Train some steps and count in each phase; return a result with the counters' path."""
    phases = Phases()
    trainer = Trainer(PhasedProcess(workload, backend, phases.within))
    for _ in range(max(1, int(knobs["warmup_steps"]))):
        trainer.step()
    steps_wanted = min(int(knobs["steps"]), MOST_STEPS)
    kernel = SoftwareCounters()
    trainer.restart()
    with trainer.beside_speed(knobs):
        _use_up(trainer)
        with trainer.timing():
            kernel.start()
            steps = phases.marked(kernel.enter, lambda: _steps(trainer, steps_wanted, on_progress))
            kernel.stop()
    section = trainer.section
    counted = [*kernel.per_step(len(steps))]
    brief = {counts.phase for counts in counted if counts.seconds < brief_s}
    hardware = _hardware(find_perf, phases, trainer, steps_wanted, folder, brief)
    result = trainer.result(steps, load_policy(str(knobs["policy"])), section)
    found = Counters(
        steps=len(steps),
        phases=tuple(
            counts.model_copy(update={"topdown": hardware.shares.get(counts.phase)})
            for counts in counted
        ),
        whole=hardware.shares.get(WHOLE),
        no_topdown=hardware.why_not,
        notes=() if result.validity is Validity.VALID else result.reasons,
    )
    path = folder / COUNTERS
    path.write_text(found.model_dump_json())
    return result.model_copy(update={"artefacts": {"counters": str(path)}})


def _use_up(trainer: Trainer) -> None:
    """Do the steps whose batches were loaded while nothing ran: no step of a run has these."""
    for _ in range(trainer.ahead):
        trainer.step()


def _steps(trainer: Trainer, count: int, on_progress: OnProgress) -> Steps:
    steps = []
    for number in range(count):
        steps.append(trainer.step())
        on_progress(Progress(phase="counting", done=number + 1, total=count))
    return steps


class _Hardware:
    """Top-down shares by phase and of the whole step, and why some of these have none."""

    def __init__(self, shares: Mapping[str, TopDown], why_not: str | None) -> None:
        self.shares, self.why_not = shares, why_not


class _None(NamedTuple):
    """Why nothing was counted."""

    happened: str
    said: str


def _hardware(
    find_perf: Callable[[], Perf | str],
    phases: Phases,
    trainer: Trainer,
    count: int,
    folder: Path,
    brief: Collection[str],
) -> _Hardware:
    """Count further steps: first whole ones, then each phase; two sessions would share counters.

    brief: phases that may have no shares.
    """
    perf = find_perf()
    if isinstance(perf, str):
        return _Hardware({}, perf)

    def train(mark: Mark) -> Steps:
        _use_up(trainer)
        return phases.marked(mark, lambda: _steps(trainer, count, lambda _: None))

    def whole(mark: Mark) -> Steps:
        # What is between phases is a part of the step; so is loading where the step waits for it.
        return train(lambda phase: mark("" if phase == LOAD and not trainer.waits else WHOLE))

    found = {
        **_counted(perf, [WHOLE], folder, whole),
        **_counted(perf, PHASES, folder, train),
    }
    shares = {phase: told for phase, told in found.items() if isinstance(told, TopDown)}
    missing: dict[_None, list[str]] = {}
    for phase, told in found.items():
        if isinstance(told, _None) and phase not in brief:
            name = "the whole step" if phase == WHOLE else phase
            missing.setdefault(told, []).append(name)
    reasons = [
        f"{perf.told} {why.happened} in {', '.join(names)}: {why.said}"
        for why, names in missing.items()
    ]
    return _Hardware(shares, "; ".join(reasons) or None)


def _counted(
    perf: Perf, phases: Sequence[str], folder: Path, run: Callable[[Mark], Steps]
) -> dict[str, TopDown | _None]:
    """Return what was counted in each phase of steps, which tell a mark of their phases."""
    try:
        with counted_by(perf, phases, folder) as (sessions, found):
            run(sessions.enter)
    except OSError as error:
        failed = _None("failed", str(error.strerror or error))
        return dict.fromkeys(phases, failed)
    return {
        phase: told if isinstance(told, TopDown) else _None("counted nothing", told[:160])
        for phase, told in found.items()
    }


class Phases:
    """Tells whoever listens which phase begins."""

    def __init__(self) -> None:
        self._mark: Mark | None = None

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        if self._mark:
            self._mark(phase)

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Tell of a phase and of its end; what follows the loss is backward."""
        self.enter(phase)
        try:
            yield
        finally:
            self.enter("backward" if phase == "loss" else "")

    def marked(self, mark: Mark, run: Callable[[], Steps]) -> Steps:
        """Run steps and tell `mark` of their phases."""
        self._mark = mark
        try:
            return run()
        finally:
            self._mark = None
