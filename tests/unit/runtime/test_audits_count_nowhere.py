"""Runs of audits are kept and shown, and are never a result of their cell.

One is planted that seems a hundred times as fast as the run that it is an audit of.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.audit import AUDIT, OWN_VALIDITY, AuditCheck
from controller.contracts.base import Scalar
from controller.contracts.capability import of_record
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.run import AttemptState, OutcomeRecord
from controller.contracts.sweep import Cell, PairedComparison, Side, Sweep
from controller.contracts.units import Unit
from controller.contracts.work import work_of
from controller.imported.exportable import objection
from controller.metrics.families import gauge_text
from controller.metrics.farm_metrics import FarmMetrics
from controller.metrics.newest import newest_of
from controller.reports.outcome_lists import result_lines
from controller.reports.result_selection import Wanted, choose
from controller.reports.summary import summaries_of, summarise
from controller.scheduling.audited import as_audited, reason_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import job_of
from tests.support import builders
from tests.support.audits import try_result
from tests.support.boards import board_of
from tests.support.farm import FarmBox

CATALOG = load_catalog()
FAST, SLOW = 1000.0, 10.0
SCENARIOS = ("single_stream", "multi_stream", "offline", "server")
CPU = builders.cpu("cpu-1")


def sweep(scenario: str = "offline", **more: object) -> Sweep:
    of = {"workload": "resnet18", "stack": "torch", "scenario": scenario}
    return Sweep.model_validate({"name": "s", **of, **more})


def cell(scenario: str = "offline", **knobs: Scalar) -> Cell:
    (found,) = cells_of(sweep(scenario, knobs=knobs), CATALOG)
    return found


def measured(rate: float) -> Result:
    metrics = {
        "throughput": Measurement(value=rate, unit=Unit.SAMPLES_PER_SECOND),
        "latency_p90": Measurement(value=1 / rate, unit=Unit.SECONDS),
    }
    return Result(validity=Validity.VALID, metrics=metrics, environment={"threads": 2})


@pytest.fixture
def metrics() -> FarmMetrics:
    return FarmMetrics(CATALOG, ())


@pytest.fixture
def box(tmp_path: Path, metrics: FarmMetrics) -> Iterator[FarmBox]:
    """A farm that has measured a cell and then each of its audits."""
    box = FarmBox(tmp_path / "store.sqlite")
    box.catalog = CATALOG
    box.restart()
    box.observe = metrics.observe
    box.farm.register(builders.registration(None, CPU))
    box.submit(sweep(knobs={AUDIT: ("none", *map(str, AuditCheck))}))
    for _ in range(4):
        (job,) = box.ask().run
        box.clock.now += 1
        box.report(job.ref, measured(SLOW if job.knobs[AUDIT] == "none" else FAST))
        box.clock.now += 1
    yield box
    box.close()


def audits(box: FarmBox) -> list[StoredResult]:
    return [result for result in box.store.results() if AUDIT in result.knobs]


def test_they_are_kept_and_say_what_they_are(box: FarmBox) -> None:
    assert [result.knobs[AUDIT] for result in audits(box)] == list(map(str, AuditCheck))
    for result in audits(box):
        said = reason_of(str(result.knobs[AUDIT]))
        assert (result.validity, result.reasons) == (Validity.INVALID, (said,))
        assert result.environment[AUDIT] == result.knobs[AUDIT]
        assert result.metrics["throughput"].value == FAST, "nothing is lost"
    (ordinary,) = [r for r in box.store.results() if AUDIT not in r.knobs]
    assert ordinary.validity is Validity.VALID
    lines = result_lines(box.store.results(), {"offline": "throughput"}, 200)
    told = [line for line in lines if "INVALID, audit " in line]
    assert len(told) == 3


def test_no_table_ranks_them_and_none_is_a_baseline(box: FarmBox) -> None:
    summary = summarise(box.store.results(), (), {AUDIT: "cache"}, CATALOG)
    found = list(summaries_of(summary.rankings))
    assert [bool(one.metrics) for one in found].count(True) == 1
    assert all(one.vs_baseline is None for one in found)


def test_no_comparison_takes_them(box: FarmBox) -> None:
    side = Side(stack="torch", knobs={})
    wanted = Wanted(a=side, b=side, workload="resnet18", scenario="offline", knobs={}, device=None)
    chosen = choose(box.store.results(), wanted).a
    assert [AUDIT in result.knobs for result in chosen] == [False]


def test_no_board_has_them(box: FarmBox) -> None:
    board = board_of(box.store.results())
    rows = [row for ranking in board.rankings for row in ranking.rows]
    assert len(rows) == 1
    assert "3 results are left out: audits show something of other results." in board.notes


def test_none_is_exported() -> None:
    assert objection(try_result(AuditCheck.CACHE, {}, {})) == "an audit of another result"


@pytest.mark.parametrize("from_store", [False, True], ids=["events", "after a restart"])
def test_prometheus_is_told_the_ordinary_speed_alone(
    box: FarmBox, metrics: FarmMetrics, *, from_store: bool
) -> None:
    newest = box.store.newest_results(CATALOG)
    assert [AUDIT in result.knobs for result in newest] == [False]
    shown = FarmMetrics(CATALOG, newest) if from_store else metrics
    lines = gauge_text(shown.expose(box.farm.state()).gauges).splitlines()
    told = [line for line in lines if line.startswith("benchfarm_result")]
    (rate,) = [line for line in told if line.startswith("benchfarm_result{") and "throughp" in line]
    assert float(rate.rpartition(" ")[2]) == SLOW
    assert len({line.partition('work="')[2].partition('"')[0] for line in told}) == 1
    assert not any(float(line.rpartition(" ")[2]) == FAST or AUDIT in line for line in told)
    counted = metrics.expose(box.farm.state()).counted
    of = {"workload": "resnet18", "stack": "torch", "scenario": "offline"}
    assert counted.get_sample_value("benchfarm_run_duration_seconds_count", of) == 1


@pytest.mark.parametrize("audit", ["none", *AuditCheck])
def test_no_event_makes_a_newest_result_or_capability_of_one(audit: str) -> None:
    leased = builders.attempt("cpu-1", 1, AttemptState.LEASED)
    record = OutcomeRecord(
        run_id="run-1",
        attempt=1,
        outcome=measured(FAST),
        counted=True,
        started_at=1.0,
        recorded_at=2.0,
    )
    plain = builders.run(of=cell(audit=str(audit)), attempts=(leased,))
    assert (newest_of(plain, record, CATALOG) is not None) == (audit == "none")
    delegating = cell(audit=str(audit)).model_copy(
        update={"knobs": {**plain.cell.knobs, "delegate": "xnnpack"}}
    )
    asked = builders.run(of=delegating, attempts=(leased,))
    assert (of_record(asked, record) is not None) == (audit == "none")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_cell_without_an_audit_keeps_its_key(scenario: str) -> None:
    plain, default = cell(scenario), cell(scenario, audit="none")
    assert plain.key == default.key
    assert AUDIT not in plain.knobs
    assert {cell(scenario, audit=str(check)).key for check in AuditCheck}.isdisjoint({plain.key})


KEYS = {
    "single_stream": "5909aad9a55d712a",
    "multi_stream": "2361bed420facc48",
    "offline": "19959f2198b3f0d2",
    "server": "2fc1def46c385c16",
}
"""Of cells of ResNet-18 on PyTorch, computed before the knob was there."""


def test_keys_of_cells_are_those_from_before_the_knob() -> None:
    assert {scenario: cell(scenario).key for scenario in SCENARIOS} == KEYS


def test_an_audit_is_work_of_its_own() -> None:
    def work(**knobs: Scalar) -> str:
        of = cell("offline", **knobs)
        return work_of(CATALOG, of.workload, of.scenario, of.stack, of.knobs).key

    assert len({work(), *(work(audit=str(check)) for check in AuditCheck)}) == 4


def test_an_agent_is_told_whether_its_run_is_an_audit() -> None:
    for audit in ("none", "cache"):
        leased = builders.attempt("cpu-1", 1, AttemptState.LEASED)
        granted = builders.run(of=cell(audit=audit), attempts=(leased,))
        assert job_of(granted, CATALOG).knobs[AUDIT] == audit


def test_a_paired_comparison_is_no_audit() -> None:
    paired = PairedComparison(
        a=Side(stack="torch", knobs={}), b=(Side(stack="torch", knobs={"precision": "bf16"}),)
    )
    of = {"workload": "resnet18", "scenario": "offline", "paired": paired}
    with pytest.raises(SweepInvalid, match="a paired comparison is no audit"):
        cells_of(Sweep.model_validate({"name": "s", **of, "knobs": {AUDIT: "cache"}}), CATALOG)


def test_what_an_agent_says_makes_no_result_of_an_audit() -> None:
    of_audit = builders.run(of=cell(audit="cache"))
    kept = as_audited(measured(FAST), of_audit)
    assert isinstance(kept, Result)
    assert (kept.validity, kept.environment[OWN_VALIDITY]) == (Validity.INVALID, "VALID")
    assert as_audited(kept, of_audit) == kept, "said once"
    sly = as_audited(kept.model_copy(update={"validity": Validity.VALID}), of_audit)
    assert isinstance(sly, Result)
    assert sly.validity is Validity.INVALID, "whatever reasons an agent gives"
    ordinary = builders.run(of=cell())
    assert as_audited(measured(SLOW), ordinary) == measured(SLOW)
    told = measured(SLOW).model_copy(update={"environment": {AUDIT: "cache"}})
    kept = as_audited(told, ordinary)
    assert isinstance(kept, Result)
    assert kept.validity is Validity.INVALID
    failure = builders.failure()
    assert as_audited(failure, of_audit) is failure
