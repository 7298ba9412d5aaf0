"""Real cells of the real catalogue, run by a real worker without a farm."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from agents.stacks.interpreter import stack_worker
from agents.transports.local import LocalProcess
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Outcome
from controller.contracts.sweep import Cell
from controller.contracts.wire import WorkerSpec
from controller.scheduling.program import program_of
from tests.support import builders

CATALOG = load_catalog()


async def run_cell(
    cell: Cell, folder: Path, stacks: Path, deadline_s: float, scenario: str = "training"
) -> Outcome:
    """Run a cell on this host; stacks: the folder of the stacks' environments."""
    folder.mkdir(exist_ok=True)
    # A name of its own: whatever ends the workers of an attempt leaves those of others alone.
    ref = builders.ref(f"cell-{os.getpid()}")
    job = builders.job(ref, deadline_s=deadline_s).model_copy(
        update={
            "workload": cell.workload,
            "stack": cell.stack,
            "scenario": scenario,
            "knobs": cell.knobs,
            "program": program_of(cell, CATALOG),
        }
    )
    device = builders.cpu(cores=frozenset(os.sched_getaffinity(0)))
    spec = WorkerSpec(job=job, device=device, artefact_dir=str(folder))
    worker = LocalProcess(f"test-cells-{os.getpid()}", partial(stack_worker, stacks))
    return await worker.run(spec, lambda _: None)
