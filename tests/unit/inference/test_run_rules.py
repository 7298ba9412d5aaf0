"""What a reviewer would refuse: each rule of each version, task and scenario broken alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pytest

from agents.inference.on_device_result import with_run_rules
from agents.inference.run_length import loadgen_spec
from agents.inference.run_rules import ACCURACY, DATASET_ORIGIN, SEEDS, in_room_of, rules_missed
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device, DeviceKind
from controller.contracts.manifests import defaults_of
from controller.contracts.mobile import RunLength, RunLengths
from controller.contracts.result import Environment, Measurement, Result, Validity
from controller.contracts.suite_rules import OfSuite, SuiteRules, Target, TaskRules, load_suites
from controller.contracts.suite_version import SUITE_VERSION, TARGET_UNKNOWN
from controller.contracts.units import Unit
from controller.contracts.wire import CandidateJob, Job, OnDeviceProgram, WorkerSpec
from tests.support import builders
from tests.support.knobs import scenario_knobs

CATALOG = load_catalog()
SUITES: Final = {rules.version: rules for rules in load_suites()}
SEEDLESS: Final = "v0.7"
"""The version whose seeds nobody has found."""
Part = tuple[str, str, OfSuite]
"""Version, task and scenario."""
PARTS: Final[list[Part]] = [
    (rules.version, task, scenario)
    for rules in load_suites()
    for task, of_task in rules.tasks.items()
    for scenario in of_task.scenarios
]
by_part = pytest.mark.parametrize("part", PARTS, ids=" ".join)
CALM: dict[str, Scalar] = {
    "battery_percent": 80,
    "charging": False,
    "battery_celsius": 28.0,
    "thermal_status": "NONE",
    "screen_brightness": 0,
    "root": False,
    "selinux": "Enforcing",
    "airplane_mode": True,
}

DURING: Final = {"battery_celsius", "thermal_status"}
Said = tuple[str, Scalar, str]
"""A condition, a value, and how a run with it is refused."""
FORBIDDEN: Final[tuple[Said, ...]] = (
    ("charging", True, "the phone is charging"),
    ("airplane_mode", False, "airplane mode is off"),
    ("screen_brightness", 200, "brightness 200 is above 10"),
)
ALLOWED_AFTER: Final[tuple[Said, ...]] = (
    ("battery_percent", 1, "battery at 1 % is below 20 % and it is not charging"),
    ("battery_celsius", 50.0, "battery at 50 °C is above 35 °C"),
)
"""A run may take charge and warm the battery."""


@dataclass(frozen=True)
class Attempt:
    """What the judge looks at."""

    job: Job
    device: Device
    result: Result

    @property
    def rules(self) -> SuiteRules:
        return SUITES[str(self.job.knobs[SUITE_VERSION])]

    @property
    def of_task(self) -> TaskRules:
        return self.rules.tasks[self.job.workload]

    @property
    def length(self) -> RunLength:
        return next(of for name, of in self.rules.scenarios.items() if name == self.job.scenario)

    @property
    def target(self) -> Target | None:
        return self.of_task.target_of(self.job.knobs)

    @property
    def program(self) -> OnDeviceProgram:
        assert isinstance(self.job.program, OnDeviceProgram)
        return self.job.program

    @property
    def missed(self) -> tuple[str, ...]:
        return rules_missed(self.job, self.program, self.device, self.result)

    def with_knob(self, **knobs: Scalar) -> Attempt:
        job = self.job.model_copy(update={"knobs": {**self.job.knobs, **knobs}})
        return replace(self, job=job)

    def in_scenario(self, scenario: str) -> Attempt:
        return replace(self, job=self.job.model_copy(update={"scenario": scenario}))

    def on(self, **changes: object) -> Attempt:
        return replace(self, device=self.device.model_copy(update=changes))

    def saying(self, **facts: object) -> Attempt:
        said = {n: v for n, v in {**self.result.environment, **facts}.items() if v is not None}
        return replace(self, result=self.result.model_copy(update={"environment": said}))

    def judged(self, validity: Validity) -> Attempt:
        return replace(self, result=self.result.model_copy(update={"validity": validity}))

    def with_accuracy(self, value: float | None) -> Attempt:
        name = ACCURACY[self.program.workload.output.kind]
        metrics = {n: m for n, m in self.result.metrics.items() if n != name}
        if value is not None:
            metrics[name] = Measurement(value=value, unit=Unit.FRACTION)
        return replace(self, result=self.result.model_copy(update={"metrics": metrics}))

    def compared(self) -> Attempt:
        """Return an attempt that compares its system with itself."""
        candidate = CandidateJob(
            stack=self.job.stack,
            knobs=self.job.knobs,
            program=self.job.program,
            metric="latency_p90",
            width=0.1,
            time_limit_s=600,
        )
        return replace(self, job=self.job.model_copy(update={"candidate": candidate}))


def by_the_rules(version: str, workload: str, scenario: OfSuite, **chosen: Scalar) -> Attempt:
    """Return an attempt that breaks no rule of its version, but that of SEEDLESS.

    chosen: knobs of the workload.
    """
    rules, manifest = SUITES[version], CATALOG.workloads[workload]
    assert manifest.on_device
    knobs = {
        **scenario_knobs(scenario, length="normal", policy="mlperf", mode="submission"),
        **defaults_of(manifest.knobs),
        "dataset": "full",
        SUITE_VERSION: version,
        **chosen,
    }
    known = {f"{n}_{when}": v for n, v in CALM.items() for when in ("before", "after")}
    known |= {"battery_celsius_during_max": 33.0, "thermal_status_during_max": "NONE"}
    known |= {"battery_status_during": "Discharging", "conditions_longest_gap_s": 1.2}
    length = rules.scenarios[scenario]
    said: Environment = {
        **known,
        SEEDS: rules.seeds.said if rules.seeds else ("0", "0", "0"),
        "min_query_count": length.queries,
        "min_duration_ms": length.least_ms,
        "max_duration_ms": length.most_ms,
        "performance_samples": rules.tasks[workload].performance_samples,
        DATASET_ORIGIN: "samples: md5:0 (samples.zip); truth: md5:1 (truth.zip)",
    }
    program = OnDeviceProgram(bundle="litert", workload=manifest.on_device, quality_target=None)
    job = builders.job().model_copy(
        update={"workload": workload, "scenario": scenario, "knobs": knobs, "program": program}
    )
    phone = builders.phone().model_copy(update={"labels": {"room_celsius": "22"}})
    attempt = Attempt(job, phone, Result(validity=Validity.VALID, metrics={}, environment=said))
    return attempt.with_accuracy(attempt.target.value if attempt.target else 0.01)


@by_part
def test_a_result_says_where_its_version_prints_no_target(part: Part) -> None:
    version, task, _ = part
    attempt = by_the_rules(*part)
    spec = WorkerSpec(job=attempt.job, device=attempt.device, artefact_dir="/nowhere")
    said = with_run_rules(spec, attempt.result).environment
    none = f"MLPerf Mobile {version} prints none for this task"
    assert said.get(TARGET_UNKNOWN) == (none if task == "mobilenet_v4" else None)
    assert said["suite_rules"] == f"MLPerf Mobile {version} (unverified)"


def unmet(version: str, *more: str) -> list[str]:
    """Return what is missed: of SEEDLESS its seeds, too."""
    seeds = ["LoadGen's seeds: those of MLPerf Mobile v0.7 are not known"]
    return sorted([*(seeds if version == SEEDLESS else []), *more])


Broken = tuple[Attempt, str]
"""An attempt that breaks one rule, and how that is said."""


def of_job(right: Attempt) -> Iterator[Broken]:
    """Yield what a sweep may ask that its version does not allow."""
    yield right.with_knob(mode="performance"), "mode performance"
    for length in ("quick", "rapid"):
        yield right.with_knob(length=length), f"length {length}"
    for policy in ("ci", "lab"):
        yield right.with_knob(policy=policy), f"policy {policy}"
    for dataset in ({"full", "lite", "tiny"} - {*right.of_task.datasets}) | {"of my own"}:
        yield right.with_knob(dataset=dataset), f"data set {dataset}"
    for dataset in right.of_task.datasets:
        unknown = f"data set {dataset}: no published checksum vouches for it"
        of_it = right.with_knob(dataset=dataset).saying(**{DATASET_ORIGIN: None})
        if target := of_it.target:
            of_it = of_it.with_accuracy(target.value)
        yield of_it, unknown
    yield right.with_knob(quality_target=0.1), "a quality target of the sweep's own"
    for scenario in ("server", "multi_stream"):
        lacking = f"which {right.rules.title} does not have for this task"
        yield right.in_scenario(scenario), f"scenario {scenario}, {lacking}"


def of_loadgen(right: Attempt) -> Iterator[Broken]:
    """Yield what LoadGen's log may say that is not by the version's rules."""
    length, samples = right.length, right.of_task.performance_samples
    least = {
        "min_query_count": right.of_task.queries or length.queries,
        "min_duration_ms": round(length.least_ms),
        "performance_samples": samples,
    }
    for fact, value in least.items():
        yield right.saying(**{fact: None}), f"{fact} not known, below {value}"
        if value:
            yield right.saying(**{fact: value - 1}), f"{fact} {value - 1}, below {value}"
    most = f"{length.most_ms or math.inf:g}"
    for wrong in (300_000, *([599_999] if length.most_ms else [600_000, 1_800_000])):
        yield right.saying(max_duration_ms=wrong), f"max_duration_ms {wrong}, below {most}"
    yield right.saying(max_duration_ms=None), f"max_duration_ms not known, below {most}"


def of_seeds(right: Attempt) -> Iterator[Broken]:
    """Yield each seed wrong, all of them unknown, and those of each other round."""
    seeds = right.rules.seeds
    if seeds is None:
        return
    wrong = [("0", *seeds.said[1:]), (seeds.said[0], "0", seeds.said[2]), (*seeds.said[:2], "0")]
    others = {other.seeds.said for other in load_suites() if other.seeds} - {seeds.said}
    for said in (*wrong, *others, None):
        why = f"LoadGen's seeds are not those of {right.rules.title}"
        yield right.saying(**{SEEDS: said}), why


def of_result(right: Attempt) -> Iterator[Broken]:
    """Yield what a result may be that does not count."""
    yield right.judged(Validity.INVALID), "INVALID"
    yield right.judged(Validity.DISTURBED), "DISTURBED"
    yield right.with_accuracy(None), "accuracy not known"
    if target := right.target:
        below = target.value - 0.0001
        figures = f"{target.metric} {below:.4f} is below {target.value:.4f}"
        yield right.with_accuracy(below), f"{figures}, the target of {right.rules.title}"


def of_phone(right: Attempt) -> Iterator[Broken]:
    """Yield what a device may be, and what it may leave unsaid."""
    yield right.on(virtual=True), "virtual device"
    yield right.on(kind=DeviceKind.CPU_HOST), "not a phone"
    for celsius in ("19.9", "25.1"):
        asked = f"room temperature {celsius} °C is not between 20 and 25 °C"
        yield right.on(labels={"room_celsius": celsius}), asked
    for labels in ({}, {"room_celsius": "warm"}):
        unknown = "room temperature not known; the label room_celsius of the phone's host says it"
        yield right.on(labels=labels), unknown
    for when in ("before", "after"):
        yield right.saying(**{f"root_{when}": True}), "the phone is rooted"
        lax = "SELinux does not enforce its rules"
        yield right.saying(**{f"selinux_{when}": "Permissive"}), lax
        for governors, chosen in (
            ("performance", "performance"),
            ("performance schedutil", "performance"),
            ("sched_pixel userspace", "userspace"),
        ):
            why = f"governor {chosen} {when} the run"
            yield right.saying(**{f"governor_{when}": governors}), why
        for usual in ("schedutil", "sched_pixel sugov-ext", "interactive", "performance_x"):
            assert right.saying(**{f"governor_{when}": usual}).missed == right.missed
    for name in CALM:
        for when in ("before", "after"):
            yield right.saying(**{f"{name}_{when}": None}), f"{name} not known {when} the run"
    for name in DURING & {*right.rules.known, *CALM}:
        yield right.saying(**{f"{name}_during_max": None}), f"{name} not known during the run"


def of_samples(right: Attempt) -> Iterator[Broken]:
    """Yield what samples may not show of the run, or show that its rules do not allow."""
    yield right.saying(battery_status_during=None), "charging not known during the run"
    for status in ("Charging", "Full", "Not charging", "Charging, Discharging", "Unknown"):
        why = f"battery status {status} during the run, not Discharging from end to end"
        yield right.saying(battery_status_during=status), why
    unknown = "how often conditions were sampled is not known"
    yield right.saying(conditions_longest_gap_s=None), unknown
    for gap_s in (10.6, 59.0):
        why = f"conditions not sampled for {gap_s:.0f} s of the run, above 10 s"
        yield right.saying(conditions_longest_gap_s=gap_s), why
    assert right.saying(conditions_longest_gap_s=10.0).missed == right.missed


def of_conditions(right: Attempt) -> Iterator[Broken]:
    """Yield what a phone may say that the suite does not allow."""
    for name, value, why in FORBIDDEN:
        for when in ("before", "after"):
            yield right.saying(**{f"{name}_{when}": value}), f"{when} the run, {why}"
    for name, value, why in ALLOWED_AFTER:
        yield right.saying(**{f"{name}_before": value}), f"before the run, {why}"
        assert right.saying(**{f"{name}_after": value}).missed == right.missed
    hot = "before the run, thermal status SEVERE is above NONE"
    yield right.saying(thermal_status_before="SEVERE"), hot
    for status in ("LIGHT", "SEVERE", "SHUTDOWN"):
        for moment, fact in (("during", "during_max"), ("after", "after")):
            said = f"thermal status {status} {moment} the run"
            yield right.saying(**{f"thermal_status_{fact}": status}), said


KINDS: Final[tuple[Callable[[Attempt], Iterator[Broken]], ...]] = (
    of_job,
    of_loadgen,
    of_seeds,
    of_result,
    of_phone,
    of_samples,
    of_conditions,
)


@by_part
def test_a_run_by_the_rules_of_its_version_meets_them(part: Part) -> None:
    assert by_the_rules(*part).missed == tuple(unmet(part[0]))


@by_part
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_rule_that_is_broken_alone_is_named(
    part: Part, kind: Callable[[Attempt], Iterator[Broken]]
) -> None:
    planted = list(kind(by_the_rules(*part)))
    found = [sorted(broken.missed) for broken, _ in planted]
    assert found == [unmet(part[0], why) for _, why in planted]


def test_the_table_has_planted_runs_of_every_part() -> None:
    counts = [sum(1 for kind in KINDS for _ in kind(by_the_rules(*part))) for part in PARTS]
    assert len(PARTS) == 64
    assert min(counts) >= 60
    assert sum(counts) >= 4700


@by_part
def test_a_comparison_says_nothing_of_other_rules(part: Part) -> None:
    assert by_the_rules(*part).compared().missed == ("a paired comparison",)


@by_part
def test_a_run_of_another_version_is_refused_for_each_difference(part: Part) -> None:
    version, task, scenario = part
    for other in (rules for rules in load_suites() if task in rules.tasks):
        right = by_the_rules(other.version, task, scenario)
        mine = right.with_knob(suite_version=version)
        differences = (
            mine.rules.seeds is not None and mine.rules.seeds != right.rules.seeds,
            mine.length.ends_too_soon(right.length.most_ms),
            mine.target is not None
            and (right.target is None or right.target.value < mine.target.value),
        )
        assert len(mine.missed) == len(unmet(version)) + sum(differences), other.version


@by_part
def test_loadgen_is_asked_for_what_the_version_has(part: Part) -> None:
    right = by_the_rules(*part)
    spec = partial(loadgen_spec, right.job, lengths=RunLengths())
    asked, seeds = spec("performance"), right.rules.seeds
    assert asked["min_query_count"] == right.length.queries
    assert asked["min_duration_ms"] == right.length.least_ms
    assert asked["max_duration_ms"] == right.length.most_ms
    assert spec("accuracy")["max_duration_ms"] == 0
    names = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
    assert [str(asked[n]) for n in names if n in asked] == ([*seeds.said] if seeds else [])


@pytest.mark.parametrize("length", ["quick", "rapid"])
def test_short_runs_end_early_in_versions_that_end_runs(length: str) -> None:
    ends = {
        version: loadgen_spec(
            by_the_rules(version, "mobilebert", "single_stream", length=length).job,
            "performance",
            RunLengths(),
        )["max_duration_ms"]
        for version in SUITES
    }
    without = ("v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0")
    assert ends == {version: 0 if version in without else 60_000 for version in SUITES}


def test_the_samples_of_a_smaller_data_set_that_counts_are_enough() -> None:
    lite = by_the_rules("v6.0", "mobilebert", "single_stream", dataset="lite")
    assert lite.saying(performance_samples=100).missed == ()
    assert lite.saying(performance_samples=99).missed == ("performance_samples 99, below 100",)
    full = by_the_rules("v6.0", "mobilebert", "single_stream").saying(performance_samples=100)
    assert full.missed == ("performance_samples 100, below 10833",)


def test_offline_is_a_scenario_of_classification_alone() -> None:
    tasks = {(version, task) for version, task, _ in PARTS}
    with_offline = {(version, task) for version, task, scenario in PARTS if scenario == "offline"}
    assert with_offline == {one for one in tasks if one[1].startswith("mobilenet_")}
    for version, task in tasks - with_offline:
        lacking = f"scenario offline, which MLPerf Mobile {version} does not have for this task"
        other = by_the_rules(version, task, "single_stream").in_scenario("offline")
        assert sorted(other.missed) == unmet(version, lacking)


FROM_V3: Final = "v3.0 v3.1 v4.0 v4.1 v5.0 v6.0"
TARGETS: Final[list[tuple[str, str, Mapping[str, Scalar], float | None]]] = [
    ("v0.7 v1.0 v1.1 v2.0 v2.1 v3.0 v3.1 v4.0", "mobilenet_edgetpu", {}, 0.746662),
    ("v4.0 v4.1 v5.0 v6.0", "mobilenet_v4", {}, None),
    ("v0.7", "ssd_mobilenet_v2", {}, 0.227),
    ("v1.0 v1.1 v2.0 v2.1 v3.0 v3.1 v4.0 v4.1 v5.0 v6.0", "mobiledet", {}, 0.27075),
    ("v0.7 v1.0 v1.1 v2.0", "deeplabv3_plus", {}, 0.53156),
    ("v2.0 v2.1 v3.0 v3.1 v4.0 v4.1 v5.0 v6.0", "mosaic", {}, 0.57408),
    ("v0.7", "mobilebert", {}, 0.874014),
    ("v0.7", "mobilebert", {"dataset": "lite"}, 0.874014),
    (f"v1.0 v1.1 v2.0 v2.1 {FROM_V3}", "mobilebert", {}, 0.83142),
    (f"v1.0 v1.1 v2.0 v2.1 {FROM_V3}", "mobilebert", {"dataset": "lite"}, 0.84165),
    (FROM_V3, "edsr", {"numerics": "int8"}, 33.0),
    (FROM_V3, "edsr", {"numerics": "fp32"}, 33.58),
]
"""Versions, task, knobs, and the target that their rules print."""


@pytest.mark.parametrize(("versions", "task", "chosen", "target"), TARGETS)
def test_the_target_is_that_of_the_version(
    versions: str, task: str, chosen: Mapping[str, Scalar], target: float | None
) -> None:
    for version in versions.split():
        right = by_the_rules(version, task, "single_stream", **chosen)
        assert right.with_accuracy(target or 0.01).missed == tuple(unmet(version))
        if target is None:
            continue
        missed = right.with_accuracy(target - 0.001).missed
        assert len(missed) == len(unmet(version)) + 1
        said = f"is below {target:.4f}, the target of MLPerf Mobile {version}"
        assert any(said in one for one in missed)


def test_the_targets_of_every_version_and_task_are_listed() -> None:
    listed = {(version, task) for versions, task, *_ in TARGETS for version in versions.split()}
    assert listed == {(version, task) for version, task, _ in PARTS}


def test_a_cell_without_a_version_meets_no_rules() -> None:
    right = by_the_rules("v6.0", "mosaic", "single_stream")
    knobs = {name: value for name, value in right.job.knobs.items() if name != SUITE_VERSION}
    job = right.job.model_copy(update={"knobs": knobs})
    assert replace(right, job=job).missed == ("no task of the suite",)


def test_no_task_of_the_suite_meets_nothing() -> None:
    surrogate = CATALOG.workloads["mobilebert_surrogate"].on_device
    assert surrogate
    attempt = by_the_rules("v6.0", "mobilebert", "single_stream")
    program = OnDeviceProgram(bundle="litert", workload=surrogate, quality_target=None)
    job = attempt.job.model_copy(update={"workload": "mobilebert_surrogate", "program": program})
    assert replace(attempt, job=job).missed == ("no task of the suite", "surrogate model")


def test_the_room_is_that_of_the_host() -> None:
    host = builders.cpu().model_copy(update={"labels": {"room_celsius": "22", "rack": "7"}})
    (phone,) = in_room_of(host, [builders.phone()])
    assert phone.labels == {"room_celsius": "22"}


def test_edsr_needs_25_queries_as_its_rules_have_it() -> None:
    edsr = by_the_rules("v5.0", "edsr", "single_stream")
    assert edsr.saying(min_query_count=25).missed == ()
    assert edsr.saying(min_query_count=24).missed == ("min_query_count 24, below 25",)
    other = by_the_rules("v5.0", "mosaic", "single_stream").saying(min_query_count=1023)
    assert other.missed == ("min_query_count 1023, below 1024",)


@pytest.mark.parametrize("longest", [600_000, 1_800_000, 0])
def test_a_run_that_may_take_longer_is_not_ended_too_soon(longest: int) -> None:
    """v3.1 has a published result of EDSR with 1,800,000 ms."""
    right = by_the_rules("v3.1", "edsr", "single_stream")
    assert right.length.most_ms == 600_000
    assert not right.saying(max_duration_ms=longest).missed
