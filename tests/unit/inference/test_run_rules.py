"""What a reviewer of MLPerf Mobile would refuse, each rule of each task broken alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from agents.inference.run_rules import ACCURACY, SEEDS, in_room_of, rules_missed
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device, DeviceKind
from controller.contracts.result import Environment, Measurement, Result, Validity
from controller.contracts.suite_rules import load_suites, rules_of
from controller.contracts.units import Unit
from controller.contracts.wire import CandidateJob, Job, OnDeviceProgram
from tests.support import builders
from tests.support.knobs import scenario_knobs

CATALOG = load_catalog()
TASKS = sorted({name for rules in load_suites() for name in rules.tasks})
SEEDLESS = "ssd_mobilenet_v2"
"""A task of v0.7 alone, whose seeds nobody has found."""
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


@dataclass(frozen=True)
class Attempt:
    """What the judge looks at."""

    job: Job
    device: Device
    result: Result

    @property
    def missed(self) -> tuple[str, ...]:
        program = self.job.program
        assert isinstance(program, OnDeviceProgram)
        return rules_missed(self.job, program, self.device, self.result)

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

    def with_accuracy(self, value: float | None) -> Attempt:
        program = self.job.program
        assert isinstance(program, OnDeviceProgram)
        name = ACCURACY[program.workload.output.kind]
        metrics = {n: m for n, m in self.result.metrics.items() if n != name}
        if value is not None:
            metrics[name] = Measurement(value=value, unit=Unit.FRACTION)
        return replace(self, result=self.result.model_copy(update={"metrics": metrics}))


def by_the_rules(workload: str) -> Attempt:
    """Return an attempt that breaks no rule, but that of SEEDLESS."""
    rules, manifest = rules_of(workload), CATALOG.workloads[workload]
    assert rules
    assert manifest.on_device
    knobs = scenario_knobs("single_stream", length="normal", policy="mlperf", mode="submission")
    chosen = {name: knob.default for name, knob in manifest.knobs.items()} | {"dataset": "full"}
    target = rules.tasks[workload].target_of(chosen)
    program = OnDeviceProgram(
        bundle="litert", workload=manifest.on_device, quality_target=manifest.quality_target
    )
    known = {f"{n}_{when}": v for n, v in CALM.items() for when in ("before", "after")}
    least = rules.scenarios["single_stream"]
    said: Environment = {
        **known,
        SEEDS: rules.seeds.said if rules.seeds else ("0", "0", "0"),
        "min_query_count": least.queries,
        "min_duration_ms": least.least_ms,
        "max_duration_ms": least.most_ms,
        "performance_samples": rules.tasks[workload].performance_samples,
    }
    job = builders.job().model_copy(
        update={
            "workload": workload,
            "scenario": "single_stream",
            "knobs": {**knobs, **chosen},
            "program": program,
        }
    )
    phone = builders.phone().model_copy(update={"labels": {"room_celsius": "22"}})
    attempt = Attempt(job, phone, Result(validity=Validity.VALID, metrics={}, environment=said))
    return attempt.with_accuracy(target.value if target else 0.9)


def unmet(workload: str, *more: str) -> tuple[str, ...]:
    """Return what is missed: of SEEDLESS its seeds, too."""
    seeds = ("LoadGen's seeds: those of MLPerf Mobile v0.7 are not known",)
    return (*(seeds if workload == SEEDLESS else ()), *more)


def paired(job: Job) -> Job:
    """Return a job that compares itself with itself."""
    candidate = CandidateJob(
        stack=job.stack,
        knobs=job.knobs,
        program=job.program,
        metric="latency_p90",
        width=0.1,
        time_limit_s=600,
    )
    return job.model_copy(update={"candidate": candidate})


Broken = Callable[[Attempt], Attempt]


def without(fact: str) -> Broken:
    return lambda attempt: attempt.saying(**{fact: None})


OF_EVERY_TASK: Mapping[str, tuple[Broken, str]] = {
    "virtual": (lambda a: a.on(virtual=True), "virtual device"),
    "server": (lambda a: a.on(kind=DeviceKind.CPU_HOST), "not a phone"),
    "mode": (lambda a: a.with_knob(mode="performance"), "mode performance"),
    "quick": (lambda a: a.with_knob(length="quick"), "length quick"),
    "rapid": (lambda a: a.with_knob(length="rapid"), "length rapid"),
    "policy": (lambda a: a.with_knob(policy="lab"), "policy lab"),
    "tiny": (lambda a: a.with_knob(dataset="tiny"), "data set tiny"),
    "own target": (
        lambda a: a.with_knob(quality_target=0.1),
        "a quality target of the sweep's own",
    ),
    "no accuracy": (lambda a: a.with_accuracy(None), "accuracy not known"),
    "server scenario": (
        lambda a: a.in_scenario("server"),
        "scenario server, which {rules} does not have for this task",
    ),
    "multi-stream": (
        lambda a: a.in_scenario("multi_stream"),
        "scenario multi_stream, which {rules} does not have for this task",
    ),
    "invalid": (
        lambda a: replace(a, result=a.result.model_copy(update={"validity": Validity.INVALID})),
        "INVALID",
    ),
    "disturbed": (
        lambda a: replace(a, result=a.result.model_copy(update={"validity": Validity.DISTURBED})),
        "DISTURBED",
    ),
    "cold room": (
        lambda a: a.on(labels={"room_celsius": "19.9"}),
        "room temperature 19.9 °C is not between 20 and 25 °C",
    ),
    "warm room": (
        lambda a: a.on(labels={"room_celsius": "25.1"}),
        "room temperature 25.1 °C is not between 20 and 25 °C",
    ),
    "unknown room": (
        lambda a: a.on(labels={}),
        "room temperature not known; the label room_celsius of the phone's host says it",
    ),
    "no number": (
        lambda a: a.on(labels={"room_celsius": "warm"}),
        "room temperature not known; the label room_celsius of the phone's host says it",
    ),
    "few queries": (lambda a: a.saying(min_query_count=1023), "min_query_count 1023, below 1024"),
    "short": (lambda a: a.saying(min_duration_ms=59_999), "min_duration_ms 59999, below 60000"),
    "untold length": (
        lambda a: a.saying(min_duration_ms=None),
        "min_duration_ms not known, below 60000",
    ),
    "few samples": (
        lambda a: a.saying(performance_samples=24),
        "performance_samples 24, below {samples}",
    ),
    "untold samples": (
        without("performance_samples"),
        "performance_samples not known, below {samples}",
    ),
    "another end": (
        lambda a: a.saying(max_duration_ms=300_000),
        "max_duration_ms 300000, not {most}",
    ),
    "untold end": (without("max_duration_ms"), "max_duration_ms not known, not {most}"),
    "comparison": (lambda a: replace(a, job=paired(a.job)), "a paired comparison"),
    "rooted": (lambda a: a.saying(root_after=True), "the phone is rooted"),
    "permissive": (
        lambda a: a.saying(selinux_before="Permissive"),
        "SELinux does not enforce its rules",
    ),
    **{
        f"{name} untold {when}": (without(f"{name}_{when}"), f"{name} not known {when} the run")
        for name in CALM
        for when in ("before", "after")
    },
}


@pytest.mark.parametrize("workload", TASKS)
def test_a_run_by_the_rules_meets_them(workload: str) -> None:
    assert by_the_rules(workload).missed == unmet(workload)


@pytest.mark.parametrize("workload", TASKS)
@pytest.mark.parametrize("broken", OF_EVERY_TASK)
def test_each_rule_that_is_broken_alone_is_named(workload: str, broken: str) -> None:
    change, expected = OF_EVERY_TASK[broken]
    rules = rules_of(workload)
    assert rules
    attempt = change(by_the_rules(workload))
    said = expected.format(
        rules=rules.title,
        samples=rules.tasks[workload].performance_samples,
        most=f"{rules.scenarios['single_stream'].most_ms:g}",
    )
    alone = attempt.job.candidate is not None  # says nothing of the others
    assert sorted(attempt.missed) == sorted((said,) if alone else unmet(workload, said))


@pytest.mark.parametrize("workload", [name for name in TASKS if name != SEEDLESS])
@pytest.mark.parametrize("which", range(3))
def test_each_seed_is_looked_at(workload: str, which: int) -> None:
    attempt, rules = by_the_rules(workload), rules_of(workload)
    assert rules
    assert rules.seeds
    seeds = list(rules.seeds.said)
    seeds[which] = "0"
    expected = f"LoadGen's seeds are not those of {rules.title}"
    assert attempt.saying(**{SEEDS: tuple(seeds)}).missed == (expected,)
    assert attempt.saying(**{SEEDS: None}).missed == (expected,)


def test_the_samples_of_a_smaller_data_set_that_counts_are_enough() -> None:
    lite = by_the_rules("mobilebert").with_knob(dataset="lite")
    assert lite.saying(performance_samples=100).missed == ()
    assert lite.saying(performance_samples=99).missed == ("performance_samples 99, below 100",)
    full = by_the_rules("mobilebert").saying(performance_samples=100)
    assert full.missed == ("performance_samples 100, below 10833",)


def with_offline() -> Iterator[object]:
    for workload in TASKS:
        has = workload.startswith("mobilenet_")
        yield pytest.param(workload, has, id=f"{workload}-{'has' if has else 'lacks'}")


@pytest.mark.parametrize(("workload", "has"), list(with_offline()))
def test_offline_is_a_scenario_of_classification_alone(workload: str, has: bool) -> None:
    rules = rules_of(workload)
    assert rules
    attempt = (
        by_the_rules(workload)
        .in_scenario("offline")
        .saying(min_query_count=24_576, min_duration_ms=0, max_duration_ms=0)
    )
    lacking = f"scenario offline, which {rules.title} does not have for this task"
    assert attempt.missed == (() if has else unmet_first(workload, lacking))
    too_few = attempt.saying(min_query_count=24_575).missed
    assert ("min_query_count 24575, below 24576" in too_few) is has


def unmet_first(workload: str, said: str) -> tuple[str, ...]:
    return (said, *unmet(workload))


@pytest.mark.parametrize(
    ("workload", "knobs", "target"),
    [
        ("mobilenet_edgetpu", {}, 0.746662),
        ("mobilenet_v4", {}, 0.81),
        ("ssd_mobilenet_v2", {}, 0.227),
        ("mobiledet", {}, 0.27075),
        ("deeplabv3_plus", {}, 0.53156),
        ("mosaic", {}, 0.574),
        ("mobilebert", {}, 0.874),
        ("mobilebert", {"dataset": "lite"}, 0.874),
        ("edsr", {"numerics": "int8"}, 33.0),
        ("edsr", {"numerics": "fp32"}, 33.0),
    ],
)
def test_the_target_is_that_of_the_newest_version(
    workload: str, knobs: Mapping[str, Scalar], target: float
) -> None:
    attempt = by_the_rules(workload).with_knob(**knobs)
    assert attempt.with_accuracy(target).missed == unmet(workload)
    missed = attempt.with_accuracy(target - 0.001).missed
    assert len(missed) == len(unmet(workload)) + 1
    assert any(f"is below {target:.4f}, the target of MLPerf Mobile v" in one for one in missed)


def test_no_task_of_the_suite_meets_nothing() -> None:
    surrogate = CATALOG.workloads["mobilebert_surrogate"].on_device
    assert surrogate
    attempt = by_the_rules("mobilebert")
    program = OnDeviceProgram(bundle="litert", workload=surrogate, quality_target=None)
    job = attempt.job.model_copy(update={"workload": "mobilebert_surrogate", "program": program})
    assert replace(attempt, job=job).missed == ("no task of the suite", "surrogate model")


def test_the_room_is_that_of_the_host() -> None:
    host = builders.cpu().model_copy(update={"labels": {"room_celsius": "22", "rack": "7"}})
    (phone,) = in_room_of(host, [builders.phone()])
    assert phone.labels == {"room_celsius": "22"}
