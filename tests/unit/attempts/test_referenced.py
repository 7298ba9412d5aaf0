"""A device's answers beside those of its host: what is told of a device that answers otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

import pytest

from agents.attempts import reference_run, referenced
from agents.attempts.reference_run import PHASE, ReferenceRuns
from agents.attempts.referenced import ANSWERS, ReferencedRunner
from agents.host.cores import exclusive_cores
from agents.inference.bundle.recipe import BundleUnbuildable
from agents.inference.bundle.requirements import Requirements
from agents.inference.content import Content, Ready, Runtime
from agents.inference.reference_answers import ReferenceAnswers
from agents.inference.runner.spec import RunSpec
from agents.remotes.remote import (
    KILLED,
    NO_ENVIRONMENT,
    Completed,
    Ended,
    FaultKind,
    Pushed,
    RemoteFault,
)
from agents.remotes.tree import Tree
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.facts import undeclared
from controller.contracts.mobile import OnDevice
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, Validity
from controller.contracts.suite_session import session_rules
from controller.contracts.units import Unit
from controller.contracts.wire import OnDeviceProgram, Progress, WorkerSpec
from controller.runtime.suite_runner import LOOK_S
from models.mobile.preparation import Compared
from tests.support import builders
from tests.support.knobs import scenario_knobs

SHAPES = load_catalog().workloads["shapes_classifier"]
WELL = Ended(0, False, b"")


def fraction(value: float) -> Measurement:
    return Measurement(value=value, unit=Unit.FRACTION)


SAID = "litert 2.3.0 on its host (x86_64, delegate none)"
MADE = Result(
    validity=Validity.VALID,
    metrics={},
    environment={
        "runtime": "litert",
        "litert": "2.3.0",
        "machine": "x86_64",
        "delegate": "none",
    },
)
MEASURED = Result(
    validity=Validity.VALID,
    metrics={"top1": fraction(0.9)},
    environment={"mode": "performance"},
    artefacts={ANSWERS: "/answers"},
)


@dataclass
class Inner:
    """A runner whose outcome is known."""

    outcome: Outcome = MEASURED

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        return self.outcome

    async def clean(self) -> int:
        return 3


@dataclass
class Host:
    """This host, whose runner answers at once; keeps the specs that it was given."""

    ended: Ended = WELL
    says: Result | Failure = MADE
    fault: RemoteFault | None = None
    specs: list[RunSpec] = field(default_factory=list)

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        if stdin:
            self.specs.append(RunSpec.of(json.loads(stdin)))
        return Completed(0, b"", b"")

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        if self.fault:
            raise self.fault
        said = Progress(phase="single_stream", done=1, total=9, values={"throughput": 5.0})
        for line in (said, self.says):
            on_line(line.model_dump_json().encode())
            await asyncio.sleep(0)
        return self.ended

    async def push_tree(self, tree: Tree) -> Pushed:
        return Pushed(PurePosixPath("/here") / tree.digest, 0)

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        target.write_bytes(b"the host's answers")

    async def clean(self) -> int:
        return 0


@dataclass
class Parts:
    """A runner under test, with what it is made of."""

    references: ReferenceRuns
    host: Host
    model: str = "model 1"
    agreement: float = 1.0
    compared: list[tuple[Path, Path, int]] = field(default_factory=list)
    seen: list[Progress] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, inner: Inner | None = None) -> Result:
        runner = ReferencedRunner(inner or Inner(), self.references)
        outcome = await runner.run(spec, self.seen.append)
        assert isinstance(outcome, Result), outcome
        assert undeclared(outcome.environment, {}) == []
        return outcome


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    locks = tmp_path / "locks"
    monkeypatch.setattr(reference_run, "exclusive_cores", partial(exclusive_cores, lock_dir=locks))
    host, content = Host(), Content(tmp_path / "content", tmp_path / "bundles")
    server = builders.cpu(facts={"architecture": "x86_64"})
    kept = ReferenceAnswers(tmp_path / "references")
    made = Parts(ReferenceRuns(content, host, server, kept, wait_s=5.0, compute_s=5.0), host)

    async def runtime(self: Content, name: str, arch: str) -> Runtime:
        needs = Requirements(kernel=(3, 7, 0), page_bytes=16384, storage_bytes=200 << 20)
        tree = Tree(tmp_path, 0, {"run": f"{name}-{arch}"})
        return Runtime(f"{name}-{arch}", tree, tree, "ld.so", needs)

    async def task(
        self: Content, name: str, workload: OnDevice, numerics: str, dataset: str | None
    ) -> Ready:
        tree = Tree(tmp_path, 0, {"model.tflite": made.model})
        return Ready(tree, workload, tmp_path / "task", 1024, has_truth=True)

    async def compare(ready: Ready, answers: Path, reference: Path, count: int) -> Compared:
        made.compared.append((answers, reference, count))
        figures = (0.9, -0.1, made.agreement)
        accuracy, difference, agreement = (
            Measurement(value=v, unit=Unit.FRACTION) for v in figures
        )
        return Compared(
            samples=count, accuracy=accuracy, difference=difference, agreement=agreement
        )

    monkeypatch.setattr(Content, "runtime", runtime)
    monkeypatch.setattr(Content, "task", task)
    monkeypatch.setattr(referenced, "compare_answers", compare)
    return made


def spec_with(scenario: str = "offline", bundle: str = "litert", **knobs: Scalar) -> WorkerSpec:
    assert SHAPES.on_device
    program = OnDeviceProgram(
        bundle=bundle, workload=SHAPES.on_device, quality_target=SHAPES.quality_target
    )
    usual = {"threads": 1, "numerics": "int8", "delegate": "xnnpack", "batch_size": 4}
    given = {**scenario_knobs(scenario), **usual, "reference_samples": 256, **knobs}
    update = {"program": program, "knobs": given, "scenario": scenario, "workload": SHAPES.name}
    job = builders.job().model_copy(update=update)
    return WorkerSpec(job=job, device=builders.phone(), artefact_dir="/nowhere")


async def test_the_host_computes_the_first_samples_without_a_delegate(parts: Parts) -> None:
    found = await parts.run(spec_with())
    (told,) = parts.host.specs
    assert (told.mode, told.scenario, told.delegate) == ("accuracy", "single_stream", "none")
    assert (told.first_samples, told.batch_size, told.threads) == (256, 1, 2)
    assert (told.answer, told.die_with_stdin) == ("top1", True)
    ((answers, reference, count),) = parts.compared
    assert (answers, count) == (Path("/answers"), 256)
    assert reference.read_bytes() == b"the host's answers"
    figures = {name: m.value for name, m in found.metrics.items()}
    assert figures == {
        "top1": 0.9,
        "reference_accuracy": 0.9,
        "reference_difference": -0.1,
        "reference_agreement": 1.0,
    }
    assert found.environment["reference"] == SAID
    assert found.environment["reference_samples"] == 256
    assert "reference_differs" not in found.environment
    assert (found.validity, found.reasons) == (Validity.VALID, ())
    # A reference's rate is not the phone's.
    assert [(p.phase, p.values) for p in parts.seen] == [(PHASE, {})]


@pytest.mark.parametrize(("agreement", "differs"), [(0.95, False), (0.9499, True), (0.0, True)])
async def test_a_device_that_answers_otherwise_is_told_and_stays_valid(
    parts: Parts, agreement: float, differs: bool
) -> None:
    parts.agreement = agreement
    found = await parts.run(spec_with())
    said = (
        f"its answers to 256 samples agree with those of {SAID} by {agreement:.2%}, less than 95%"
    )
    assert found.environment.get("reference_differs") == (said if differs else None)
    assert (found.validity, found.reasons) == (Validity.VALID, ())


async def test_it_is_computed_once_for_all_lengths_scenarios_and_delegates(parts: Parts) -> None:
    await asyncio.gather(
        parts.run(spec_with()),
        parts.run(spec_with("single_stream", delegate="auto", threads=3, batch_size=1)),
        parts.run(spec_with("server", length="normal", target_qps=3.0)),
        parts.run(spec_with("multi_stream", policy="mlperf", samples_per_query=3)),
    )
    assert len(parts.host.specs) == 1
    assert len(parts.compared) == 4


async def test_it_is_computed_again_for_what_changes_answers(parts: Parts) -> None:
    await parts.run(spec_with())
    await parts.run(spec_with(bundle="tflite"))
    await parts.run(spec_with(reference_samples=100))
    parts.model = "model 2"
    await parts.run(spec_with())
    assert len(parts.host.specs) == 4
    assert len({reference for _, reference, _ in parts.compared}) == 4


async def test_a_damaged_reference_is_computed_again(parts: Parts) -> None:
    await parts.run(spec_with())
    parts.compared[0][1].write_bytes(b"other answers")
    found = await parts.run(spec_with())
    assert len(parts.host.specs) == 2
    assert parts.compared[1][1].read_bytes() == b"the host's answers"
    assert "reference_unknown" not in found.environment


async def test_more_samples_than_there_are_is_all_of_them(parts: Parts) -> None:
    await parts.run(spec_with(reference_samples=50_000))
    assert parts.host.specs[0].first_samples == 1024


async def test_none_was_asked_for(parts: Parts) -> None:
    found = await parts.run(spec_with(reference_samples=0))
    assert found.environment["reference_unknown"] == "reference_samples is 0"
    assert parts.host.specs == []


def failed(kind: str, message: str, blame: Blame = Blame.WORKLOAD) -> Failure:
    return Failure(blame=blame, kind=kind, message=message)


@pytest.mark.parametrize(
    ("host", "said", "again"),
    [
        (Host(says=failed("model_unusable", "no operator MyConv")), "no operator MyConv", 1),
        (Host(Ended(KILLED, False, b"", out_of_memory=True), MADE), "ran out of memory", 1),
        (Host(Ended(KILLED, True, b"")), "5 s", 1),
        (Host(fault=RemoteFault("here", FaultKind.STORAGE_FULL, "disk full")), "disk full", 2),
        (Host(says=failed("storage_full", "no space", Blame.DEVICE)), "no space", 2),
    ],
)
async def test_a_reference_that_can_not_be_computed_is_told_with_its_reason(
    parts: Parts, host: Host, said: str, again: int
) -> None:
    """What would fail again is not tried again by this agent."""
    parts.references.remote = host
    for _ in range(2):
        found = await parts.run(spec_with())
        assert said in str(found.environment["reference_unknown"])
        assert {"reference_accuracy", "reference_agreement"}.isdisjoint(found.metrics)
        assert (found.validity, found.metrics["top1"].value) == (Validity.VALID, 0.9)
    assert len(host.specs) == again


async def test_a_host_without_the_runtime_says_so(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lacking(self: Content, name: str, arch: str) -> Runtime:
        raise BundleUnbuildable(f"build bundle {name}-{arch}", "there is no recipe for it", "Look.")

    monkeypatch.setattr(Content, "runtime", lacking)
    found = await parts.run(spec_with())
    expected = "cannot build bundle litert-x86_64: there is no recipe for it. Look."
    assert found.environment["reference_unknown"] == expected


async def test_it_waits_while_the_host_is_measured_and_gives_up(
    parts: Parts, tmp_path: Path
) -> None:
    parts.references.wait_s = 0.3
    async with exclusive_cores({1}, lock_dir=tmp_path / "locks"):
        found = await parts.run(spec_with())
    assert found.environment["reference_unknown"] == "the host's cores were in use for 0.3 s"
    assert any(p.phase.startswith("waiting for core 1") for p in parts.seen)
    assert parts.host.specs == []
    await parts.run(spec_with())
    assert len(parts.host.specs) == 1


@dataclass
class Stuck(Host):
    """This host, whose runner never ends; says when it is ended."""

    is_ended: bool = False

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ended = True
        return self.ended


async def test_it_is_given_up_in_time_for_the_next_task_and_the_cores_are_free_again(
    parts: Parts,
) -> None:
    parts.references.remote, parts.references.most_s = (stuck := Stuck()), 0.3
    found = await parts.run(spec_with())
    assert found.environment["reference_unknown"] == "it took longer than 0.3 s"
    assert float(str(found.environment["reference_s"])) < parts.references.compute_s
    assert stuck.is_ended
    parts.references.remote, parts.references.most_s = parts.host, 60.0
    assert "reference_unknown" not in (await parts.run(spec_with())).environment


def test_the_longest_reference_leaves_time_to_begin_the_next_task() -> None:
    """It is a part of the pause between two tasks of a session."""
    _, longest = session_rules().task_pause_s
    assert reference_run.WAIT_S + reference_run.COMPUTE_S <= reference_run.MOST_S
    assert longest > reference_run.MOST_S + LOOK_S


@pytest.mark.parametrize(
    "outcome",
    [
        failed("offline", "gone"),
        MEASURED.model_copy(update={"artefacts": {}}),
    ],
)
async def test_without_answers_nothing_is_computed_or_said(parts: Parts, outcome: Outcome) -> None:
    runner = ReferencedRunner(Inner(outcome), parts.references)
    assert await runner.run(spec_with(), parts.seen.append) is outcome
    assert await runner.clean() == 3
    assert parts.host.specs == []
