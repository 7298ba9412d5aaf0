"""The probes an agent was ordered: begun once, told until they are heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.agent import AgentParts, AgentPauses, HostAgent
from agents.health.prober import ProbeResult
from agents.health.probing import WHY_CHARACTERS, Probing
from agents.link import ControllerAway
from controller.contracts.device import Device, DeviceKind, DeviceState
from controller.contracts.wire import ProbeOrder
from controller.scheduling.device_life import Failed, ProbeWanted
from tests.support import builders
from tests.support.farm import FarmBox
from tests.support.memory_link import MemoryLink
from tests.support.waiting import PATIENCE_S

ORDER = ProbeOrder(device_id="cpu-1", number=0)


class Prober:
    """Finds what the test says."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Device] = asyncio.Queue()
        self.found: asyncio.Queue[ProbeResult | Exception] = asyncio.Queue()

    async def probe(self, device: Device) -> ProbeResult:
        self.asked.put_nowait(device)
        found = await self.found.get()
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


@asynccontextmanager
async def serving(link: MemoryLink, prober: Prober, folder: Path) -> AsyncIterator[HostAgent]:
    parts = AgentParts(
        identity=builders.agent(),
        devices=(builders.cpu(),),
        link=link,
        runners={},
        folder=folder,
        probers={DeviceKind.CPU_HOST: prober},
        pauses=AgentPauses(away_s=0.0),
    )
    agent = HostAgent(parts)
    life = asyncio.create_task(agent.serve())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await agent.registered.wait()
            yield agent
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def test_it_is_done_once_and_told_until_the_controller_has_it(
    box: FarmBox, tmp_path: Path
) -> None:
    link, prober = MemoryLink(box), Prober()
    link.hold_s = 0.01
    async with serving(link, prober, tmp_path):
        for _ in range(3):
            box.farm.apply_event("cpu-1", Failed("hung"), "controller", "")
        box.farm.apply_event("cpu-1", ProbeWanted(), "admin", "to be probed: by hand")
        link.poke()
        assert await prober.asked.get() == builders.cpu()
        link.faults["exchange"] = [ControllerAway(), ControllerAway()]
        prober.found.put_nowait(ProbeResult(True, "all is well"))
        while box.farm.state().statuses["cpu-1"].state is not DeviceState.READY:
            await asyncio.sleep(0)
        assert link.faults["exchange"] == [], "two answers were lost"
        assert prober.asked.empty()
    why = [event.why for event in box.store.history("cpu-1")]
    assert why[-1] == "probe passed: all is well"


async def test_whatever_goes_wrong_is_a_probe_that_failed() -> None:
    prober = Prober()
    devices = {"cpu-1": builders.cpu(), "phone-1": builders.phone()}
    probing = Probing({DeviceKind.CPU_HOST: prober})
    orders = [ORDER, *(ProbeOrder(device_id=name, number=3) for name in ("phone-1", "gone-1"))]
    assert probing.begin(orders, devices)
    assert not probing.begin(orders, devices), "it is under way"
    prober.found.put_nowait(ValueError("a\n\x1b" + "b" * 999))
    while probing.under_way():
        await asyncio.sleep(0)
    said = {report.of.device_id: report for report in probing.ended()}
    assert not any(report.passed for report in said.values())
    assert said["cpu-1"].why.startswith("the agent failed to probe it: ValueError: a ?bbb")
    assert len(said["cpu-1"].why) <= WHY_CHARACTERS
    assert said["phone-1"].why == "this agent can't probe devices of kind android"
    assert said["gone-1"].why == "it is not connected now"
    probing.heard(probing.ended())
    assert probing.ended() == ()


async def test_a_stopped_agent_ends_its_probes() -> None:
    prober = Prober()
    probing = Probing({DeviceKind.CPU_HOST: prober})
    probing.begin([ORDER], {"cpu-1": builders.cpu()})
    await prober.asked.get()
    await probing.stop()
    assert (probing.under_way(), probing.ended()) == ((), ())
