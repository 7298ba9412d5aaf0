"""The controller's gauges, as a farm on a real store brings them about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

from controller.contracts.base import Scalar
from controller.contracts.capability import Capability, Verdict
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import EMULATED, Device, DeviceKind
from controller.contracts.manifests import QualityTarget
from controller.contracts.profile import ProfileSummary, TopPrimitive
from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.suite_version import SUITE_VERSION
from controller.contracts.units import Unit
from controller.contracts.work import work_of
from controller.metrics import names
from controller.metrics.families import gauge_text
from controller.metrics.farm_metrics import FarmMetrics
from controller.scheduling.device_life import Labelled, Renamed
from controller.stats.medians import median_of_runs
from tests.support import builders
from tests.support.exposition import plain
from tests.support.farm import TTL_S, FarmBox

Shown = Mapping[str, Mapping[tuple[str, ...], float]]
"""Metric → values of its labels, in order → value."""
PHONE = Device(
    id="phone-1",
    kind=DeviceKind.ANDROID,
    virtual=True,
    facts={"model": "Pixel 8", "soc": "Tensor G3"},
)

WORK = work_of(
    builders.catalog(), "resnet", "training", "torch", {"batch_size": 2, "rate": 0.5}
).key

FALLS_BACK: Mapping[str, object] = {
    "device": "phone-1",
    "build": "x/1",
    "workload": "resnet",
    "stack": "litert",
    "delegate": "xnnpack",
    "numerics": "int8",
    "verdict": Verdict.FALLS_BACK,
    "delegated": 1,
    "nodes": 4,
    "why": "1 of 4 nodes",
    "at": 1.0,
    "run_id": "r",
}


def catalog() -> Catalog:
    """Return the builders' catalogue with a quality target for resnet."""
    plain = builders.catalog()
    target = QualityTarget(metric="top1", value=0.7)
    resnet = plain.workloads["resnet"].model_copy(update={"quality_target": target})
    return plain.model_copy(update={"workloads": {**plain.workloads, "resnet": resnet}})


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


def show(
    box: FarmBox, newest: list[NewestResult] | None = None, known: Catalog | None = None
) -> Shown:
    """Scrape a farm whose store was read just now, unless told."""
    known = known or catalog()
    found = box.store.newest_results(known) if newest is None else newest
    metrics = FarmMetrics(known, found)
    by_name = {str(metric): metric for metric in names.all_metrics()}
    return {
        family.name: {
            tuple(s.labels[label] for label in by_name[family.name].labels): s.value
            for s in family.samples
        }
        for family in plain(gauge_text(metrics.expose(box.farm.state()).gauges))
    }


def measured(top1: float | None = None, validity: Validity = Validity.VALID) -> Result:
    metrics = {"step_time": Measurement(value=0.25, unit=Unit.SECONDS)}
    if top1 is not None:
        metrics["top1"] = Measurement(value=top1, unit=Unit.FRACTION)
    reasons = () if validity is Validity.VALID else ("not good enough",)
    return Result(validity=validity, reasons=reasons, metrics=metrics, environment={})


def measure(box: FarmBox, *results: Result) -> None:
    """Submit a run for each result, profiled if it has a profile, and hand it in."""
    for result in results:
        box.submit(builders.sweep(profile=result.profile is not None or None), again=True)
        (job,) = box.ask().run
        box.report(job.ref, result)
        box.clock.now += 1


def test_agents_and_devices_with_their_states(box: FarmBox) -> None:
    server = builders.cpu(facts={"cpu_model": "Xeon"})
    box.farm.register(builders.registration(None, server, PHONE, builders.cpu("cpu-9")))
    box.submit(builders.sweep(devices='device == "cpu-1"'))
    shown = show(box)
    assert shown["benchfarm_agent_up"] == {("host-1",): 1}
    assert shown["benchfarm_device_info"] == {
        ("cpu-1", "cpu-1", "cpu_host", "Xeon", "", "false", "host-1", "host-1"): 1,
        ("cpu-9", "cpu-9", "cpu_host", "", "", "false", "host-1", "host-1"): 1,
        ("phone-1", "phone-1", "android", "Pixel 8", "Tensor G3", "true", "host-1", "host-1"): 1,
    }
    states = shown["benchfarm_device_state"]
    assert {key for key, value in states.items() if value == 1} == {
        ("cpu-1", "busy"),
        ("cpu-9", "ready"),
        ("phone-1", "ready"),
    }
    assert len(states) == 3, "a series for the state it is in, and none for the others"

    box.wait(TTL_S)
    shown = show(box)
    assert shown["benchfarm_agent_up"] == {("host-1",): 0}
    now = {key for key, value in shown["benchfarm_device_state"].items() if value == 1}
    assert now == {("cpu-1", "lost"), ("cpu-9", "lost"), ("phone-1", "lost")}


