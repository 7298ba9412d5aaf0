"""A phone that reconnecting does not bring back: adb is restarted, the user's command is run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agents.phones import discovery as phones_module
from agents.phones.discovery import Pauses
from agents.phones.recovery.power_cycle import PowerCycle
from agents.remotes.adb.addresses import Address, UnixSocket
from agents.remotes.adb.programs import Link
from agents.remotes.adb.server import SERVER_MARKER
from controller.contracts.device import DeviceState
from controller.platform.processes import marked_processes
from controller.runtime.home import Home
from tests.support import builders
from tests.support.phone_farm import LoopAgent, LoopFarm, end_server, impatient, serving_phones
from tests.support.tcp_proxy import tcp_proxy
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    serial = f"--serial=RESCUE1X{os.getpid()}"
    with running_phone("flagship", tmp_path_factory.mktemp("phone"), serial) as phone:
        yield phone


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    serial = f"--serial=RESCUE2X{os.getpid()}"
    with running_phone("flagship", tmp_path_factory.mktemp("other"), serial) as phone:
        yield phone


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[LoopFarm]:
    farm = LoopFarm(Home(tmp_path / "farm"))
    yield farm
    farm.store.close()


@asynccontextmanager
async def serving(
    farm: LoopFarm,
    home: Path,
    power_cycle: PowerCycle | None = None,
    first_s: float = 0.05,
    link_to: Callable[[Address, str], Link] = impatient,
) -> AsyncIterator[LoopAgent]:
    """An agent with an adb server of its own, which ends after it."""
    pauses = Pauses(first_s=first_s)
    async with serving_phones(
        farm, Home(home), power_cycle=power_cycle, pauses=pauses, link_to=link_to
    ) as agent:
        yield agent
    await end_server(agent)


def to_a_hasty_server(server: Address, serial: str) -> Link:
    """Return a link that soon takes its adb server for hung."""
    assert isinstance(server, UnixSocket)
    return impatient(replace(server, answer_s=0.3), serial)


def server_of(agent: LoopAgent) -> psutil.Process:
    (process,) = marked_processes(SERVER_MARKER, str(agent.folder / "adb"))
    return process


async def shown(farm: LoopFarm, agent: LoopAgent, phone: RunningPhone, state: DeviceState) -> None:
    def holds() -> bool:
        stands = farm.farm.state().statuses.get(phone.serial)
        return stands is not None and stands.state is state

    await until(holds, f"{phone.serial} is {state}")


def told(farm: LoopFarm, phone: RunningPhone) -> list[str]:
    return [event.why for event in farm.store.history(phone.serial)]


async def test_a_hung_adb_server_is_restarted_once_no_other_phone_is_in_use(
    farm: LoopFarm,
    phone: RunningPhone,
    other: RunningPhone,
    tmp_path: Path,
) -> None:
    async with serving(farm, tmp_path / "home", link_to=to_a_hasty_server) as agent:
        for one in (phone, other):
            await agent.connect(one.address)
            await shown(farm, agent, one, DeviceState.READY)
        before = server_of(agent)
        before.suspend()
        async with agent.phones.present.alone(other.serial):
            await agent.phones.suspect(builders.phone(phone.serial))
            left_out = "adb is not restarted while another phone is in use"
            await until(lambda: left_out in told(farm, phone)[-1], "it is told")
            assert server_of(agent) == before, "what runs on the other phone goes on"
        await shown(farm, agent, phone, DeviceState.READY)
        await shown(farm, agent, other, DeviceState.READY)
        assert server_of(agent) != before
    because = "the adb server did not answer for 0.3 s"
    assert f"{because}; {left_out}; adb restarted" in told(farm, phone)


async def test_no_run_begins_on_a_phone_that_a_restart_has_lost_for_a_moment(
    farm: LoopFarm, phone: RunningPhone, other: RunningPhone, tmp_path: Path
) -> None:
    async with (
        tcp_proxy(phone.address) as proxy,
        serving(farm, tmp_path / "home") as agent,
    ):
        for address, one in ((proxy.address, phone), (other.address, other)):
            await agent.connect(address)
            await shown(farm, agent, one, DeviceState.READY)
        before = server_of(agent)
        proxy.close()
        alone = agent.phones.present.alone(other.serial)
        await until(alone.locked, "a restart has begun")
        async with alone:
            remote = agent.phones.remote_of(builders.phone(other.serial))
            said = await remote.run(("echo", "well"), 10.0)
        assert (said.stdout, server_of(agent) != before) == (b"well\n", True)
    assert any("; adb restarted" in why for why in told(farm, phone))
    assert not any("restarted" in why for why in told(farm, other))


async def test_the_user_s_command_plugs_a_cable_in_again_and_its_failure_is_told(
    farm: LoopFarm,
    phone: RunningPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The phone counts as one on a USB cable: adb lists it no more, and can't connect to it."""
    monkeypatch.setattr(phones_module, "is_tcp", lambda _: False)
    switched = tmp_path / "switched"
    # Fails the first time, and switches the power on the second.
    script = (
        f'[ -e {switched}.0 ] && echo "$1" >{switched} || {{ >{switched}.0; echo no hub; exit 1; }}'
    )
    command = PowerCycle(("sh", "-c", script, "hub", "{serial}"))
    async with (
        tcp_proxy(phone.address) as proxy,
        serving(farm, tmp_path / "home", command) as agent,
    ):
        await agent.connect(proxy.address)
        await shown(farm, agent, phone, DeviceState.READY)
        proxy.close()
        await shown(farm, agent, phone, DeviceState.OFFLINE)
        await until(lambda: switched.exists() and bool(switched.read_text()), "it was run")
        await proxy.open()
        await shown(farm, agent, phone, DeviceState.READY)
    assert switched.read_text() == f"{phone.serial}\n", "the phone's own serial, not adb's"
    last = [why for why in told(farm, phone) if "power cycled" in why][-1]
    done = "adb restarted; power cycled; that failed: exit status 1: no hub"
    assert last.endswith(f"{done}; power cycled (2 times in an hour)"), last


async def test_a_phone_that_is_back_by_another_way_is_left_alone(
    farm: LoopFarm,
    phone: RunningPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(phones_module, "is_tcp", lambda _: False)
    switched = tmp_path / "switched"
    command = PowerCycle(("touch", str(switched)))
    async with (
        tcp_proxy(phone.address) as proxy,
        serving(farm, tmp_path / "home", command, first_s=1.0) as agent,  # time to connect it
    ):
        await agent.connect(proxy.address)
        await shown(farm, agent, phone, DeviceState.READY)
        proxy.close()
        await shown(farm, agent, phone, DeviceState.OFFLINE)
        await agent.connect(phone.address)
        await shown(farm, agent, phone, DeviceState.READY)
        await until(lambda: not agent.phones._tasks, "nothing more is done for it")
        assert phone.serial in farm.online()
    assert not switched.exists()
