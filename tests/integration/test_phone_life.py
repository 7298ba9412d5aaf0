"""A phone is plugged in, unplugged, locked and moved to another host, and its run goes with it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from agents.attempts import phone as phone_attempts
from agents.inference.content import Content, cache_folder
from agents.link import ControllerAway
from agents.outbox import Outbox
from agents.phone_command import disconnected
from agents.phones.discovery import Pauses
from agents.remotes.adb.server import PrivateServer
from agents.virtual_phone import faults
from controller.contracts.device import CONTROLLER, DeviceState
from controller.contracts.result import Failure
from controller.contracts.run import AttemptState, RunState
from controller.runtime.home import Home
from controller.scheduling.device_life import Failed, ProbeWanted
from tests.integration.test_phone_faults import running_on, set_faults, sweep
from tests.support.fault_injection import FaultInjection
from tests.support.figures import Figure
from tests.support.phone_farm import (
    LoopAgent,
    LoopFarm,
    end_server,
    outlive_the_silent,
    serving_phones,
    wait_for_nobody,
)
from tests.support.tcp_proxy import tcp_proxy
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import until

serving = partial(serving_phones, pauses=Pauses(first_s=0.1))
pytestmark = [pytest.mark.integration, pytest.mark.farm]
SHOWN_S = 3.0
"""Within which a quiet machine shows a phone that comes or goes so."""
SAYINGS = ("register", "exchange", "report", "progress")
STOPPED_S = 5.0
"""Within which, on a quiet machine, a cancelled run has ended on the phone, too."""


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    """Of two hosts, each with an adb server of its own, which knows no phone yet."""
    homes = Home(tmp_path / "home-1"), Home(tmp_path / "home-2")
    yield homes
    for name, home in zip(("host-1", "host-2"), homes, strict=True):
        asyncio.run(_stop(home.agent / name / "adb"))


async def _stop(folder: Path) -> None:
    if folder.exists():
        await (await PrivateServer.start(folder)).stop()


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    serial = f"--serial=LIFE{os.getpid()}"
    with running_phone("flagship", tmp_path_factory.mktemp("phone"), serial) as phone:
        yield phone


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopFarm]:
    wait_for_nobody(monkeypatch, tmp_path)
    farm = LoopFarm(Home(tmp_path / "farm"))
    yield farm
    farm.store.close()


def content(folder: Path) -> Content:
    return Content(folder / "content", cache_folder())


@asynccontextmanager
async def two_hosts(
    farm: LoopFarm, homes: tuple[Home, Home], content: Content, injection: FaultInjection
) -> AsyncIterator[tuple[LoopAgent, LoopAgent]]:
    """Let agents of two hosts serve, into whose runs a fault can be injected."""
    first, second = homes
    with_all = partial(serving, farm, content=content, through=injection.through)
    async with with_all(home=first) as one, with_all(home=second, name="host-2") as other:
        yield one, other


async def shown(
    farm: LoopFarm, agent: LoopAgent, phone: RunningPhone, state: DeviceState, of: str = "host-1"
) -> float:
    """Return how many seconds it takes until a phone is shown in a state, of an agent."""
    began = time.monotonic()

    def holds() -> bool:
        now = farm.farm.state()
        owners = {d.device.id: d.agent_id for d in now.devices}
        stands = now.statuses.get(phone.serial)
        return stands is not None and stands.state is state and owners[phone.serial] == of

    await until(holds, f"it is {state} at {of}")
    return time.monotonic() - began


async def test_a_phone_known_by_its_address_is_back_when_agent_and_adb_server_are(
    homes: tuple[Home, Home], farm: LoopFarm, phone: RunningPhone
) -> None:
    async with serving(farm, homes[0]) as agent:
        await agent.connect(phone.address)
        await shown(farm, agent, phone, DeviceState.READY)
    await end_server(agent)
    async with serving(farm, homes[0]) as agent:
        await until(lambda: phone.serial in agent.phones.present.here, "it is connected again")


async def test_coming_and_going_are_shown(
    homes: tuple[Home, Home], farm: LoopFarm, phone: RunningPhone, figure: Figure
) -> None:
    async with serving(farm, homes[0]) as agent:
        took = {}
        await agent.connect(phone.address)
        took["plugged"] = await shown(farm, agent, phone, DeviceState.READY)
        await disconnected(agent.server, phone.address)
        took["unplugged"] = await shown(farm, agent, phone, DeviceState.OFFLINE)
        await agent.connect(phone.address)
        took["back"] = await shown(farm, agent, phone, DeviceState.READY)
        await set_faults(phone, faults.Unauthorized())
        took["locked"] = await shown(farm, agent, phone, DeviceState.UNAUTHORIZED)
        why = farm.farm.state().statuses[phone.serial].why
        await set_faults(phone)
    assert why == "confirm this host's key on its screen"
    figure("seconds until a phone's coming or going is shown", max(took.values()), "3")
    assert max(took.values()) < 10 * SHOWN_S, took
    history = [event.state.value for event in farm.store.history(phone.serial)]
    assert history[:3] == ["ready", "offline", "ready"]
    assert "unauthorized" in history[3:]


@pytest.mark.long
async def test_a_phone_moved_to_another_host_takes_its_run_along(
    homes: tuple[Home, Home],
    farm: LoopFarm,
    phone: RunningPhone,
    tmp_path: Path,
    figure: Figure,
) -> None:
    injection, took = FaultInjection("run", hangs=False), dict[str, float]()
    async with (
        tcp_proxy(phone.address) as proxy,
        two_hosts(farm, homes, content(tmp_path), injection) as (one, other),
    ):

        async def move() -> None:
            injection.left = running_on(phone)
            proxy.close()
            took["gone"] = await shown(farm, one, phone, DeviceState.OFFLINE)
            await other.connect(phone.address)

        injection.inject = move
        await one.connect(proxy.address)
        await shown(farm, one, phone, DeviceState.READY)
        farm.submit(sweep(f'device == "{phone.serial}"'))
        await until(lambda: "gone" in took, "it was unplugged in its run")
        took["moved"] = await shown(farm, other, phone, DeviceState.BUSY, "host-2")
        await until(lambda: farm.only_run().state.terminal, "the run has ended")
    attempts = [(a.agent_id, a.state is AttemptState.SUCCEEDED) for a in farm.only_run().attempts]
    assert attempts == [("host-1", False), ("host-2", True)]
    assert injection.left, "it ran"
    assert injection.outlived == [], "never two runs at once"
    assert len([r for r in farm.store.results() if r.counted]) == 1
    figure("seconds until a phone's coming or going is shown", max(took.values()), "3")
    assert max(took.values()) < 10 * SHOWN_S, took


@pytest.mark.long
async def test_no_run_meets_what_a_host_that_has_fallen_silent_runs(
    homes: tuple[Home, Home],
    farm: LoopFarm,
    phone: RunningPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over TCP the phone does not notice: without an order it would go on to its end."""
    # Hosts have their own cores: on one machine, a virtual phone's would keep its runs apart.
    monkeypatch.setattr(phone_attempts, "exclusive_cores", lambda *_, **__: AsyncExitStack())
    injection, silent = FaultInjection("run", hangs=False), asyncio.Event()
    wanted = sweep(f'device == "{phone.serial}"')
    async with (
        tcp_proxy(phone.address) as proxy,
        two_hosts(farm, homes, content(tmp_path), injection) as (one, other),
    ):

        async def fall_silent() -> None:
            injection.left = running_on(phone)
            proxy.silence()
            one.link.faults = dict.fromkeys(SAYINGS, [ControllerAway()] * 10_000)
            farm.submit(wanted.model_copy(update={"name": "first", "priority": 5}))
            silent.set()

        def begun_again() -> bool:
            farm.farm.tick()
            return injection.attempts > 1

        one.link.hold_s = other.link.hold_s = 0.2
        injection.inject = fall_silent
        await one.connect(proxy.address)
        await shown(farm, one, phone, DeviceState.READY)
        farm.submit(wanted)
        await silent.wait()
        await outlive_the_silent(farm, other.link)
        await other.connect(phone.address)
        await until(begun_again, "the other run has begun")
        proxy.close()
    assert injection.left, "it ran"
    assert injection.outlived == [], "never two runs at once"
    attempts = sorted([a.agent_id for a in run.attempts] for run in farm.store.runs())
    assert attempts == [["host-1"], ["host-2"]]


