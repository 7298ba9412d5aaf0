"""What an agent announces of the devices of its host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from unittest.mock import AsyncMock

from agents.actor import AgentActor
from tests.support import builders

ROOM = {"room_celsius": "22"}


async def test_phones_are_announced_with_the_temperature_of_their_host_s_room() -> None:
    host = builders.cpu().model_copy(update={"labels": {**ROOM, "rack": "b2"}})
    phone = builders.phone()
    announce = AsyncMock()
    actor = SimpleNamespace(_host=host, _own=(host,), _agent=SimpleNamespace(announce=announce))
    await AgentActor._announce(cast("AgentActor", actor), [phone])
    announced = [host, phone.model_copy(update={"labels": ROOM})]
    announce.assert_awaited_once_with((*announced,))
