"""A virtual phone's answers beside its host's: real adb server, bundle and LoadGen on both."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from agents.attempts import reference_run
from agents.attempts.on_device import ANSWERS
from agents.attempts.reference_run import ReferenceRuns
from agents.attempts.referenced import ReferencedRunner
from agents.host.cores import exclusive_cores
from agents.host.facts import cpu_device
from agents.inference.content import Content, cache_folder
from agents.inference.reference_answers import ReferenceAnswers
from agents.remotes.local import LocalRemote
from agents.remotes.remote import NO_ENVIRONMENT, Completed, Ended, Pushed, Remote
from agents.remotes.tree import Tree
from controller.contracts.result import Result, Validity
from controller.runtime.home import Home
from models.mobile.metrics import read_answers
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.phone_runs import run_cell
from tests.support.virtual_phone import running_phone

pytestmark = pytest.mark.integration
SAMPLES = 64
CLASSES = 10


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoopAgent]:
    wait_for_nobody(monkeypatch, tmp_path)
    alone = partial(exclusive_cores, lock_dir=tmp_path / "locks")
    monkeypatch.setattr(reference_run, "exclusive_cores", alone)
    serial = f"--serial=REFERENCE{os.getpid()}"
    with running_phone("flagship", tmp_path / "phone", serial) as phone:
        async with agent_with(phone, Home(tmp_path / "home")) as agent:
            yield agent


@dataclass(frozen=True, slots=True)
class Permuting:
    """A phone whose delegate gives each class the next one's number."""

    phone: Remote

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await self.phone.pull(source, target)
        path = target / ANSWERS
        answers = read_answers(path, 1024).by_sample
        lines = (
            json.dumps({"qsl_idx": n, "data": permuted(answer).hex()})
            for n, answer in answers.items()
        )
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n")

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


def permuted(answer: bytes) -> bytes:
    (number,) = np.frombuffer(answer, "<i8")
    return np.array([(number + 1) % CLASSES], "<i8").tobytes()


async def test_a_delegate_that_permutes_classes_shows_at_once(
    agent: LoopAgent, tmp_path: Path
) -> None:
    content = Content(tmp_path / "content", cache_folder())
    host = LocalRemote.of(tmp_path / "host", f"references-{os.getpid()}")
    kept = ReferenceAnswers(tmp_path / "references")
    references = ReferenceRuns(content, host, cpu_device("0", {}), kept)

    async def measured(name: str, through: Callable[[Remote], Remote]) -> Result:
        outcome, phases = await run_cell(
            agent,
            tmp_path / name,
            "shapes_classifier",
            knobs={"mode": "accuracy", "reference_samples": SAMPLES},
            content=content,
            through=through,
            around=lambda runner: ReferencedRunner(runner, references),
        )
        assert isinstance(outcome, Result), outcome
        assert ("reference" in phases) == (name == "right"), "it is computed once"
        return outcome

    right = await measured("right", lambda remote: remote)
    assert right.validity is Validity.VALID
    assert "reference_differs" not in right.environment
    assert right.environment["reference_samples"] == SAMPLES
    assert str(right.environment["reference"]).startswith("litert 2.3.0 on its host (")
    # Delegate and own kernels may round one image's highest output differently.
    assert right.metrics["reference_agreement"].value >= 1 - 1 / SAMPLES
    reference = right.metrics["reference_accuracy"].value
    assert 0.7 < reference < 1
    assert abs(right.metrics["reference_difference"].value) <= 1 / SAMPLES

    wrong = await measured("wrong", Permuting)
    assert wrong.metrics["reference_accuracy"].value == reference
    assert wrong.metrics["reference_difference"].value < -0.5
    assert wrong.metrics["reference_agreement"].value < 1 / SAMPLES * 2
    said = str(wrong.environment["reference_differs"])
    assert said.startswith(f"its answers to {SAMPLES} samples agree with those of litert 2.3.0 on ")
    assert [why for why in wrong.reasons if "reference" in why] == []