@pytest.mark.long
async def test_a_run_that_was_got_ready_does_not_begin_beside_another_host_s(
    homes: tuple[Home, Home],
    farm: LoopFarm,
    phone: RunningPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host may be cut from the controller, and not from the phone that is another's then."""
    monkeypatch.setattr(phone_attempts, "exclusive_cores", lambda *_, **__: AsyncExitStack())
    injection, cut = FaultInjection("start", hangs=False), asyncio.Event()
    async with (
        serving(farm, homes[0], content=content(tmp_path), through=injection.through) as one,
        serving(farm, homes[1], name="host-2", content=content(tmp_path)) as other,
    ):

        def is_measured() -> bool:
            return any("agents.inference.runner" in line for line in running_on(phone).values())

        async def lose_the_controller() -> None:
            one.link.faults = dict.fromkeys(SAYINGS, [ControllerAway()] * 10_000)
            cut.set()
            await until(is_measured, "the other's runner is on the phone")

        def ended() -> bool:
            farm.farm.tick()
            return farm.only_run().state.terminal

        one.link.hold_s = other.link.hold_s = 0.2
        injection.inject = lose_the_controller
        await one.connect(phone.address)
        await shown(farm, one, phone, DeviceState.READY)
        farm.submit(sweep(f'device == "{phone.serial}"'))
        await cut.wait()
        await outlive_the_silent(farm, other.link)
        await other.connect(phone.address)
        await until(ended, "the other's run has ended")
        (report,) = Outbox(one.folder / "outbox").pending()
    assert isinstance(report.outcome, Failure)
    assert "another host's run is on it" in report.outcome.message
    attempts = [(a.agent_id, a.state is AttemptState.SUCCEEDED) for a in farm.only_run().attempts]
    assert attempts == [("host-1", False), ("host-2", True)]


@pytest.mark.long
async def test_a_cancelled_run_has_soon_ended_on_the_phone(
    homes: tuple[Home, Home],
    farm: LoopFarm,
    phone: RunningPhone,
    tmp_path: Path,
    figure: Figure,
) -> None:
    injection, sweep_ids = FaultInjection("run", hangs=False), list[str]()
    cancelled = asyncio.Event()

    async def cancel() -> None:
        injection.left = running_on(phone)
        assert farm.cancel(sweep_ids[0]) == 1
        cancelled.set()

    injection.inject = cancel
    async with serving(
        farm, homes[0], content=content(tmp_path), through=injection.through
    ) as agent:
        await agent.connect(phone.address)
        await shown(farm, agent, phone, DeviceState.READY)
        sweep_ids.append(farm.submit(sweep(f'device == "{phone.serial}"')).sweep_id)
        await cancelled.wait()
        began = time.monotonic()
        await until(lambda: not running_on(phone), "nothing of it runs on the phone")
        took = time.monotonic() - began
        assert farm.resume(sweep_ids[0]) == 1
        await until(lambda: farm.only_run().state is RunState.DONE, "resumed, it is done")
    assert injection.left
    figure("seconds until a cancelled run has ended on its phone", took, "5")
    assert took < 10 * STOPPED_S


@pytest.mark.long
async def test_a_phone_in_quarantine_is_let_out_by_a_probe_once_it_is_well(
    homes: tuple[Home, Home], farm: LoopFarm, phone: RunningPhone
) -> None:
    def whys() -> list[str]:
        return [event.why for event in farm.store.history(phone.serial)]

    async def probed(agent: LoopAgent) -> str:
        told = len(whys())
        farm.farm.apply_event(phone.serial, ProbeWanted(), "admin", "")
        agent.link.poke()
        await until(lambda: len(whys()) > told, "it has been probed")
        return whys()[-1]

    async with serving(farm, homes[0]) as agent:
        await agent.connect(phone.address)
        await shown(farm, agent, phone, DeviceState.READY)
        for _ in range(3):
            farm.farm.apply_event(phone.serial, Failed("read_only: no"), CONTROLLER, "")
        await shown(farm, agent, phone, DeviceState.QUARANTINED)
        await set_faults(phone, faults.ReadOnly())
        assert "Read-only file system" in await probed(agent)
        await set_faults(phone)
        assert (await probed(agent)).startswith("probe passed: 4 MiB written and read")
        await shown(farm, agent, phone, DeviceState.READY)
    assert any(why.startswith("probe failed: ") for why in whys())
