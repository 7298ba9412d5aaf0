"""Profile passes that trace training steps."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, record_function

from agents.backends.protocol import TrainingBackend
from agents.host.disturbance import objections
from agents.profiling.annotate import modules_marked, phase_marked
from agents.profiling.names import TRACE
from agents.profiling.phases import PhasedProcess
from agents.profiling.windows import MOST_WINDOWS, WINDOWS, Window, most_even
from agents.scenarios.training import Section, Steps, Trainer
from controller.contracts.base import Scalar
from controller.contracts.policy import load_policy
from controller.contracts.result import Result
from controller.contracts.wire import Progress
from controller.profiles.marks import STEP
from models.training import Batch, Outputs, TrainingWorkload

OnProgress = Callable[[Progress], None]
MOST_STEPS = 5
"""Enough for a mean; a trace grows with every step."""


def enable_onednn_verbose(log: Path) -> None:
    """Make oneDNN log each execution of this process to a file.

    Call before the first primitive, since oneDNN reads the environment once. It prints to the C
    library's standard output, which is redirected to the file.
    """
    os.environ["ONEDNN_VERBOSE"] = "profile_exec"
    os.environ["ONEDNN_VERBOSE_TIMESTAMP"] = "1"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.close(descriptor)


def name_compiled_kernels() -> None:
    """Make torch.compile's kernels visible to torch.profiler; call before torch.compile is
    imported."""
    os.environ["TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE"] = "1"


def flush() -> None:
    """Flush the C library's buffer of standard output."""
    ctypes.CDLL(None).fflush(None)


def capture(
    workload: TrainingWorkload[Batch, Outputs],
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    folder: Path,
    on_progress: OnProgress,
    most_windows: int = MOST_WINDOWS,
) -> Result:
    """Train some steps under torch.profiler; return a result with the trace's path.

    They are steps of the most even of some windows.
    """
    stepping = PhasedProcess(workload, backend, phase_marked)
    trainer = Trainer(stepping)
    for _ in range(max(1, int(knobs["warmup_steps"]))):
        trainer.step()
    count = min(int(knobs["steps"]), MOST_STEPS)
    policy, trace = load_policy(str(knobs["policy"])), folder / TRACE
    profilers: list[profile] = []
    with _profile():
        pass  # the first start takes a second, in which batches would be loaded

    def watch() -> Window[tuple[Steps, Section]]:
        trainer.restart()
        profilers[:] = [_profile()]
        with trainer.beside_speed(knobs), modules_marked(stepping.model):
            for _ in range(trainer.ahead):
                trainer.step()
            with profilers[0]:
                steps = _steps(trainer, count, on_progress)
        disturbed = objections(trainer.section.watch.timed, policy)
        return Window([seconds for seconds, _ in steps], bool(disturbed), (steps, trainer.section))

    def keep() -> None:
        profilers[0].export_chrome_trace(str(trace))

    best, windows = most_even(watch, keep, most_windows)
    flush()
    steps, section = best.kept
    result = trainer.result(steps, policy, section)
    told = {"environment": {**result.environment, WINDOWS: windows}}
    return result.model_copy(update={"artefacts": {"trace": str(trace)}, **told})


def _profile() -> profile:
    return profile(activities=[ProfilerActivity.CPU], record_shapes=True)


def _steps(trainer: Trainer, count: int, on_progress: OnProgress) -> Steps:
    steps = []
    trainer.step()  # The first one under the profiler is slower; before a mark, it is in none.
    with trainer.timing():
        for number in range(count):
            with record_function(f"{STEP}{number}"):
                steps.append(trainer.step())
            on_progress(Progress(phase="watching", done=number + 1, total=count))
    return steps
