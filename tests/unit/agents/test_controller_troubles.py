"""A controller that answers an agent with errors: the agent outlasts them, and its runs go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import ray
from ray.exceptions import RayTaskError

from agents.link import ControllerFailed
from agents.ray_link import RayLink
from controller.contracts.errors import (
    BenchfarmError,
    NotFound,
    PartnersAwaited,
    StoreConflict,
    StoreDamaged,
    SweepInvalid,
    UnknownAgent,
    UnknownAttempt,
)
from controller.contracts.run import AttemptState
from controller.contracts.wire import Exchange, Progress
from tests.support import builders
from tests.support.farm import FarmBox
from tests.support.memory_link import MemoryLink
from tests.support.waiting import PATIENCE_S, until
from tests.unit.agents.test_agent import Bench, first_job, host_agent, serving

TROUBLES = [ControllerFailed("KeyError: 'cpu-1'"), StoreConflict("store", "a reference is lost")]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_a_run_goes_on_while_the_controller_fails(
    box: FarmBox, tmp_path: Path, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        ref = (await first_job(link, bench, agent)).job.ref
        link.faults["exchange"] = [trouble, trouble, trouble]
        link.faults["register"] = [trouble]
        link.poke()
        await until(lambda: not any(link.faults.values()), "it asks again")
        bench.running[ref].set_result(builders.result())
        await link.reported.get()
    assert [attempt.state for attempt in box.run(ref.run_id).attempts] == [AttemptState.SUCCEEDED]
    (said,) = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert said == f"the controller can't answer: {trouble!r}"


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_devices_that_a_failing_controller_did_not_take_are_told_later(
    box: FarmBox, tmp_path: Path, trouble: Exception
) -> None:
    link = MemoryLink(box)
    link.hold_s = 0.0
    async with serving(link, Bench(), tmp_path) as agent:
        await agent.registered.wait()
        link.faults["register"] = [trouble]
        await agent.announce([builders.cpu(), builders.cpu("cpu-9", cores=frozenset({9}))])
        await until(lambda: len(box.store.fleet()[1]) == 2, "both are stored")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_progress_that_a_failing_controller_did_not_take_is_skipped(
    box: FarmBox, tmp_path: Path, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        ref = (await first_job(link, bench, agent)).job.ref
        link.faults["progress"] = [trouble]
        bench.tell(Progress(phase="training", done=1, total=9))
        await until(lambda: "progress" in link.said, "it is sent")
        bench.tell(Progress(phase="training", done=2, total=9))
        await until(lambda: any(e.progress for e in box.events), "the next arrives")
    assert f"progress of {ref.run_id} not delivered" in caplog.text


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_a_failure_before_the_first_answer_is_told_to_who_starts_the_agent(
    box: FarmBox, tmp_path: Path, trouble: Exception
) -> None:
    link = MemoryLink(box)
    link.faults["register"] = [trouble]
    agent = host_agent(link, Bench(), tmp_path)
    with pytest.raises(type(trouble)):
        async with asyncio.timeout(PATIENCE_S):
            await agent.serve()
    assert not agent.answered.is_set()


class FailingActor:
    """The controller as Ray has it, if a call of it fails."""

    def __init__(self, cause: Exception) -> None:
        ended = RayTaskError("exchange", "its traceback", cause, "controller", 1, "127.0.0.1")
        self._error: Exception = ended.as_instanceof_cause()

    @property
    def exchange(self) -> FailingActor:
        return self

    async def remote(self, question: Exchange) -> NoReturn:
        raise self._error


QUESTION = Exchange(agent_id="host-1", incarnation="first", held=(), asked_at=1.0)


async def _asked(monkeypatch: pytest.MonkeyPatch, cause: Exception) -> None:
    monkeypatch.setattr(ray, "get_actor", lambda *_, **__: FailingActor(cause))
    await RayLink().exchange(QUESTION)


@pytest.mark.parametrize(
    "cause",
    [
        UnknownAgent("host-1", "first"),
        UnknownAttempt("run-1", 1),
        PartnersAwaited("run-1", 1),
        StoreDamaged("store", "malformed"),
        StoreConflict("store", "another outcome"),
    ],
    ids=lambda cause: type(cause).__name__,
)
async def test_what_the_link_names_comes_over_ray_as_it_was_raised(
    monkeypatch: pytest.MonkeyPatch, cause: BenchfarmError
) -> None:
    with pytest.raises(type(cause)) as caught:
        await _asked(monkeypatch, cause)
    assert caught.value is cause


@pytest.mark.parametrize(
    "cause",
    [
        SweepInvalid("read the sweep", "key stack: it is gone", "Choose another."),
        NotFound("find device cpu-1", "there is no such device", "Wait."),
        KeyError("cpu-1"),
    ],
    ids=lambda cause: type(cause).__name__,
)
async def test_any_other_error_is_the_controllers_failure_to_answer(
    monkeypatch: pytest.MonkeyPatch, cause: Exception
) -> None:
    with pytest.raises(ControllerFailed) as caught:
        await _asked(monkeypatch, cause)
    assert str(caught.value) == f"{type(cause).__name__}: {cause}"
