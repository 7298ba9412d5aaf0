from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest

from agents.android.conditions import battery_facts, environment_of, thermal_facts
from agents.android.content import Content
from agents.android.on_device import OnDeviceRun, delegated, judged, merged, runner_spec
from agents.android.run_length import LENGTHS
from agents.android.runner.spec import RunSpec
from agents.transports.remote import (
    NO_ENVIRONMENT,
    Completed,
    Ended,
    FaultKind,
    Pushed,
    RemoteFault,
)
from agents.transports.tree import Tree
from controller.contracts.catalog import QualityTarget, load_catalog
from controller.contracts.result import Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import OnDeviceProgram, WorkerSpec
from tests.support import builders

SHAPES = load_catalog().workloads["shapes_classifier"]
BATTERY = """Current Battery Service state:
  AC powered: false
  USB powered: true
  level: 83
  temperature: 287
"""
THERMAL = """IsStatusOverride: false
Thermal Status: 3
Cached temperatures:
\tTemperature{mValue=99.0, mType=3, mName=skin, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
\tTemperature{mValue=36.5, mType=3, mName=skin, mStatus=0}
"""


def result(metrics: dict[str, float], *reasons: str) -> Result:
    return Result(
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=reasons,
        metrics={n: Measurement(value=v, unit=Unit.FRACTION) for n, v in metrics.items()},
        environment={"mode": "performance"},
        artefacts={f"log_{name}": name for name in metrics},
    )


def test_a_submission_has_every_metric_and_every_reason() -> None:
    performance = result({"latency_p90": 1.0, "peak_memory": 5.0}, "too short")
    accuracy = result({"top1": 0.9, "peak_memory": 7.0})
    both = merged([performance, accuracy], pushed_bytes=3)
    assert (both.validity, both.reasons) == (Validity.INVALID, ("too short",))
    values = {name: m.value for name, m in both.metrics.items()}
    assert values == {"latency_p90": 1.0, "top1": 0.9, "peak_memory": 5.0}
    assert both.environment["pushed_bytes"] == 3
    assert set(both.artefacts) == {"log_latency_p90", "log_peak_memory", "log_top1"}


@pytest.mark.parametrize(("top1", "verdict"), [(0.8, Validity.VALID), (0.79, Validity.INVALID)])
def test_accuracy_below_the_quality_target_is_invalid_with_both_numbers(
    top1: float, verdict: Validity
) -> None:
    found = judged(result({"top1": top1}), QualityTarget(metric="top1", value=0.8))
    assert found.validity is verdict
    expected = ("top1 0.7900 is below the quality target 0.8000",)
    assert found.reasons == (() if verdict is Validity.VALID else expected)


@pytest.mark.parametrize(
    ("used", "wanted", "reasons"),
    [
        ("xnnpack", "xnnpack", ()),
        ("none", "none", ()),
        ("none", "xnnpack", ("delegate none ran it, not xnnpack",)),
        ("xnnpack", "none", ("delegate xnnpack ran it, not none",)),
    ],
)
def test_a_delegate_that_was_not_asked_for_is_invalid(
    used: str, wanted: str, reasons: tuple[str, ...]
) -> None:
    measured = result({"top1": 0.9}).model_copy(update={"environment": {"delegate": used}})
    found = delegated(measured, wanted)
    assert found.reasons == reasons
    assert found.validity is (Validity.INVALID if reasons else Validity.VALID)
    assert merged([found, found], pushed_bytes=0).reasons == reasons


def test_without_an_accuracy_or_a_target_nothing_is_judged() -> None:
    performance = result({"latency_p90": 1.0})
    assert judged(performance, QualityTarget(metric="top1", value=0.8)) == performance
    assert judged(performance, None) == performance


