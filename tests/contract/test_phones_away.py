"""What is told of phones that an agent remembers and can't reach, on a real adb server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.phones.discovery import Pauses
from agents.remotes.adb.connections import state_of
from agents.remotes.remote import RemoteFault
from agents.virtual_phone import faults
from controller.contracts.adb_status import ADB_FOLDER
from controller.contracts.device import DeviceState
from controller.contracts.phone_addresses import FOLDER, PhoneAddresses
from controller.runtime.home import Home
from tests.contract.test_phones import complaint_about, serving
from tests.support.phone_farm import NO_CLUSTER, LoopAgent, LoopFarm
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import until

pytestmark = pytest.mark.integration
SERIAL = "AWAY1"


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[LoopFarm]:
    farm = LoopFarm(Home(tmp_path / "home"))
    yield farm
    farm.store.close()


async def taken_in(farm: LoopFarm, home: Path, phone: RunningPhone) -> None:
    """Have an agent know a phone; then the agent and its adb server end."""
    async with serving(farm, home) as agent:
        assert (await agent.cli("phone", "connect", phone.address))[0] == 0


async def told_of(farm: LoopFarm, agent: LoopAgent, address: str, state: DeviceState) -> str:
    """Wait until a phone is shown in a state, and why; return why."""
    await until(complaint_about(agent, address), "the agent tells of it")

    def shown() -> bool:
        standing = farm.farm.state().statuses[SERIAL]
        return standing.state is state and "no longer has it" not in standing.why

    await until(shown, f"it is {state}, and why")
    return farm.farm.state().statuses[SERIAL].why


async def named_once(agent: LoopAgent) -> None:
    """See that `device list` has a phone in its row and nowhere else, `phone list` beside it."""
    status, out, err = await agent.cli("device", "list", "--json")
    assert (status, err) == (0, NO_CLUSTER)
    assert [one["device"]["id"] for one in json.loads(out)] == [SERIAL]
    (row,) = json.loads((await agent.cli("phone", "list", "--json"))[1])
    assert (row["device_id"], row["last_device_id"]) == (None, SERIAL)
    assert row["complaint"]


async def test_a_remembered_phone_that_is_off_is_named_once_and_why(
    farm: LoopFarm, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with running_phone("old", tmp_path / "phone", f"--serial={SERIAL}") as phone:
        await taken_in(farm, home, phone)
    async with serving(farm, home) as agent:
        why = await told_of(farm, agent, phone.address, DeviceState.OFFLINE)
        assert "Connection refused" in why
        await named_once(agent)
        doctor = await agent.cli("phone", "doctor", SERIAL, "--json")
        assert doctor[0] == 1
        assert [check["what"] for check in json.loads(doctor[1])] == ["connection"]
        gone = (0, f"{phone.address}: disconnected\n", "")
        assert await agent.cli("phone", "disconnect", SERIAL) == gone
        assert (await agent.cli("phone", "list", "--json"))[1] == "[]\n"


async def test_a_remembered_phone_that_is_locked_now_is_named_once_and_stays_remembered(
    farm: LoopFarm, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with running_phone("old", tmp_path / "phone", f"--serial={SERIAL}") as phone:
        await taken_in(farm, home, phone)
        await asyncio.to_thread(phone.set_faults, faults.Unauthorized())
        for _ in range(2):  # the farm ends, and begins
            async with serving(farm, home) as agent:
                why = await told_of(farm, agent, phone.address, DeviceState.UNAUTHORIZED)
                assert why == "confirm this host's key on its screen"
                await named_once(agent)
        await asyncio.to_thread(phone.set_faults)
        async with serving(farm, home):
            await until(lambda: SERIAL in farm.online(), "it is back by itself")


async def test_a_phone_that_is_given_up_is_listed_no_more(farm: LoopFarm, tmp_path: Path) -> None:
    home, away = Home(tmp_path / "home"), "127.0.0.1:1"
    PhoneAddresses(home.agent / "host-1" / ADB_FOLDER / FOLDER).remember(away, SERIAL)
    async with serving(farm, home.path, pauses=Pauses(first_s=0.001)) as agent:
        await until(complaint_about(agent, away), "the agent tells of it")
        await until(lambda: not agent.phones._tasks, "it is given up")
        assert away not in agent.status().routes


async def test_a_locked_phone_that_adb_lists_no_more_is_not_listed(
    farm: LoopFarm, tmp_path: Path
) -> None:
    async with serving(farm, tmp_path / "home") as agent:
        options = (f"--serial={SERIAL}", "--fault=unauthorized")
        with running_phone("old", tmp_path / "phone", *options) as phone:
            with pytest.raises(RemoteFault, match="authenticate"):
                await agent.connect(phone.address)
            await until(complaint_about(agent, phone.address), "the agent tells of it")

        async def is_gone() -> bool:
            return await state_of(agent.server, phone.address) is None

        await until(is_gone, "adb lists it no more")
        await until(lambda: phone.address not in agent.status().routes, "nor do we")
