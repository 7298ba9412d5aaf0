"""Audits of planted stacks in a worker, under the real LoadGen: cheaters are named, the honest one
passes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agents.inference.worker_run import run
from controller.contracts.audit import AUDIT, AuditCheck, AuditFinding, AuditVerdict
from controller.contracts.base import Scalar
from controller.contracts.records import StoredResult
from controller.contracts.result import Result, Validity
from controller.contracts.wire import Job, TrainingProgram, WorkerSpec
from controller.loadgen.audit_verdicts import findings_of, passes
from tests.support import builders, cheating
from tests.support.audits import original_result, try_result
from tests.support.knobs import launch_knobs, scenario_knobs

SCENARIO = "offline"
PASSES, REFUSED = AuditVerdict.PASSES, AuditVerdict.REFUSED


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter_ns", lambda: int(cheating.CLOCK.now_s * 1e9))
    monkeypatch.setattr(time, "perf_counter", lambda: cheating.CLOCK.now_s)


def measured(stack: str, folder: Path, audit: str) -> Result:
    """Return what a worker measures of a stack."""
    program = TrainingProgram(
        builder="tests.support.cheating:Images",
        arguments={},
        backend=f"tests.support.cheating:{stack}",
    )
    given: dict[str, Scalar] = {**launch_knobs(), **scenario_knobs(SCENARIO, audit=audit)}
    update = {"program": program, "scenario": SCENARIO, "knobs": given}
    job: Job = builders.job().model_copy(update=update)
    spec = WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(folder / audit))
    return run(spec, lambda _: None)


def audited(stack: str, check: AuditCheck, folder: Path) -> dict[str, AuditFinding]:
    """Return what two tries of an audit find of an honest claim by a stack."""
    tries = [tried(check, measured(stack, folder / name, check)) for name in "ab"]
    original = original_result(SCENARIO, cheating.HONEST_S)
    return {finding.name: finding for finding in findings_of(check, original, tries)}


def tried(check: AuditCheck, result: Result) -> StoredResult:
    assert result.environment[AUDIT] == str(check)
    return try_result(check, result.metrics, result.environment, SCENARIO)


@pytest.mark.parametrize("check", AuditCheck)
def test_an_honest_stack_passes_every_audit(check: AuditCheck, tmp_path: Path) -> None:
    found = audited("Honest", check, tmp_path)
    assert passes(found.values()), [finding.why for finding in found.values()]


@pytest.mark.parametrize(
    ("stack", "check", "name", "named"),
    [
        ("Caching", AuditCheck.CACHE, "cache", "answers are cached"),
        ("Knowing", AuditCheck.RANDOM_DATA, "speed", "only known samples are fast"),
        ("SlowCold", AuditCheck.COLD_START, "cold start", "the speed is reached warm only"),
    ],
)
def test_a_planted_stack_is_named(
    stack: str, check: AuditCheck, name: str, named: str, tmp_path: Path
) -> None:
    found = audited(stack, check, tmp_path)[name]
    assert found.verdict is REFUSED, found.why
    assert found.why.startswith(f"refused: {named}: ")


def test_a_claim_that_a_cache_made_is_not_reached_again(tmp_path: Path) -> None:
    """The ordinary run repeats 64 samples, so it is fast; new ones are as slow as they are."""
    claimed = measured("Caching", tmp_path, "none")
    assert claimed.validity is not Validity.INVALID
    original = original_result(SCENARIO, cheating.CHEAP_S)
    tries = [
        tried(AuditCheck.CACHE, measured("Caching", tmp_path / name, AuditCheck.CACHE))
        for name in "ab"
    ]
    found = {f.name: f for f in findings_of(AuditCheck.CACHE, original, tries)}
    assert found["claim"].verdict is REFUSED, found["claim"].why
