"""Memory that really runs out: the kernel ends what took it, and nobody else anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.run import RunState
from tests.integration.farm import TestFarm, farm_up, training_sweep
from tests.support.memory_limit import limited_memory

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

LIMIT_BYTES = 4 << 30
"""For the farm, which takes less than 1 GiB of it, and one training run."""
KNOBS = {"num_classes": 8, "threads": 1, "warmup_steps": 1, "steps": 2}
RECIPES = {
    "too-large": {"batch_size": 32, "image_size": 512},
    "small": {"batch_size": 2, "image_size": 96},
}


def test_a_run_that_takes_all_memory_fails_and_the_sweep_goes_on(tmp_path: Path) -> None:
    with (
        limited_memory(LIMIT_BYTES) as memory,
        farm_up(tmp_path / "home", within=memory.within) as farm,
    ):
        before = pids(farm)
        sweep_id = farm.submit(training_sweep("too-large", knobs=KNOBS, recipes=RECIPES))
        assert farm.cli("sweep", "watch", sweep_id).status == 1
        assert [run.state for run in farm.runs(sweep_id)] == [RunState.FAILED, RunState.DONE]
        shown = farm.cli("results", "list", "--sweep", sweep_id, "--failures", "--json").json
        ended = len(before - pids(farm))
        (too_large, _) = farm.runs(sweep_id)
        # Before what the kernel has ended gives its memory back, it may end one of the farm, which
        # is then started again, and the run with it. Nobody else ends anything.
        assert memory.kills() == len(too_large.attempts) + ended
    *lost, failure = shown
    assert len(lost) <= ended
    assert (failure["blame"], failure["kind"]) == ("workload", "out_of_memory")
    assert failure["message"].startswith(
        "killed by the kernel: the host, or its control group, ran out of memory. Make "
    )
    assert failure["knobs"]["batch_size"] == RECIPES["too-large"]["batch_size"]


def pids(farm: TestFarm) -> set[int]:
    """Return what is to outlive a run: Ray ends these at 95 % of memory if it is let."""
    return {farm.the_process(word).pid for word in ("ray::Controller", "ray::AgentActor")}
