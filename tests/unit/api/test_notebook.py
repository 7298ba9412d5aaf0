"""docs/results.ipynb does what it says, on a farm that has measured two stacks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller.api.contexts import FarmContext, keep_context
from controller.contracts.records import Scope
from controller.contracts.sweep import Cell
from controller.scheduling.binding import runs_of
from controller.store.sqlite import SqliteStore
from tests.support.api import SECRETS, Served, prepared, served
from tests.support.store_examples import AGENT, CPU, grant, report, result, sweep_record
from tests.support.waiting import PATIENCE_S

NOTEBOOK = Path(__file__).parents[3] / "docs/results.ipynb"
STEP_S = {"torch": 0.5, "ipex": 0.25}
REPEATS = 6


def cells() -> list[dict[str, Any]]:
    """Return the cells of the notebook."""
    said = json.loads(NOTEBOOK.read_text())
    assert (said["nbformat"], said["metadata"]["kernelspec"]["name"]) == (4, "python3")
    found = said["cells"]
    assert isinstance(found, list)
    return found


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Served]:
    """A farm with results of two stacks, one twice as fast as the other."""
    home, numbers = prepared(tmp_path / "home", sweeps=0), random.Random(0)
    record = sweep_record("stacks", repeats=REPEATS)
    asked = [
        Cell(
            workload="retinanet_resnext50", stack=stack, scenario="training", knobs={}, selector=""
        )
        for stack in STEP_S
    ]
    with closing(SqliteStore.open(home.store)) as store:
        store.save_agent(AGENT, [CPU])
        runs = runs_of(record.sweep, record.sweep_id, asked, now=1000.5)
        for number, run in enumerate(store.add_sweep(record, runs)):
            leased = grant(run, CPU, 2000.0 + number)
            store.save_runs([leased])
            measured = result(STEP_S[run.cell.stack] * numbers.lognormvariate(0, 0.01))
            store.save_runs([report(leased.run, measured, now=2000.5 + number)])
    with served(home) as there:
        yield there


def test_the_notebook_is_kept_without_what_it_printed() -> None:
    assert {cell["cell_type"] for cell in cells()} == {"markdown", "code"}
    for cell in cells():
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_the_notebook_runs(api: Served, tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "BENCHFARM_CONTEXT": "lab"}
    keep_context("lab", FarmContext(url=api.url, token=SECRETS[Scope.VIEWER]), environ)
    code = ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", "\n\n".join(code)],
        cwd=NOTEBOOK.parents[1],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{sweep_record('stacks', repeats=REPEATS).sweep_id} {{'done': 12}}"
    assert next(line for line in lines if line.endswith(f" s, {REPEATS} runs")).startswith(
        "host-1: retinanet_resnext50 on ipex: 0."
    )
    assert "threads: 2" in lines
    ratio = next(line for line in lines if " times, " in line)
    assert 1.9 < float(ratio.split()[0]) < 2.1
    assert "step_time" in done.stdout or "pandas is not installed" in done.stdout