class FakePhone:
    """Answers every run with a result at once, and notes how long it was given."""

    def __init__(self, breaks_with: BaseException | None = None) -> None:
        self.breaks_with = breaks_with
        self.deadlines: list[float] = []
        self.commands: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        self.commands.append(tuple(argv))
        return Completed(0, b"", b"")

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        self.deadlines.append(deadline_s)
        if self.breaks_with:
            raise self.breaks_with
        metric = "top1" if "accuracy" in argv[1] else "throughput"
        on_line(result({metric: 0.9}).model_dump_json().encode())
        return Ended(0, False, b"")

    async def push_tree(self, tree: Tree) -> Pushed:
        return Pushed(PurePosixPath("/there") / tree.digest, 7)

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        target.mkdir()

    async def clean(self) -> int:
        return 0


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerSpec:
    """A submission, for which no bundle need be built."""

    async def bundle(self: Content, runtime: str, arch: str) -> Tree:
        return Tree(tmp_path, 0, {"run": runtime})

    monkeypatch.setattr(Content, "bundle", bundle)
    assert SHAPES.on_device
    program = OnDeviceProgram(
        bundle="litert", workload=SHAPES.on_device, quality_target=SHAPES.quality_target
    )
    knobs = {"mode": "submission", "length": "rapid", "threads": 1, "numerics": "int8"}
    update = {"program": program, "knobs": knobs, "scenario": "offline"}
    job = builders.job(deadline_s=50.0).model_copy(update=update)
    return WorkerSpec(job=job, device=builders.phone(), artefact_dir=str(tmp_path))


async def outcome_on(phone: FakePhone, spec: WorkerSpec) -> Outcome:
    folder = Path(spec.artefact_dir)
    transport = OnDeviceRun(lambda _: phone, Content(folder / "content", folder / "bundles"))
    return await transport.run(spec, lambda _: None)


async def test_the_deadline_is_that_of_the_whole_submission(spec: WorkerSpec) -> None:
    phone = FakePhone()
    outcome = await outcome_on(phone, spec)
    assert isinstance(outcome, Result), outcome
    assert set(outcome.metrics) == {"throughput", "top1"}
    assert outcome.environment["pushed_bytes"] == 14
    first, second = phone.deadlines
    assert 0 < second < first <= 50.0


def fault(kind: FaultKind) -> RemoteFault:
    return RemoteFault("phone-1", kind, "it broke")


@pytest.mark.parametrize(
    ("breaks_with", "removed"),
    [
        (None, True),
        (fault(FaultKind.TOO_MUCH_OUTPUT), True),
        (asyncio.CancelledError(), True),
        (fault(FaultKind.HUNG), False),
        (fault(FaultKind.ADB_SERVER), False),
    ],
)
async def test_a_runs_folder_goes_with_it_unless_the_phone_is_in_trouble(
    spec: WorkerSpec, breaks_with: BaseException | None, removed: bool
) -> None:
    phone = FakePhone(breaks_with)
    with suppress(asyncio.CancelledError):
        await outcome_on(phone, spec)
    made = [argv[-1] for argv in phone.commands if argv[:2] == ("mkdir", "-p")]
    gone = [argv[-1] for argv in phone.commands if argv[:2] == ("rm", "-rf")]
    assert made == ["/there/runs/run-1-1"]
    assert gone == (made if removed else [])


@pytest.mark.parametrize("scenario", LENGTHS)
@pytest.mark.parametrize("length", ["rapid", "quick", "normal"])
def test_the_runner_accepts_what_it_is_told(scenario: str, length: str) -> None:
    assert SHAPES.on_device
    program = OnDeviceProgram(
        bundle="litert", workload=SHAPES.on_device, quality_target=SHAPES.quality_target
    )
    knobs = {"length": length, "threads": 2}
    job = builders.job().model_copy(update={"scenario": scenario, "knobs": knobs})
    files, logs = PurePosixPath("/d/files"), PurePosixPath("/d/logs")
    spec = RunSpec.of(runner_spec(job, program, files, logs, "performance"))
    assert spec.min_query_count == LENGTHS[scenario][length].min_query_count
    assert (spec.threads, spec.scenario, spec.die_with_stdin) == (2, scenario, True)
    assert spec.performance_sample_count == 1024


def test_battery_as_android_tells_it() -> None:
    expected = {"battery_percent": 83, "battery_celsius": 28.7, "charging": True}
    assert battery_facts(BATTERY) == expected
    assert battery_facts("Can't find service: battery") == {}


def test_thermal_status_and_present_temperatures() -> None:
    assert thermal_facts(THERMAL) == {"thermal_status": "SEVERE", "celsius_skin": 36.5}
    assert thermal_facts("Can't find service: thermalservice") == {}


def test_conditions_are_told_apart_by_their_moment() -> None:
    found = environment_of({"battery_percent": 83}, {"battery_percent": 82})
    assert found == {"battery_percent_before": 83, "battery_percent_after": 82}
