"""Small language models train compiled, as plain fp32 does; unit tests train them eagerly."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.stacks.environments import stacks_folder
from controller.contracts.base import Scalar
from controller.contracts.result import Result
from controller.contracts.units import Unit
from controller.runtime.home import Home
from controller.scheduling.expansion import cells_of
from tests.support import builders
from tests.support.cells import CATALOG, run_cell
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

SMALL: dict[str, Scalar] = {
    "layers": 1,
    "hidden_size": 64,
    "sequence_length": 12,
    "vocabulary_size": 50,
    "batch_size": 4,
}
RUN: dict[str, Scalar] = {"warmup_steps": 0, "steps": 8, "threads": 1}


async def trained(
    folder: Path, workload: str, precision: str, scenario: str = "training", **run: Scalar
) -> Result:
    stacks = stacks_folder(Home.from_environment().path)
    knobs = {name: (value,) for name, value in (SMALL | (run or RUN)).items()}
    sweep = builders.sweep(
        workload=workload,
        stack="torch-compile",
        scenario=scenario,
        knobs={**knobs, "precision": (precision,)},
    )
    (cell,) = cells_of(sweep, CATALOG)
    outcome = await run_cell(cell, folder, stacks, deadline_s=800)
    assert isinstance(outcome, Result), outcome
    return outcome


@pytest.mark.parametrize(
    ("workload", "precision"),
    [("lstm", "fp32"), ("transformer_encoder", "bf16")],
)
async def test_it_trains(tmp_path: Path, workload: str, precision: str) -> None:
    result = await trained(tmp_path, workload, precision)
    assert result.validity in MET_RULES
    losses = result.metrics["loss"].samples
    assert losses[4] < losses[0], "the batches come again after four steps"
    assert result.metrics["throughput"].unit is Unit.SEQUENCES_PER_SECOND


async def test_it_follows_plain_fp32(tmp_path: Path) -> None:
    run = {"steps": 10, "gradient_batches": 2, "threads": 1}
    result = await trained(tmp_path, "lstm", "bf16", "training_accuracy", **run)
    assert result.validity == "VALID", result.reasons
    assert len(result.metrics["loss"].samples) == 10
    # Compiled code rounds elsewhere than eager code: a loss that is bit-equal was not compiled.
    assert result.metrics["loss_deviation"].value > 0
