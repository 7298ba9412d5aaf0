"""A job holds its device's cores, which have to be there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.attempts import exclusive_host
from agents.attempts.exclusive_host import ExclusiveHostRunner
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec
from tests.support import builders


class Counted:
    """A runner that counts its jobs, during which something may happen."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.ran = 0
        self.meanwhile = meanwhile

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.ran += 1
        self.meanwhile()
        return builders.result()

    async def clean(self) -> int:
        return 0


def spec_on(folder: Path, cores: frozenset[int]) -> WorkerSpec:
    spec = builders.worker_spec(str(folder))
    return spec.model_copy(update={"device": builders.cpu(cores=cores, facts={"cores": 2})})


async def test_a_device_whose_cores_have_vanished_measures_nothing(tmp_path: Path) -> None:
    """Taken offline or out of the cpuset: the kernel would run its threads on the others."""
    inner = Counted()
    cores = frozenset(os.sched_getaffinity(0) | {4094, 4095})
    outcome = await ExclusiveHostRunner(inner).run(spec_on(tmp_path, cores), lambda _: None)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind, inner.ran) == (Blame.DEVICE, "cores_changed", 0)
    assert "no longer use CPU 4094,4095, " in outcome.message
    assert outcome.message.endswith("Restart the agent.")


@pytest.mark.parametrize("during", ["the wait", "the job"])
async def test_cores_that_vanish_later_leave_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    usable = {4094, 4095}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable)

    @asynccontextmanager
    async def waited(*_: object, **__: object) -> AsyncIterator[None]:
        if during == "the wait":
            usable.clear()
        yield

    monkeypatch.setattr(exclusive_host, "exclusive_cores", waited)
    inner = Counted(usable.clear)
    spec = spec_on(tmp_path, frozenset(usable))
    outcome = await ExclusiveHostRunner(inner).run(spec, lambda _: None)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, inner.ran) == ("cores_changed", int(during == "the job"))


async def test_otherwise_it_measures_and_has_the_hosts_facts(tmp_path: Path) -> None:
    inner = Counted()
    none = frozenset[int]()  # none whose lock another farm on this machine may hold
    outcome = await ExclusiveHostRunner(inner).run(spec_on(tmp_path, none), lambda _: None)
    assert isinstance(outcome, Result)
    assert inner.ran == 1
    assert {"cores", "governor", "load_before", "threads"} <= outcome.environment.keys()
