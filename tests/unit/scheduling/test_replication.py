"""A run is measured again as it was, with waits, and judged by the rule of 5 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from controller.contracts.audit import AuditCheck
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind
from controller.contracts.errors import UserError
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.run import Run, RunState
from controller.contracts.suite_session import Verdict, session_rules
from controller.contracts.sweep import Sweep
from controller.contracts.units import Unit
from controller.runtime.suite_runner import SessionRunner, Timer
from controller.scheduling.binding import only
from controller.scheduling.expansion import cells_of
from controller.scheduling.replication import (
    Replication,
    ReplicationPlan,
    require_same_cell,
    summary_of,
)
from controller.scheduling.suite_plan import Place
from controller.scheduling.suite_session import PartRun, Pauses, Session, Span
from tests.support import builders

CATALOG = load_catalog()
DEVICE = "phone-1"
SWEEPS = [
    Sweep(name="one", workload=("shapes_classifier",), stack=("litert",), scenario=("offline",)),
    Sweep(
        name="profiled",
        workload=("resnet18",),
        stack=("torch",),
        scenario=("training",),
        knobs={"precision": ("bf16",), "batch_size": (4,)},
        devices=('device == "phone-1"',),
        profile=True,
    ),
    Sweep.model_validate(
        {
            "name": "paired",
            "workload": "resnet18",
            "scenario": "training",
            "knobs": {"batch_size": 4},
            "paired": {"a": "torch", "b": "torch:precision=bf16", "width": 0.05},
        }
    ),
]


def _run(sweep: Sweep) -> Run:
    (cell,) = cells_of(sweep, CATALOG)
    cell = cell.model_copy(update={"selector": sweep.devices[0]})
    run = builders.run("0d4fe2540c7d", of=cell)
    return run.model_copy(update={"deadline_s": 900.0})


PLAN = ReplicationPlan(_run(SWEEPS[0]), "any")
ID = PLAN.session(1)


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_a_try_has_the_cell_of_the_run(sweep: Sweep) -> None:
    run = _run(sweep)
    plan = ReplicationPlan(run, run.cell.selector)
    tried = plan.sweep(Place(plan.session(1), 2, 0))
    (cell,) = cells_of(tried, CATALOG)
    cell = cell.model_copy(update={"selector": tried.devices[0], "profiled": tried.profile})
    assert cell.key == run.cell.key
    require_same_cell(plan, CATALOG)
    assert tried.deadline_s == run.deadline_s
    assert plan.place_of(tried) == Place(plan.session(1), 2, 0)
    elsewhere = replace(plan, selector=only("phone-1", "phone-2")).sweep(
        Place(plan.session(7), 3, 0)
    )
    assert plan.place_of(elsewhere) == Place(plan.session(7), 3, 0), "the fleet has changed since"
    assert plan.number(plan.session(7)) == 7
    forged = tried.model_copy(update={"knobs": {"steps": (1,)}})
    of_audit = replace(plan, check=AuditCheck.CACHE)
    assert [plan.place_of(forged), of_audit.place_of(tried), plan.place_of(sweep)] == [None] * 3


def test_a_number_that_no_name_has_room_for_is_refused() -> None:
    assert PLAN.place_of(PLAN.sweep(Place(PLAN.session(999_999), 1, 0)))
    with pytest.raises(UserError, match="numbered up to 999999, and that one exists"):
        PLAN.session(1_000_000)


def test_a_cell_of_other_knobs_today_is_refused() -> None:
    knobs = {name: value for name, value in PLAN.run.cell.knobs.items() if name != "length"}
    cell = PLAN.run.cell.model_copy(update={"knobs": knobs})
    plan = ReplicationPlan(builders.run(of=cell), "any")
    with pytest.raises(UserError, match="its cell has other knobs today: length"):
        require_same_cell(plan, CATALOG)


def _result(value: float, top1: float = 0.9, validity: Validity = Validity.VALID) -> StoredResult:
    cell = PLAN.run.cell
    return StoredResult(
        run_id="r",
        sweep_id="s",
        cell_key=cell.key,
        repeat=0,
        attempt=1,
        device=DEVICE,
        device_kind=DeviceKind.ANDROID,
        virtual=True,
        workload=cell.workload,
        stack=cell.stack,
        scenario=cell.scenario,
        knobs=cell.knobs,
        started_at=0.0,
        counted=True,
        validity=validity,
        reasons=() if validity is Validity.VALID else ("a charger",),
        metrics={
            "throughput": Measurement(value=value, unit=Unit.SAMPLES_PER_SECOND),
            "top1": Measurement(value=top1, unit=Unit.FRACTION),
        },
        environment={},
        artefacts={},
    )


@dataclass
class Farm:
    """A farm on which each try takes a minute of the clock."""

    results: Sequence[StoredResult | None]
    now: float = 1.8e9
    parts: list[PartRun] = field(default_factory=list)
    began: list[float] = field(default_factory=list)

    def session(self) -> Session:
        return Session(ID, tuple(self.parts))

    def submit(self, sweep: Sweep) -> None:
        number = len(self.parts) + 1
        place = PLAN.place_of(sweep)
        assert place == Place(ID, number, 0)
        result = self.results[number - 1]
        state = RunState.DONE if result else RunState.FAILED
        span = Span(DEVICE, self.now, self.now + 60)
        cell = PLAN.run.cell
        why = "" if result else "device: unplugged"
        self.parts.append(
            PartRun(
                *(place, sweep.sweep_id(1), cell.workload, cell.scenario, state),
                spans=(span,),
                result=result,
                failure=why,
            )
        )
        self.began.append(self.now)
        self.now += 60

    def follow(self, sweep_id: str) -> None:
        raise AssertionError(f"{sweep_id} had ended")

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _replicated(
    original: StoredResult, results: Sequence[StoredResult | None], tries: int = 5
) -> tuple[Replication, Farm]:
    farm = Farm(results)
    replication = Replication(original, {DEVICE}, "throughput", session_rules(), tries)
    timer = Timer(lambda: farm.now, farm.sleep)
    pauses = Pauses(0.0, 300.0)
    runner = SessionRunner(PLAN, tries, pauses, farm, replication.verdicts, lambda _: None, timer)
    runner.run()
    return replication, farm


def test_five_tries_within_5_percent_with_waits_replicate() -> None:
    values = (100.0, 104.9, 102.0, 103.0, 101.0)
    replication, farm = _replicated(_result(100.0), [_result(value) for value in values])
    found = summary_of(replication, farm.session())
    assert found.replicates
    assert [b - a for a, b in zip(farm.began, farm.began[1:], strict=False)] == [360.0] * 4
    assert [one.deviation for one in found.tries] == pytest.approx([0, 0.049, 0.02, 0.03, 0.01])
    assert found.spreads == {"throughput": pytest.approx(0.049), "top1": 0.0}


@pytest.mark.parametrize(
    ("original", "results", "rule", "verdict", "why"),
    [
        (_result(100.0), [_result(105.1)] * 5, "replication", Verdict.MISSED, "5.1 %; at most 5 %"),
        (_result(100.0), [_result(97.0), *[_result(103.0)] * 4], "replication", Verdict.MISSED, ""),
        (_result(100.0), [_result(100.0, 0.8)] * 5, "replication", Verdict.MISSED, "top1 differs"),
        (
            *(_result(100.0), [_result(100.0, validity=Validity.INVALID)] * 5),
            *("valid results", Verdict.MISSED, "try 1 is INVALID: a charger"),
        ),
        (
            *(_result(100.0, validity=Validity.INVALID), [_result(100.0)] * 5),
            *("valid results", Verdict.MISSED, "the original is INVALID"),
        ),
        (
            *(_result(100.0), [_result(100.0), None]),
            *("all tries", Verdict.MISSED, "try 2 has no result: device: unplugged"),
        ),
        (
            *(_result(100.0), [_result(100.0).model_copy(update={"device": "phone-2"})] * 5),
            *("same device", Verdict.MISSED, "try 1 ran on phone-2"),
        ),
    ],
)
def test_what_does_not_replicate_says_why(
    original: StoredResult,
    results: Sequence[StoredResult | None],
    rule: str,
    verdict: Verdict,
    why: str,
) -> None:
    replication, farm = _replicated(original, results)
    found = summary_of(replication, farm.session())
    assert not found.replicates
    judged = {one.rule: one for one in found.rules}
    assert judged[rule].verdict is verdict
    assert why in judged[rule].why[0]
    met = [one.rule for one in found.rules if one.verdict is Verdict.MET]
    assert len(met) >= 2, "no other rule but that of missing tries is missed"


def test_until_all_tries_are_done_it_is_open() -> None:
    replication, farm = _replicated(_result(100.0), [_result(100.0)] * 3, tries=3)
    more = replace(replication, tries=5)
    found = summary_of(more, farm.session())
    assert not found.replicates
    assert {one.rule: one.why for one in found.rules}["all tries"] == ("3 of 5 tries",)


@pytest.mark.parametrize("metric", ["throughput", "top1"])
@pytest.mark.parametrize("lacking", [1, 5])
def test_a_try_without_a_figure_of_the_original_does_not_replicate_it(
    metric: str, lacking: int
) -> None:
    whole = _result(100.0)
    kept = {name: found for name, found in whole.metrics.items() if name != metric}
    bare = whole.model_copy(update={"metrics": kept})
    tries = [bare] * lacking + [whole] * (5 - lacking)
    replication, farm = _replicated(whole, tries)
    found = summary_of(replication, farm.session())
    assert not found.replicates
    missed = {one.rule: one.why for one in found.rules if one.verdict is not Verdict.MET}
    assert missed == {"replication": (f"{metric} is missing in {lacking} of 6 results",)}


def test_speed_alone_is_replicated_where_no_run_is_scored() -> None:
    whole = _result(100.0)
    kept = {"throughput": whole.metrics["throughput"]}
    unscored = whole.model_copy(update={"metrics": kept})
    replication, farm = _replicated(unscored, [unscored] * 5)
    assert summary_of(replication, farm.session()).replicates


def test_any_host_of_a_run_on_several_may_lead() -> None:
    moved = [_result(100.0).model_copy(update={"device": "host-2"})] * 5
    replication, elsewhere = _replicated(_result(100.0), moved)
    both = replace(replication, devices={DEVICE, "host-2"})
    assert summary_of(both, elsewhere.session()).replicates
    assert not summary_of(replication, elsewhere.session()).replicates


def test_an_accuracy_that_the_original_has_not_is_not_replicated() -> None:
    """As where the truths of its data set came later."""
    bare = _result(100.0)
    metrics = {name: one for name, one in bare.metrics.items() if name != "top1"}
    original = bare.model_copy(update={"metrics": metrics})
    replication, farm = _replicated(original, [_result(100.0)] * 5)
    assert summary_of(replication, farm.session()).replicates
