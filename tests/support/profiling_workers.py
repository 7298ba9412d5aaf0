"""Stand-ins for what times and watches a profiled job, with recorded files and planted figures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agents.attempts.kept_peaks import KeptPeaks
from agents.attempts.profiled import ProfiledRunner
from agents.attempts.worker_process import WorkerProcess
from agents.profiling.names import COUNTERS, LOG, TASKS, TIMES
from agents.profiling.windows import WINDOWS
from controller.contracts.base import Scalar
from controller.contracts.counters import Counters, PhaseCounts
from controller.contracts.peaks import BEYOND_CACHES, COPY, RATES, UPDATE, Peaks, Rate, Roof
from controller.contracts.result import Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Progress, WorkerSpec
from controller.profiles.marks import REPLAY
from tests.support import builders

NOW_S, DATE = 1_795_253_000.0, "2026-11-21T09:23:20+00:00"
RATES_MEASURED = {
    "f32": Rate(best=1e11, median=9e10, runs=8),
    COPY: Rate(best=1e10, median=9.5e9, runs=8, array_bytes=BEYOND_CACHES),
    UPDATE: Rate(best=1.5e10, median=1.4e10, runs=8, array_bytes=BEYOND_CACHES),
}
ROOFS = {
    name: Roof(**rate.model_dump(), source="stack torch", date=DATE)
    for name, rate in RATES_MEASURED.items()
}
PEAKS = Peaks(
    gemm_flops={"f32": 1e11}, copy_bytes=1e10, update_bytes=1.5e10, measured_at=DATE, roofs=ROOFS
)
ALONE_S = 1e-3
COUNTED = Counters(
    steps=2,
    phases=(
        PhaseCounts(
            phase="forward",
            seconds=0.125,
            minor_faults=1500,
            major_faults=0,
            voluntary_switches=12,
            involuntary_switches=3,
            migrations=1,
            user_s=0.25,
            system_s=0.03125,
        ),
    ),
    no_topdown="the kernel has no counters of this CPU (no PMU)",
)
BODY = "cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0,,,8x8"


@dataclass
class Timed:
    """An AttemptRunner that has timed."""

    outcome: Outcome = field(default_factory=builders.result)
    compared: Outcome = field(default_factory=builders.failure)
    """With a candidate."""
    asked: list[WorkerSpec] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        self.asked.append(spec)
        return self.compared if spec.job.candidate else self.outcome

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return 3


@dataclass
class Watching:
    """Does what profiling workers do, with files that one of them wrote before."""

    recorded: Path
    failing: str | None = None
    step_s: float = 0.5
    disturbed: str | None = None
    """A part that is not VALID."""
    validity: Validity = Validity.INVALID
    """Of that part."""
    speed: float = 1.0
    """Of the machine while its peaks are measured."""
    steps: tuple[float, ...] = ()
    """Steps in seconds of a watched run; by default, one of `step_s`."""
    alone: tuple[str, float] = (BODY, 1.5e-3)
    """A primitive that the replay runs, and its seconds."""
    windows: int = 1
    """How many windows of steps a watched run had."""
    gflops: float = 200.0
    """Of a matrix product beside the traced steps."""
    malloc: str | None = None
    """Of the watched steps."""
    parts: list[str] = field(default_factory=list)
    asked: list[int | None] = field(default_factory=list)
    """The most windows that each part was asked for."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """Do the spec's pass."""
        assert spec.profile_pass
        self.parts.append(spec.profile_pass)
        self.asked.append(spec.most_windows)
        if spec.profile_pass == self.failing:
            return builders.failure()
        folder = Path(spec.artefact_dir)
        result = stepped(*self.steps or (self.step_s,))
        result = result.model_copy(update={"environment": {WINDOWS: self.windows}})
        if spec.profile_pass == "trace":
            environment = {**result.environment, "matmul_gflops": self.gflops}
            environment |= {"malloc": self.malloc} if self.malloc else {}
            result = result.model_copy(update={"environment": environment})
        if spec.profile_pass == self.disturbed:
            told = {"validity": self.validity, "reasons": ("others were busy",)}
            result = result.model_copy(update=told)
        return result.model_copy(
            update={"artefacts": getattr(self, f"_{spec.profile_pass}")(folder)}
        )

    def _trace(self, folder: Path) -> dict[str, str]:
        return {"trace": str(shutil.copy(self.recorded / "trace.json", folder))}

    def _verbose(self, folder: Path) -> dict[str, str]:
        log = shutil.copy(self.recorded / "verbose.log", folder / LOG)
        return {**self._trace(folder), "verbose": str(log)}

    def _replay(self, folder: Path) -> dict[str, str]:
        """Every kernel takes ALONE_S, and runs one primitive."""
        tasks = json.loads((folder / TASKS).read_text())
        done = [{"key": task["key"], "samples": [ALONE_S] * 5} for task in tasks]
        (folder / TIMES).write_text(json.dumps(done))
        body, seconds = self.alone
        line = f"onednn_verbose,v1,primitive,exec,{body},{seconds * 1e3}\n"
        (folder / LOG).write_text(f"{REPLAY}0\n{line * 5}{REPLAY}\n")
        return {"replay_times": str(folder / TIMES), "verbose": str(folder / LOG)}

    def _counters(self, folder: Path) -> dict[str, str]:
        (folder / COUNTERS).write_text(COUNTED.model_dump_json())
        return {"counters": str(folder / COUNTERS)}

    def _peaks(self, folder: Path) -> dict[str, str]:
        rates = {
            name: rate.model_copy(update={"best": rate.best * self.speed})
            for name, rate in RATES_MEASURED.items()
        }
        (folder / "peaks.json").write_bytes(RATES.dump_json(rates))
        return {"peaks": str(folder / "peaks.json")}


def stepped(*steps: float) -> Result:
    """Return a VALID result of steps in seconds."""
    metrics = {"step_time": Measurement.of_samples(steps, Unit.SECONDS)}
    return builders.result().model_copy(update={"metrics": metrics})


def profiled_by(timed: Timed, workers: Watching, folder: Path) -> ProfiledRunner:
    """Return a runner with peaks in the folder."""
    return ProfiledRunner(
        timed, cast("WorkerProcess", workers), KeptPeaks(folder / "peaks"), now=lambda: NOW_S
    )


def spec_in(
    folder: Path, *, profiled: bool = True, stack: str = "torch", **knobs: Scalar
) -> WorkerSpec:
    """Return a job whose files are in the folder."""
    spec = builders.worker_spec(str(folder))
    told = {"profiled": profiled, "stack": stack, "knobs": {**spec.job.knobs, **knobs}}
    return spec.model_copy(update={"job": spec.job.model_copy(update=told)})
