"""What an agent announces of the devices of its host, and what becomes of one that can't go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import AsyncMock, Mock

import pytest
import ray

from agents.actor import AgentActor, AgentOptions
from agents.attempts.protocol import AttemptRunner
from agents.phones.discovery import Phones
from controller.contracts.device import DeviceKind
from controller.contracts.errors import UserError
from controller.metrics.exporter import LOOPBACK
from tests.support import builders
from tests.support.waiting import until

ROOM = {"room_celsius": "22"}
ELSEWHERE = "203.0.113.1"
"""An address that no host has."""


async def test_phones_are_announced_with_the_temperature_of_their_host_s_room() -> None:
    host = builders.cpu().model_copy(update={"labels": {**ROOM, "rack": "b2"}})
    phone = builders.phone()
    announce = AsyncMock()
    actor = SimpleNamespace(_host=host, _own=(host,), _agent=SimpleNamespace(announce=announce))
    await AgentActor._announce(cast("AgentActor", actor), [phone])
    announced = [host, phone.model_copy(update={"labels": ROOM})]
    announce.assert_awaited_once_with((*announced,))


# --- an agent that can't go on --------------------------------------------------------------------


class Exited(BaseException):
    """What `os._exit` is here, where it does not return."""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentOptions:
    """Of an agent without adb whose runner can't end what a former agent has left running."""

    async def nobody(_: Phones) -> None:
        await asyncio.Event().wait()

    runner = AsyncMock(spec=AttemptRunner)
    runner.clean.side_effect = TimeoutError("planted")
    monkeypatch.setattr(Phones, "watch", nobody)
    monkeypatch.setattr("agents.actor.attempt_runners", lambda *_: {DeviceKind.CPU_HOST: runner})
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    return AgentOptions(str(tmp_path), {}, LOOPBACK, str(token))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Make this process an actor that Ray has started for the first time, or again."""

    def start(again: bool) -> None:
        context = SimpleNamespace(
            get_actor_id=lambda: "ac7041", was_current_actor_reconstructed=again
        )
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(ray, "get_runtime_context", lambda: context)

    return start


@asynccontextmanager
async def agent(options: AgentOptions) -> AsyncIterator[AgentActor]:
    actor = AgentActor(options, address=LOOPBACK, restart_pause_s=0.0)
    try:
        yield actor
    finally:
        *others, metrics = actor._tasks
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        served = await metrics
        assert served is not None
        await served.cleanup()


async def test_a_restarted_agent_that_can_not_go_on_ends_the_process_so_that_there_is_another(
    options: AgentOptions,
    started: Callable[[bool], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    started(True)
    async with agent(options):
        await until(lambda: statuses, "the process has ended")
    assert statuses == [1]
    assert "the agent can't go on" in caplog.text
    assert "TimeoutError: planted" in caplog.text


async def test_who_starts_an_agent_is_told_why_it_can_not_go_on(
    options: AgentOptions, started: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    started(False)
    async with agent(options) as actor:
        with pytest.raises(TimeoutError, match="planted"):
            await actor.ready()
        for _ in range(50):
            await asyncio.sleep(0)
    assert statuses == []


async def test_an_agent_that_can_not_be_made_is_made_again_or_who_starts_it_is_told(
    options: AgentOptions,
    started: Callable[[bool], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def exit_(status: int) -> None:
        raise Exited(status)

    monkeypatch.setattr(os, "_exit", exit_)
    wrong = AgentOptions(options.home, {}, ELSEWHERE, options.metrics_token)
    started(False)
    with pytest.raises(UserError, match=ELSEWHERE):
        AgentActor(wrong, address=LOOPBACK)
    assert caplog.text == ""
    started(True)
    with pytest.raises(Exited):
        AgentActor(wrong, address=LOOPBACK, restart_pause_s=0.0)
    assert "the agent cannot start now and is started again" in caplog.text
    assert ELSEWHERE in caplog.text


async def test_a_process_that_is_not_connected_to_ray_yet_is_no_restarted_actor(
    options: AgentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "init", Mock(side_effect=AssertionError("a Ray is started")))
    async with agent(options) as actor:
        with pytest.raises(TimeoutError, match="planted"):
            await actor.ready()
    assert not ray.is_initialized()
