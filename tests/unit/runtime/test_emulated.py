"""What is measured on an emulated device is kept and shown, and never counts as anyone's speed.

One is planted that seems a hundred times as fast as a real one, wherever speeds are put side by
side: as baseline by its owner's label, and announced with and without its fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.metrics import AgentMetrics
from controller.contracts.device import EMULATED, Device, DeviceKind, DeviceState
from controller.contracts.records import StoredResult
from controller.contracts.result import Result, Validity
from controller.contracts.sweep import Side
from controller.contracts.wire import Progress
from controller.metrics.families import gauge_text
from controller.metrics.farm_metrics import FarmMetrics
from controller.reports.outcome_lists import result_lines
from controller.reports.result_selection import Wanted, choose
from controller.reports.summary import summaries_of, summarise
from controller.scheduling.emulation import REASON, as_kept
from controller.scheduling.expansion import cells_of
from controller.scheduling.planning import plan_sweep
from tests.support import builders
from tests.support.farm import FarmBox

CATALOG = builders.catalog()
DELEGATES = ("capability", "delegated_ratio")
FAST_S, SLOW_S = 0.001, 0.1
EMULATOR = "qemu-aarch64 7.2.22, cortex-a76"
PLANTED = Device(
    id="cpu-0-emulated",
    kind=DeviceKind.CPU_HOST,
    virtual=True,
    labels={"baseline": "yes"},
    facts={EMULATED: True, "emulator": EMULATOR, "model": "Arm"},
)
REAL = builders.cpu("cpu-1")


@pytest.fixture
def metrics() -> FarmMetrics:
    return FarmMetrics(CATALOG, ())


@pytest.fixture
def box(tmp_path: Path, metrics: FarmMetrics) -> Iterator[FarmBox]:
    """A farm on which the same was measured on both."""
    box = FarmBox(tmp_path / "store.sqlite")
    box.observe = metrics.observe
    box.farm.register(builders.registration(None, PLANTED, REAL))
    box.submit(builders.sweep(run_on="each"))
    for job in box.ask().run:
        box.clock.now += 1
        fast = job.device_id == PLANTED.id
        box.report(job.ref, builders.result(FAST_S if fast else SLOW_S))
        box.clock.now += 1
    yield box
    box.close()


def stored(box: FarmBox) -> dict[str, StoredResult]:
    return {result.device: result for result in box.store.results()}


def test_it_is_kept_with_why_it_does_not_count(box: FarmBox) -> None:
    results = stored(box)
    planted = results[PLANTED.id]
    assert (planted.validity, planted.reasons) == (Validity.INVALID, (REASON,))
    assert planted.metrics["step_time"].value == FAST_S, "nothing is lost"
    assert planted.environment[EMULATED] is True
    assert planted.device_label == "cpu-0-emulated (virtual, emulated)"
    assert results[REAL.id].validity is Validity.VALID
    assert EMULATED not in results[REAL.id].environment


def test_the_same_report_twice_is_kept_once(box: FarmBox) -> None:
    before = stored(box)
    ref = next(r for r in before.values() if r.device == PLANTED.id)
    (run,) = [run for run in box.store.runs() if run.run_id == ref.run_id]
    box.report(builders.ref(run.run_id), builders.result(FAST_S))
    assert [r.counted for r in box.store.results() if r.device == PLANTED.id].count(True) == 1
    assert {r.validity for r in box.store.results() if r.device == PLANTED.id} == {Validity.INVALID}


def test_no_table_ranks_it(box: FarmBox) -> None:
    results = box.store.results()
    summary = summarise(results, (), {"device": PLANTED.id}, builders.catalog())
    by_device = {cell.device: cell for cell in summaries_of(summary.rankings)}
    assert by_device[PLANTED.id].metrics == {}
    assert by_device[PLANTED.id].reasons == (REASON,)
    assert by_device[REAL.id].vs_baseline is None, "it is no baseline, though it was named as one"
    assert "step_time" in by_device[REAL.id].metrics
    lines = result_lines(results, {"training": "step_time"}, 200)
    assert any("  cpu-0-emulated (virtual, emulated)  " in line for line in lines)
    assert any("  cpu-1  " in line for line in lines)


def test_no_comparison_takes_it(box: FarmBox) -> None:
    side = Side(stack="torch", knobs={})
    wanted = Wanted(a=side, b=side, workload="resnet", scenario="training", knobs={}, device=None)
    assert {result.device for result in choose(box.store.results(), wanted).a} == {REAL.id}


@pytest.mark.parametrize("from_store", [False, True], ids=["events", "after a restart"])
def test_prometheus_is_told_no_speed_of_it(
    box: FarmBox, metrics: FarmMetrics, *, from_store: bool
) -> None:
    shown = FarmMetrics(CATALOG, box.store.newest_results(CATALOG)) if from_store else metrics
    lines = gauge_text(shown.expose(box.farm.state()).gauges).splitlines()
    of_it = {line.partition("{")[0] for line in lines if PLANTED.id in line}
    assert of_it == {"benchfarm_device_info", "benchfarm_device_state"}
    of_other = {line.partition("{")[0] for line in lines if f'"{REAL.id}"' in line}
    assert "benchfarm_result" in of_other
    (info,) = [line for line in lines if "device_info{" in line and PLANTED.id in line]
    assert 'virtual="true"' in info
    assert 'model="Arm (emulated)"' in info


@pytest.mark.parametrize("from_store", [False, True], ids=["events", "after a restart"])
def test_what_its_delegate_came_to_is_told_and_marked_and_is_no_speed(
    box: FarmBox, metrics: FarmMetrics, *, from_store: bool
) -> None:
    phone = Device(
        id="phone-0-emulated",
        kind=DeviceKind.ANDROID,
        virtual=True,
        facts={EMULATED: True, "fingerprint": "x/1", "model": "Arm"},
    )
    box.farm.register(builders.registration(None, PLANTED, REAL, phone))
    sweep = builders.sweep(stack="litert", devices=f'device == "{phone.id}"')
    box.submit(sweep)
    (job,) = box.ask().run
    counts = {"graph_nodes": 4, "delegated_nodes": 1, "fingerprint": "x/1"}
    box.report(job.ref, builders.result(FAST_S).model_copy(update={"environment": counts}))
    read = FarmMetrics(CATALOG, box.store.newest_results(CATALOG), box.store.newest_capabilities())
    exposed = (read if from_store else metrics).expose(box.farm.state())
    lines = [line for line in gauge_text(exposed.gauges).splitlines() if phone.id in line]
    values = {line.partition("{")[0]: line.rpartition(" ")[2] for line in lines}
    told = {name: float(values.pop(f"benchfarm_device_{name}")) for name in DELEGATES}
    assert told == {"capability": 1, "delegated_ratio": 0.25}
    assert values.keys() == {"benchfarm_device_info", "benchfarm_device_state"}


def test_how_long_it_took_is_in_no_histogram(box: FarmBox, metrics: FarmMetrics) -> None:
    exposed = metrics.expose(box.farm.state()).counted
    counted = exposed.get_sample_value(
        "benchfarm_run_duration_seconds_count",
        {"workload": "resnet", "stack": "torch", "scenario": "training"},
    )
    assert counted == 1


def test_no_plan_goes_by_how_long_it_took(box: FarmBox) -> None:
    fleet = [(device, DeviceState.READY) for device in (PLANTED, REAL, builders.cpu("cpu-2"))]
    sweep = builders.sweep(run_on="each")
    cells = cells_of(sweep, CATALOG)
    history = box.store.took(cells)
    seconds = {took.device: took.seconds for took in history}
    assert seconds[PLANTED.id] != seconds[REAL.id]
    plan = plan_sweep(sweep, cells, fleet, CATALOG, history)
    hours = {device.device: device.hours for device in plan.devices}
    assert hours == {
        PLANTED.id: seconds[PLANTED.id] / 3600,
        REAL.id: seconds[REAL.id] / 3600,
        "cpu-2": seconds[REAL.id] / 3600,
    }


def test_no_live_speed_is_shown() -> None:
    metrics = AgentMetrics()
    progress = Progress(
        phase="x", done=1, total=2, values={"step_time": 0.1, "throughput": 9.0, "loss": 1.0}
    )
    metrics.progressed(builders.job(), progress, emulated=True)
    text = gauge_text(metrics.gauges())
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line.partition("{")[0] for line in lines] == ["benchfarm_run_progress_ratio"]


@pytest.mark.parametrize(
    ("device", "environment", "counts"),
    [
        (PLANTED, {}, False),
        (REAL, {EMULATED: True}, False),  # its agent tells more than it announced
        (None, {EMULATED: True}, False),  # the device is gone
        (REAL, {EMULATED: False}, True),
        (REAL, {}, True),
        (None, {}, True),
    ],
)
def test_who_says_that_it_is_emulated(
    device: Device | None, environment: dict[str, bool], *, counts: bool
) -> None:
    outcome = builders.result().model_copy(update={"environment": environment})
    kept = as_kept(outcome, device)
    assert isinstance(kept, Result)
    assert (kept.validity is Validity.VALID) is counts
    assert (REASON in kept.reasons) is not counts
    assert as_kept(kept, device) == kept, "said once"


def test_whatever_reasons_an_agent_gives_it_does_not_count() -> None:
    sly = builders.result().model_copy(update={"reasons": (REASON,)})
    kept = as_kept(sly, PLANTED)
    assert isinstance(kept, Result)
    assert (kept.validity, kept.reasons) == (Validity.INVALID, (REASON,))
    assert kept.environment[EMULATED] is True
    assert as_kept(sly, REAL) == sly


def test_a_failure_stays_what_it_is() -> None:
    failure = builders.failure()
    assert as_kept(failure, PLANTED) is failure
