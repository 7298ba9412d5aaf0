"""A worker that trains on images: its own loading processes are no disturbance, and a data set that
is damaged is one line, with blame user."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.base import Scalar
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.units import Unit
from controller.scheduling.expansion import cells_of
from tests.support import builders
from tests.support.cells import CATALOG, run_cell
from tests.support.image_sets import write

pytestmark = pytest.mark.integration

SMALL: dict[str, Scalar] = {
    "image_size": 96,
    "num_classes": 2,
    "loader_workers": 2,
    "steps": 8,
    "warmup_steps": 0,
    "threads": 1,
}


async def loaded(folder: Path, data: str) -> Outcome:
    sweep = builders.sweep(
        workload="retinanet_images",
        scenario="data_loading",
        knobs={name: (value,) for name, value in {**SMALL, "data": data}.items()},
    )
    (cell,) = cells_of(sweep, CATALOG)
    return await run_cell(cell, folder, folder / "stacks", deadline_s=100)


async def test_images_are_loaded_by_processes_until_one_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFARM_DATA", str(tmp_path))
    write(tmp_path, "whole")
    damaged = write(tmp_path, "damaged") / "images" / "3.jpg"
    damaged.write_bytes(damaged.read_bytes()[:300])

    failed = await loaded(tmp_path / "first", "damaged")
    assert isinstance(failed, Failure), failed
    assert failed.blame is Blame.USER
    assert failed.message.startswith(f"cannot read {damaged}: images[3].file_name of annotations")
    assert "\n" not in failed.message

    outcome = await loaded(tmp_path / "second", "whole")
    assert isinstance(outcome, Result), outcome
    assert outcome.metrics["throughput"].unit is Unit.IMAGES_PER_SECOND
    assert outcome.environment["data_images"] == 4