@pytest.mark.parametrize("hold", ["drained", "revoked"])
def test_an_agent_that_a_person_keeps_from_runs(box: FarmBox, hold: str) -> None:
    box.farm.register(builders.registration())
    assert show(box)["benchfarm_agent_hold"] == {}
    if hold == "drained":
        box.farm.drains.begin("host-1", "ada", "new fans")
    else:
        box.farm.revoke("host-1", "ada", "gone for good")
    assert show(box)["benchfarm_agent_hold"] == {("host-1", hold): 1}
    if hold == "drained":
        box.farm.drains.end("host-1", "ada", "done")
        assert show(box)["benchfarm_agent_hold"] == {}


def test_the_queue_and_how_long_its_oldest_run_waits(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    assert show(box)["benchfarm_queue_oldest_seconds"] == {(): 0}
    box.submit(builders.sweep(repeats=3))
    box.clock.now += 7
    shown = show(box)
    assert shown["benchfarm_runs_queued"] == {(): 2}
    assert shown["benchfarm_runs_leased"] == {(): 1}
    assert shown["benchfarm_queue_oldest_seconds"] == {(): 7}
    assert shown["benchfarm_sweep_open_runs"] == {("demo", "queued"): 2, ("demo", "leased"): 1}


def test_a_run_that_comes_back_waits_since_then(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    box.submit(builders.sweep())
    box.wait(TTL_S)  # its lease and its agent are gone
    box.clock.now += 4
    assert show(box)["benchfarm_queue_oldest_seconds"] == {(): 4}


def test_a_run_that_was_resumed_waits_since_then(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    sweep_id = box.submit(builders.sweep()).sweep_id
    box.cancel(sweep_id)
    box.wait(3600.0)
    box.resume(sweep_id)
    assert show(box)["benchfarm_queue_oldest_seconds"] == {(): 0}
    box.restart()
    box.clock.now += 5
    assert show(box)["benchfarm_queue_oldest_seconds"] == {(): 5}


def test_the_newest_valid_result_with_its_time_and_its_quality(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    measure(box, measured(top1=0.5), measured(top1=0.75))
    shown = show(box)
    key = ("cpu-1", "resnet", "torch", "training", "fp32", WORK)
    assert shown["benchfarm_result"] == {(*key, "step_time"): 0.25, (*key, "top1"): 0.75}
    assert shown["benchfarm_result_timestamp_seconds"] == {key: 1001.0}
    assert shown["benchfarm_quality_target"] == {("resnet", "top1"): 0.7}
    assert shown["benchfarm_quality_target_missed"] == {key: 0}

    measure(box, measured(top1=0.5, validity=Validity.INVALID))
    shown = show(box)
    assert shown["benchfarm_result"][*key, "top1"] == 0.75, "an INVALID result shows no speed"
    assert shown["benchfarm_quality_target_missed"] == {key: 1}


def test_a_result_is_held_to_the_target_of_its_suite_version(box: FarmBox) -> None:
    box.farm.register(builders.registration(None, builders.cpu(), PHONE))
    suite = load_catalog()
    versions: list[dict[str, Scalar]] = [{SUITE_VERSION: v} for v in ("v0.7", "v5.0")]
    newest = [
        NewestResult(
            device=PHONE.id,
            sweep_id="s-1",
            cell_key=f"c{number}",
            workload="mobilebert",
            stack="litert",
            scenario="single_stream",
            knobs={"numerics": "int8", "dataset": "full", **version},
            validity=Validity.VALID,
            recorded_at=1.0,
            metrics={"F1": Measurement(value=0.85, unit=Unit.FRACTION)},
        )
        for number, version in enumerate([*versions, {}])
    ]
    works = [
        work_of(suite, "mobilebert", "single_stream", "litert", one.knobs).key for one in newest
    ]
    missed = show(box, newest, suite)["benchfarm_quality_target_missed"]
    found = {key[-1].removesuffix(names.VIRTUAL_WORK): value for key, value in missed.items()}
    assert found == {works[0]: 1, works[1]: 0}, "the last is of no version"


@pytest.mark.parametrize("validity", [Validity.VALID, Validity.DISTURBED])
@pytest.mark.parametrize("from_store", [False, True], ids=["events", "after a restart"])
def test_a_missed_target_stays_until_that_quality_is_measured_again(
    box: FarmBox, validity: Validity, *, from_store: bool
) -> None:
    metrics = FarmMetrics(catalog(), [])
    box.observe = metrics.observe

    def missed() -> list[float]:
        read = FarmMetrics(catalog(), box.store.newest_results(catalog()))
        text = gauge_text((read if from_store else metrics).expose(box.farm.state()).gauges)
        lines = [one for one in text.splitlines() if one.startswith(f"{names.QUALITY_MISSED}{{")]
        return [float(one.rpartition(" ")[2]) for one in lines]

    box.farm.register(builders.registration())
    measure(box, measured(top1=0.5, validity=Validity.INVALID), measured(validity=validity))
    assert missed() == [1]
    measure(box, measured(top1=0.75))
    assert missed() == [0]


def test_of_an_emulated_device_no_quality_and_no_work_is_told(box: FarmBox) -> None:
    emulated = builders.cpu(facts={EMULATED: True}).model_copy(update={"virtual": True})
    box.farm.register(builders.registration(None, emulated))
    measure(box, measured(top1=0.5))
    assert len(box.store.newest_results(catalog())) == 1
    shown = show(box)
    assert shown["benchfarm_quality_target_missed"] == {}
    assert shown["benchfarm_work_info"] == {}


def test_a_scrape_computes_each_figure_once_and_the_next_none(
    box: FarmBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.farm.register(builders.registration())
    measure(box, measured())
    counted = Mock(wraps=median_of_runs)
    monkeypatch.setattr("controller.metrics.newest.median_of_runs", counted)
    metrics = FarmMetrics(catalog(), box.store.newest_results(catalog()))
    texts = [gauge_text(metrics.expose(box.farm.state()).gauges) for _ in range(2)]
    assert all("benchfarm_result{" in text for text in texts)
    assert counted.call_count == 1


def test_a_profiled_run_is_no_newest_result(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    slow = {"step_time": Measurement(value=9.0, unit=Unit.SECONDS)}
    watched = measured().model_copy(update={"metrics": slow, "profile": ProfileSummary(steps=5)})
    measure(box, measured(), watched)
    assert set(show(box)["benchfarm_result"].values()) == {0.25}


def test_a_rename_changes_the_info_of_a_device_and_no_other_series(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    measure(box, measured())
    before = show(box)
    ((_, first, *_),) = before["benchfarm_device_info"]
    box.farm.apply_event("cpu-1", Renamed("left"), "admin", "renamed")
    after = show(box)
    ((device, name, *_),) = after["benchfarm_device_info"]
    assert (first, device, name) == ("cpu-1", "cpu-1", "left")
    same = {metric: series.keys() for metric, series in before.items()}
    same.pop("benchfarm_device_info")
    assert {metric: after[metric].keys() for metric in same} == same


def test_unlike_work_replaces_no_result_and_is_named(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    for batch_size in (2, 4):
        box.submit(builders.sweep(knobs={"batch_size": batch_size}))
        (job,) = box.ask().run
        box.report(job.ref, measured())
    shown = show(box)
    works = {key[5] for key in shown["benchfarm_result"]}
    assert len(works) == len(shown["benchfarm_result"]) == 2
    named = shown["benchfarm_work_info"]
    assert {key[0] for key in named} == works
    assert {key[1] for key in named} == {"resnet training", "resnet training batch_size=4"}
    assert shown["benchfarm_baseline_stack_info"] == {}


def test_work_of_a_virtual_device_is_no_real_ones(box: FarmBox) -> None:
    virtual = builders.cpu("cpu-2").model_copy(update={"virtual": True})
    box.farm.register(builders.registration(None, builders.cpu(), virtual))
    for name in ("cpu-1", "cpu-2"):
        box.submit(builders.sweep(devices=f'device == "{name}"'))
        (job,) = box.ask().run
        box.report(job.ref, measured())
    shown = show(box)
    works = {key[0]: key[5] for key in shown["benchfarm_result"]}
    assert works == {"cpu-1": WORK, "cpu-2": f"{WORK}-virtual"}
    assert (works["cpu-2"], "resnet training (virtual)") in shown["benchfarm_work_info"]
    assert shown["benchfarm_baseline_device_info"] == {}


@pytest.mark.parametrize("from_store", [False, True], ids=["events", "after a restart"])
def test_repeats_of_a_sweep_give_a_median_and_an_interval(
    box: FarmBox, *, from_store: bool
) -> None:
    metrics = FarmMetrics(catalog(), [])
    box.observe = metrics.observe
    box.farm.register(builders.registration())
    box.submit(builders.sweep(repeats=3))
    for value in (0.25, 0.255, 0.26):
        (job,) = box.ask().run
        step = {"step_time": Measurement(value=value, unit=Unit.SECONDS)}
        box.report(job.ref, measured().model_copy(update={"metrics": step}))
    read = FarmMetrics(catalog(), box.store.newest_results(catalog())) if from_store else metrics
    text = gauge_text(read.expose(box.farm.state()).gauges)
    (told,) = [one for one in text.splitlines() if one.startswith("benchfarm_result{")]
    assert float(told.rpartition(" ")[2]) == 0.255, "their median, not the newest"
    (line,) = [one for one in text.splitlines() if one.startswith("benchfarm_result_interval")]
    assert float(line.rpartition(" ")[2]) == median_of_runs([(0.25,), (0.255,), (0.26,)]).factor
    measure(box, measured())
    text = gauge_text(metrics.expose(box.farm.state()).gauges)
    assert "benchfarm_result_interval_factor{" not in text, "one run tells no interval"


def test_the_newest_profile_stays_when_a_result_without_one_comes(box: FarmBox) -> None:
    parts = (("convolution", "BWD_W", 0.12), ("reorder", "", 0.03))
    summary = ProfileSummary(
        steps=5,
        efficiency=0.9,
        headroom_s=0.1,
        top=tuple(
            TopPrimitive(primitive=kind, direction=direction, calls=1, seconds=seconds, share=0.5)
            for kind, direction, seconds in parts
        ),
    )
    box.farm.register(builders.registration())
    measure(box, measured().model_copy(update={"profile": summary}), measured())
    shown = show(box)
    key = ("cpu-1", "resnet", "torch", "training", "fp32", WORK)
    assert shown["benchfarm_profile_primitive_seconds"] == {
        (*key, "convolution", "BWD_W"): 0.12,
        (*key, "reorder", "none"): 0.03,
    }
    assert shown["benchfarm_profile_efficiency_ratio"] == {key: 0.9}
    assert shown["benchfarm_profile_headroom_seconds"] == {key: 0.1}


@pytest.mark.parametrize("validity", [Validity.INVALID, Validity.DISTURBED])
def test_a_profile_that_is_not_valid_is_not_exported(box: FarmBox, validity: Validity) -> None:
    known = ProfileSummary(steps=5, efficiency=0.9, headroom_s=0.1)
    objected = ProfileSummary(
        steps=5, efficiency=0.5, headroom_s=0.2, validity=validity.value, reasons=("steps apart",)
    )
    box.farm.register(builders.registration())
    told = {"validity": validity, "reasons": ("profile: steps apart",)}
    measure(
        box,
        measured().model_copy(update={"profile": known}),
        measured().model_copy(update={"profile": objected, **told}),
    )
    key = ("cpu-1", "resnet", "torch", "training", "fp32", WORK)
    assert show(box)["benchfarm_profile_efficiency_ratio"] == {key: 0.9}
    assert show(box)["benchfarm_profile_headroom_seconds"] == {key: 0.1}


def test_quality_that_was_not_measured_is_neither_reached_nor_missed(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    measure(box, measured())
    assert show(box)["benchfarm_quality_target_missed"] == {}


def test_results_of_a_device_that_is_offline_stay_and_of_one_unknown_go(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    measure(box, measured())
    box.wait(TTL_S)
    assert len(show(box)["benchfarm_result"]) == 1
    (known,) = box.store.newest_results(catalog())
    stranger = known.model_copy(update={"device": "gone-1"})
    assert show(box, [stranger])["benchfarm_result"] == {}


@pytest.mark.parametrize(
    ("planted", "is_shown"),
    [
        ({}, True),
        ({"build": "another"}, False),
        ({"build": ""}, False),  # an earlier release recorded none
        ({"device": "gone-1"}, False),
        ({"stack": "gone"}, False),
        ({"delegate": "whatever a user typed"}, False),
    ],
)
def test_delegates_of_the_present_build_that_a_manifest_lists(
    box: FarmBox, planted: dict[str, object], *, is_shown: bool
) -> None:
    phone = PHONE.model_copy(update={"facts": {"fingerprint": "x/1"}})
    box.farm.register(builders.registration(None, phone))
    one = Capability.model_validate({**FALLS_BACK, **planted})
    metrics = FarmMetrics(catalog(), (), [one])
    text = gauge_text(metrics.expose(box.farm.state()).gauges)
    labels = 'device="phone-1",workload="resnet",stack="litert",delegate="xnnpack",precision="int8"'
    assert (f"benchfarm_device_capability{{{labels}}} 1" in text) is is_shown
    assert (f"benchfarm_device_delegated_ratio{{{labels}}} 0.25" in text) is is_shown
    assert text.count("benchfarm_device_capability{") == is_shown
    assert "x/1" not in text, "no fingerprint is a label"


def test_a_share_that_is_untold_has_no_series(box: FarmBox) -> None:
    phone = PHONE.model_copy(update={"facts": {"fingerprint": "x/1"}})
    box.farm.register(builders.registration(None, phone))
    one = Capability.model_validate({**FALLS_BACK, "delegated": None, "nodes": None})
    text = gauge_text(FarmMetrics(catalog(), (), [one]).expose(box.farm.state()).gauges)
    assert "benchfarm_device_delegated_ratio{" not in text
    assert "benchfarm_device_capability{" in text


def test_what_the_recording_rules_divide_by(box: FarmBox) -> None:
    box.farm.register(builders.registration(None, builders.cpu(), builders.cpu("cpu-2")))
    for name, precision in (("cpu-1", "fp32"), ("cpu-2", "fp32"), ("cpu-2", "bf16")):
        sweep = builders.sweep(devices=f'device == "{name}"', knobs={"precision": precision})
        box.submit(sweep)
        (job,) = box.ask().run
        box.report(job.ref, measured())
    shown = show(box)
    result = ("resnet", "torch", "training")
    assert shown["benchfarm_baseline_device_info"] == {("cpu-1", *result, "fp32", WORK): 1}
    assert shown["benchfarm_baseline_stack_info"] == {("cpu-2", *result, "fp32", WORK): 1}
    assert shown["benchfarm_ranking_direction"] == {("training", "step_time"): -1}
    known = catalog()
    checks = known.scenarios["training"].model_copy(update={"compares_speed": False})
    known = known.model_copy(update={"scenarios": {**known.scenarios, "training": checks}})
    assert show(box, known=known)["benchfarm_ranking_direction"] == {}, "so there is no ratio"
    box.farm.apply_event("cpu-2", Labelled({"baseline": "yes"}), "admin", "labelled: baseline=yes")
    assert show(box)["benchfarm_baseline_device_info"] == {("cpu-2", *result, "fp32", WORK): 1}


def test_events_show_what_the_store_would(box: FarmBox) -> None:
    """What is kept in memory is what a controller that restarts reads."""
    metrics = FarmMetrics(catalog(), [])
    box.observe = metrics.observe
    box.farm.register(builders.registration())
    bf16 = builders.sweep(knobs={"precision": "bf16"})
    measure(box, measured(0.8), measured(0.9), measured(0.5, Validity.INVALID))
    box.submit(bf16)
    (job,) = box.ask().run
    box.report(job.ref, builders.failure())
    state = box.farm.state()
    read = FarmMetrics(catalog(), box.store.newest_results(catalog()))
    assert gauge_text(metrics.expose(state).gauges) == gauge_text(read.expose(state).gauges)
