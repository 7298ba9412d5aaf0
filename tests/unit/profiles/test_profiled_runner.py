"""A profiled job: timed first, watched in parts of its own, and what becomes of each outcome."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from agents.attempts.profiled import ProfiledRunner
from agents.attempts.worker_process import WorkerProcess
from agents.profiling.names import LOG, TASKS, TIMES
from controller.contracts.profile import Peaks
from controller.contracts.result import Failure, Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec
from controller.profiles.files import read
from controller.profiles.marks import REPLAY
from tests.support import builders

PEAKS = Peaks(gemm_flops={"f32": 1e11}, copy_bytes=1e10)
ALONE_S = 1e-3
BODY = "cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0,,,8x8"


@dataclass
class Timed:
    """An AttemptRunner that has timed."""

    outcome: Outcome = field(default_factory=builders.result)
    asked: list[WorkerSpec] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.asked.append(spec)
        return self.outcome

    async def clean(self) -> int:
        return 3


@dataclass
class Watching:
    """Does what profiling workers do, with files that one of them wrote before."""

    recorded: Path
    failing: str | None = None
    parts: list[str] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        assert spec.profile_pass
        self.parts.append(spec.profile_pass)
        if spec.profile_pass == self.failing:
            return builders.failure()
        folder = Path(spec.artefact_dir)
        result = builders.result(step_s=0.5)
        return result.model_copy(
            update={"artefacts": getattr(self, f"_{spec.profile_pass}")(folder)}
        )

    def _trace(self, folder: Path) -> dict[str, str]:
        return {"trace": str(shutil.copy(self.recorded / "trace.json", folder))}

    def _verbose(self, folder: Path) -> dict[str, str]:
        log = shutil.copy(self.recorded / "verbose.log", folder / LOG)
        return {**self._trace(folder), "verbose": str(log)}

    def _replay(self, folder: Path) -> dict[str, str]:
        """Every kernel takes ALONE_S, and runs one primitive that no profile has."""
        tasks = json.loads((folder / TASKS).read_text())
        done = [{"key": task["key"], "samples": [ALONE_S] * 5} for task in tasks]
        (folder / TIMES).write_text(json.dumps(done))
        said = [f"{REPLAY}0\nonednn_verbose,v1,primitive,exec,{BODY},1.5\n{REPLAY}\n"]
        (folder / LOG).write_text("".join(said))
        return {"replay_times": str(folder / TIMES), "verbose": str(folder / LOG)}

    def _peaks(self, folder: Path) -> dict[str, str]:
        (folder / "peaks.json").write_text(PEAKS.model_dump_json())
        return {"peaks": str(folder / "peaks.json")}


def profiled_by(timed: Timed, workers: Watching, folder: Path) -> ProfiledRunner:
    return ProfiledRunner(timed, cast("WorkerProcess", workers), folder / "peaks")


def spec_in(folder: Path, *, profiled: bool = True) -> WorkerSpec:
    spec = builders.worker_spec(str(folder))
    return spec.model_copy(update={"job": spec.job.model_copy(update={"profiled": profiled})})


async def test_a_job_is_timed_then_watched_and_keeps_its_own_time(
    profiled: Path, tmp_path: Path
) -> None:
    workers = Watching(profiled)
    result = await profiled_by(Timed(), workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert workers.parts == ["trace", "verbose", "replay", "peaks"]
    assert result.metrics["step_time"].value == 0.25
    assert result.metrics["traced_step_time"].value == 0.5
    assert result.metrics["matched"].value == 1.0
    assert result.metrics["headroom"].value >= 0
    assert result.profile
    assert result.profile.peaks == PEAKS
    kept = read(Path(result.artefacts["profile"]))
    assert kept.summary == result.profile
    outside = [row for row in kept.kernels if row.place.kernel == "aten::addmm"]
    assert outside
    assert all(row.replay and row.replay.seconds == ALONE_S for row in outside)


async def test_another_malloc_of_the_watched_steps_is_noted(profiled: Path, tmp_path: Path) -> None:
    timed = builders.result().model_copy(update={"environment": {"malloc": "glibc 2.36"}})
    transport = profiled_by(Timed(timed), Watching(profiled), tmp_path)
    result = await transport.run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    assert any("timed with glibc 2.36, and watched" in note for note in result.profile.notes)


async def test_peaks_are_measured_once_for_the_same_settings(
    profiled: Path, tmp_path: Path
) -> None:
    workers = Watching(profiled)
    transport = profiled_by(Timed(), workers, tmp_path)
    for _ in range(2):
        assert await transport.machine_peaks(spec_in(tmp_path)) == PEAKS
    assert workers.parts == ["peaks"]
    await transport.machine_peaks(spec_in(tmp_path), again=True)
    assert workers.parts == ["peaks"] * 2


@pytest.mark.parametrize("case", ["not asked for", "failed"])
async def test_what_is_not_to_be_profiled_is_passed_on(
    case: str, profiled: Path, tmp_path: Path
) -> None:
    failed = case == "failed"
    timed = Timed(builders.failure()) if failed else Timed()
    workers = Watching(profiled)
    spec = spec_in(tmp_path, profiled=failed)
    found = await profiled_by(timed, workers, tmp_path).run(spec, lambda _: None)
    assert found is timed.outcome
    assert workers.parts == []


@pytest.mark.parametrize("part", ["trace", "verbose", "replay", "peaks"])
async def test_a_part_that_fails_is_named(part: str, profiled: Path, tmp_path: Path) -> None:
    workers = Watching(profiled, failing=part)
    found = await profiled_by(Timed(), workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    assert isinstance(found, Failure)
    assert found.message == f"profiling, {part} run: it ended"
    assert found.blame is builders.failure().blame
    assert workers.parts[-1] == part


async def test_cleaning_is_the_timing_transports(profiled: Path, tmp_path: Path) -> None:
    assert await profiled_by(Timed(), Watching(profiled), tmp_path).clean() == 3
