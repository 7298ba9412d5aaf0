"""Runs and results that are older than a knob: what is measured has all, what is stored is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.result import Validity
from controller.contracts.sweep import Cell, PairedCandidate, Side
from controller.metrics.families import gauge_text
from controller.metrics.farm_metrics import FarmMetrics
from controller.reports.export import as_csv
from controller.reports.outcome_lists import result_lines
from controller.reports.result_selection import Wanted, choose
from controller.reports.summary import summarise
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import completed, program_of
from tests.support import builders
from tests.support.farm import FarmBox

CATALOG, REAL = builders.catalog(), load_catalog()
METRICS = {"training": "step_time"}


def older_catalog() -> Catalog:
    """Return a catalogue whose stacks have no knob `fused` yet."""
    stacks = {
        name: stack.model_copy(update={"knobs": {"precision": stack.knobs["precision"]}})
        for name, stack in CATALOG.stacks.items()
    }
    return Catalog(**{**dict(CATALOG), "stacks": stacks})


def test_a_complete_cell_stays_what_it_is() -> None:
    (cell,) = cells_of(builders.sweep(), CATALOG)
    assert completed(cell, CATALOG) == cell


def test_a_knob_that_is_younger_than_its_run_has_the_manifests_default() -> None:
    old = builders.cell(batch_size=7)
    knobs = completed(old, CATALOG).knobs
    assert knobs == {
        "batch_size": 7,
        "rate": 0.5,
        "precision": "fp32",
        "fused": False,
        "steps": 10,
        "threads": 0,
    }
    program = program_of(completed(old, CATALOG), CATALOG)
    assert program.model_dump()["arguments"] == {"batch_size": 7, "rate": 0.5}


def test_both_sides_of_a_pair_are_completed() -> None:
    old = builders.cell(precision="fp32")
    other = PairedCandidate(stack="torch", knobs={"precision": "bf16"})
    cell = completed(old.model_copy(update={"versus": other}), CATALOG)
    a, b = cell.sides()
    assert a.knobs.keys() == b.knobs.keys() > old.knobs.keys()
    assert {n for n in a.knobs if a.knobs[n] != b.knobs[n]} == {"precision"}
    assert cell.versus
    assert (cell.versus.width, cell.versus.time_limit_s) == (other.width, other.time_limit_s)


@pytest.mark.parametrize("workload", REAL.workloads)
def test_every_run_has_a_policy(workload: str) -> None:
    for stack in REAL.stacks:
        for scenario in REAL.workloads[workload].scenarios:
            selected = {"workload": workload, "stack": stack, "scenario": scenario}
            cell = Cell.model_validate({**selected, "knobs": {}, "selector": "any"})
            assert "policy" in completed(cell, REAL).knobs


def test_an_upgrade_goes_on_with_older_runs_and_reads_older_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = older_catalog()
    with monkeypatch.context() as before:
        before.setattr(builders, "catalog", lambda: older)
        box = FarmBox(tmp_path / "store.sqlite")
        box.farm.register(builders.registration(None, builders.cpu()))
        box.submit(builders.sweep(repeats=2))
        (job,) = box.ask().run
        assert "fused" not in job.knobs
        box.report(job.ref, builders.result())
    box.restart()
    box.farm.register(builders.registration(None, builders.cpu()))
    (job,) = box.ask().run
    assert job.knobs["fused"] is False
    box.report(job.ref, builders.result())
    results = box.store.results()
    assert [result.validity for result in results] == [Validity.VALID] * 2
    assert all("fused" not in result.knobs for result in results), "a cell stays what it is"
    (ranking,) = summarise(results, (), {"fused": False}, REAL).rankings
    assert len(ranking.rows) == 1
    lines = result_lines(results, METRICS, 200)
    assert [result.run_id for result in results] == [line.split()[0] for line in lines[-2:]]
    assert as_csv(results).count("step_time") == 2
    side = Side(stack="torch", knobs={"precision": "fp32"})
    wanted = Wanted(a=side, b=side, workload="resnet", scenario="training", knobs={}, device=None)
    assert len(choose(results, wanted).a) == 2
    shown = FarmMetrics(CATALOG, box.store.newest_results(CATALOG)).expose(box.farm.state())
    assert "benchfarm_result" in gauge_text(shown.gauges)
    box.close()
