"""Real cells of the real catalogue, run by a real worker without a farm.

`python -m tests.support.cells FOLDER < SWEEP` runs a sweep's only cell within 100 s, and prints its
outcome as JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from agents.attempts.worker_process import WorkerProcess
from agents.host.cpu import cpu_flags, read_cpuinfo
from agents.stacks.interpreter import stack_worker
from controller.contracts.catalog import load_catalog
from controller.contracts.facts import undeclared
from controller.contracts.result import Outcome
from controller.contracts.sweep import Cell
from controller.contracts.sweep_file import parse_sweep
from controller.contracts.wire import WorkerSpec
from controller.platform import inherited
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import completed, program_of
from tests.support import builders
from tests.support.docs_examples import ROOT
from tests.support.processes import OWNER

CATALOG = load_catalog()
_FLAGS = cpu_flags(read_cpuinfo())
IPEX_HAS_BF16 = "avx_ne_convert" in _FLAGS or {"avx512bw", "avx512vl", "avx512dq"} <= {*_FLAGS}
"""Whether ipex.optimize takes bf16 models on this CPU, as its own check has it."""


@contextmanager
def importable_tests() -> Iterator[None]:
    """Let workers import what is in `tests`, such as the builder of a workload.

    A worker inherits no such path from who started the farm.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(inherited, "KEPT", inherited.KEPT | {"PYTHONPATH"})
        yield


async def run_cell(
    cell: Cell,
    folder: Path,
    stacks: Path,
    deadline_s: float,
    scenario: str | None = None,
    builder: str | None = None,
) -> Outcome:
    """Run a cell on this host.

    stacks: the folder of the stacks' environments; the others are those of `job_of`.
    """
    folder.mkdir(exist_ok=True)
    worker = WorkerProcess(OWNER, partial(stack_worker, stacks))
    outcome = await worker.run(job_of(cell, folder, deadline_s, scenario, builder), lambda _: None)
    assert undeclared(outcome.environment, CATALOG.own_facts) == []
    return outcome


def job_of(
    cell: Cell,
    folder: Path,
    deadline_s: float,
    scenario: str | None = None,
    builder: str | None = None,
) -> WorkerSpec:
    """Return a cell's job on this host.

    builder: of a workload that takes the place of the cell's.
    """
    cell = completed(cell, CATALOG)  # as the controller does
    program = program_of(cell, CATALOG)
    if builder:
        program = program.model_copy(update={"builder": builder})
    job = builders.job(deadline_s=deadline_s).model_copy(
        update={
            "workload": cell.workload,
            "stack": cell.stack,
            "scenario": scenario or cell.scenario,
            "knobs": cell.knobs,
            "program": program,
        }
    )
    device = builders.cpu(cores=frozenset(os.sched_getaffinity(0)))
    return WorkerSpec(job=job, device=device, artefact_dir=str(folder))


def main() -> None:
    """Run the cell of standard input."""
    folder = Path(sys.argv[1])
    (cell,) = cells_of(parse_sweep(sys.stdin.buffer.read(), "example"), CATALOG)
    outcome = asyncio.run(run_cell(cell, folder, folder, 100, scenario=cell.scenario))
    sys.stdout.write(outcome.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
