"""Audits of honest systems, really run, and a phone that answers by the names of images."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from agents.attempts.on_device import ANSWERS
from agents.inference.content import Content, cache_folder
from agents.remotes.remote import NO_ENVIRONMENT, Completed, Ended, Pushed, Remote
from agents.remotes.tree import Tree
from controller.contracts.audit import (
    AUDIT,
    LATENCY,
    SCORED,
    AuditCheck,
    AuditFinding,
    AuditVerdict,
)
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Result
from controller.contracts.units import Unit
from controller.loadgen.audit_verdicts import findings_of
from controller.loadgen.checks import Verdict
from controller.loadgen.run_logs import read_run
from controller.loadgen.stored_checks import stored_checks
from controller.runtime.home import Home
from controller.scheduling.expansion import cells_of
from models.mobile.metrics import read_answers
from models.mobile.preparation import TRUTHS
from models.mobile.samples import read_truths
from tests.support import builders
from tests.support.audits import original_result, try_result
from tests.support.cells import CATALOG
from tests.support.cells import run_cell as run_on_server
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.phone_runs import run_cell as run_on_phone
from tests.support.virtual_phone import running_phone

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
TOP1 = 0.8359
"""Of the classifier on its own images."""
SAMPLES = 1024
OWN = ".own"
"""Ends the file with what a phone answered itself."""


def found_in(check: AuditCheck, result: Result) -> dict[str, AuditFinding]:
    tried = try_result(check, result.metrics, result.environment)
    findings = findings_of(check, original_result(top1=TOP1), [tried])
    return {finding.name: finding for finding in findings}


def differing(result: StoredResult, folder: Path) -> list[str]:
    """Return the figures of a result that are not those of its files."""
    checks = stored_checks(result, read_run(folder), folder)
    return [check.figure for check in checks if check.verdict is Verdict.DIFFERS]


@pytest.mark.parametrize(
    "check",
    [
        AuditCheck.COLD_START,
        pytest.param(AuditCheck.CACHE, marks=pytest.mark.long),
        pytest.param(AuditCheck.RANDOM_DATA, marks=pytest.mark.long),
    ],
)
async def test_a_server_s_honest_model_is_not_named(
    check: AuditCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    knobs = {"image_size": 32, "num_classes": 8, "batch_size": 2, "threads": 1, AUDIT: str(check)}
    sweep = builders.sweep(workload="resnet50", stack="torch", scenario="offline", knobs=knobs)
    (cell,) = cells_of(sweep, CATALOG)
    outcome = await run_on_server(cell, tmp_path, tmp_path, deadline_s=120)
    assert isinstance(outcome, Result), outcome
    assert outcome.environment[AUDIT] == str(check)
    assert outcome.environment["warm_up_runs"] == 0 or check is not AuditCheck.COLD_START
    speed = next(iter(found_in(check, outcome).values()))
    assert speed.verdict is not AuditVerdict.REFUSED, speed.why
    assert len(outcome.metrics[LATENCY].samples) == 32
    stored = try_result(check, outcome.metrics, outcome.environment, "offline")
    folder = Path(outcome.artefacts["performance_audit"]).parent
    assert differing(stored, folder) == []
    altered = outcome.metrics[LATENCY].samples[1:]
    metrics = {**outcome.metrics, LATENCY: Measurement.of_samples(altered, Unit.SECONDS)}
    stored = stored.model_copy(update={"metrics": metrics})
    assert differing(stored, folder) == [LATENCY]


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoopAgent]:
    wait_for_nobody(monkeypatch, tmp_path)
    serial = f"--serial=AUDITED{os.getpid()}"
    with running_phone("flagship", tmp_path / "phone", serial) as phone:
        async with agent_with(phone, Home(tmp_path / "home")) as agent:
            yield agent


def labels_in(content: Path) -> Sequence[int]:
    """Return the labels of the prepared images."""
    (truths,) = content.glob(f"*/{TRUTHS}")
    labels = [int(str(truth)) for truth in read_truths(truths) or ()]
    assert len(labels) == SAMPLES
    return labels


@dataclass(frozen=True, slots=True)
class Knowing:
    """A phone that answers each image with its label, whatever its pixels are."""

    phone: Remote
    content: Path

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await self.phone.pull(source, target)
        if (path := target / ANSWERS).exists():
            path.with_name(ANSWERS + OWN).write_bytes(path.read_bytes())
            answers = (
                {"qsl_idx": n, "data": np.array([label], "<i8").tobytes().hex()}
                for n, label in enumerate(labels_in(self.content))
            )
            path.write_text("[\n" + ",\n".join(map(json.dumps, answers)) + "\n]\n")

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        return await self.phone.run(argv, deadline_s, stdin)

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        return await self.phone.stream(argv, deadline_s, on_line, environment)

    async def push_tree(self, tree: Tree) -> Pushed:
        return await self.phone.push_tree(tree)

    async def clean(self) -> int:
        return await self.phone.clean()


async def audited(
    check: AuditCheck, agent: LoopAgent, folder: Path, through: Callable[[Remote], Remote]
) -> Result:
    """Run an audit of the classifier on the agent's phone."""
    outcome, _ = await run_on_phone(
        agent,
        folder,
        "shapes_classifier",
        knobs={AUDIT: str(check)},
        content=Content(folder / "content", cache_folder()),
        through=through,
    )
    assert isinstance(outcome, Result), outcome
    return outcome


@pytest.mark.long
async def test_a_phone_s_honest_model_caches_nothing(agent: LoopAgent, tmp_path: Path) -> None:
    outcome = await audited(AuditCheck.CACHE, agent, tmp_path, lambda remote: remote)
    found = found_in(AuditCheck.CACHE, outcome)["cache"]
    assert found.verdict is not AuditVerdict.REFUSED, found.why


async def test_a_phone_that_knows_the_labels_is_named_and_its_model_is_not(
    agent: LoopAgent, tmp_path: Path
) -> None:
    def knowing(remote: Remote) -> Remote:
        return Knowing(remote, tmp_path / "content")

    outcome = await audited(AuditCheck.RANDOM_DATA, agent, tmp_path, knowing)
    assert outcome.environment[SCORED] == SAMPLES
    found = found_in(AuditCheck.RANDOM_DATA, outcome)
    assert found["speed"].verdict is not AuditVerdict.REFUSED, found["speed"].why
    assert found["accuracy"].verdict is AuditVerdict.REFUSED, found["accuracy"].why
    own = read_answers(Path(outcome.artefacts["accuracy_loadgen_accuracy"] + OWN), SAMPLES)
    labels = labels_in(tmp_path / "content")
    right = [np.frombuffer(own.by_sample[n], "<i8")[0] == labels[n] for n in range(SAMPLES)]
    top1 = Measurement(value=sum(right) / SAMPLES, unit=Unit.FRACTION)
    honest = outcome.model_copy(update={"metrics": {**outcome.metrics, "top1": top1}})
    found = found_in(AuditCheck.RANDOM_DATA, honest)
    assert found["accuracy"].verdict is AuditVerdict.PASSES, found["accuracy"].why
