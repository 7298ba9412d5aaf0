"""Which passes of a profile run again, how often, and which of them counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.attempts.repeats import MOST_RUNS
from controller.contracts.result import Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec
from tests.support import builders
from tests.support.planted_step import STEP_S, planted
from tests.support.profiling_workers import Timed, Watching, profiled_by, spec_in, stepped

EVEN = (STEP_S, STEP_S)
UNEVEN = (STEP_S, 7 * STEP_S)


@dataclass
class Unsteady(Watching):
    """Watches with uneven steps at first."""

    uneven: int = 0
    """Runs of the trace pass whose steps are uneven."""
    traces: list[Result] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        outcome = await super().run(spec, on_progress)
        if spec.profile_pass != "trace" or not isinstance(outcome, Result):
            return outcome
        steps = UNEVEN if len(self.traces) < self.uneven else EVEN
        told = outcome.model_copy(update={"metrics": stepped(*steps).metrics})
        self.traces.append(told)
        return told


@pytest.mark.parametrize(
    ("uneven", "runs"), [(0, 1), (1, 2), (2, 3), (MOST_RUNS, MOST_RUNS), (99, MOST_RUNS)]
)
async def test_a_trace_of_uneven_steps_is_made_again(
    tmp_path: Path, uneven: int, runs: int
) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    workers = Unsteady(recorded, step_s=STEP_S, uneven=uneven)
    runner = profiled_by(Timed(builders.result(STEP_S)), workers, tmp_path)
    result = await runner.run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    assert workers.parts == [*["trace"] * runs, "verbose", "replay", "peaks"]
    assert result.metrics["traced_step_time"].value == workers.traces[-1].metrics["step_time"].value
    told = [note for note in result.profile.notes if "trace run" in note]
    assert told == (
        [f"the trace run was done {runs} times, since its times were uneven; the last counts"]
        if runs > 1
        else []
    )
