"""A training workload's model under LoadGen, in a worker process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.result import Result
from controller.contracts.units import Unit
from controller.scheduling.expansion import cells_of
from tests.support import builders
from tests.support.cells import CATALOG, run_cell
from tests.support.validity import MET_RULES

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]


async def test_a_batched_offline_run_has_loadgen_s_verdict_and_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    knobs = {"image_size": 32, "num_classes": 8, "batch_size": 24, "threads": 1}
    sweep = builders.sweep(workload="resnet50", stack="torch", scenario="offline", knobs=knobs)
    (cell,) = cells_of(sweep, CATALOG)
    outcome = await run_cell(cell, tmp_path, tmp_path, deadline_s=120, scenario="offline")
    assert isinstance(outcome, Result), outcome
    assert outcome.validity in MET_RULES
    throughput, facts = outcome.metrics["throughput"], outcome.environment
    assert throughput.unit is Unit.IMAGES_PER_SECOND
    duration_s = outcome.metrics["duration"].value
    # LoadGen rounds samples a second to six digits.
    assert throughput.value == pytest.approx(64 / duration_s, rel=1e-4)
    # Three batches are three measurements, which predict nothing.
    assert not any(name.startswith("predicted") for name in outcome.metrics)
    assert (facts["samples"], facts["samples_at_once"], facts["weights"]) == (64, 24, "random")
    assert facts["meets_run_rules"] is False
    assert {"timed_other_cores", "loadgen", "torch"} < facts.keys()
    kept = {name.removeprefix("performance_") for name in outcome.artefacts}
    kept.discard("loadgen_trace")  # of models that are slow enough
    assert kept == {"latencies", "loadgen_detail", "loadgen_summary", "conditions", "host_use"}
    assert all(Path(path).is_file() for path in outcome.artefacts.values())
