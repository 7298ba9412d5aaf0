"""Each fault of a phone at each moment of a run, from the farm's queue to the phone and back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from agents.inference.content import Content, cache_folder
from agents.phones.discovery import Pauses
from agents.remotes.adb.connections import state_of
from agents.remotes.adb.server import PrivateServer
from agents.remotes.remote import RUNS, FaultKind
from agents.virtual_phone import control, faults
from agents.virtual_phone.daemon import MARKER
from agents.virtual_phone.faults import Fault
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Blame, Validity
from controller.contracts.run import AttemptState, RunState
from controller.contracts.sweep import Sweep
from controller.contracts.wire import RunEvent
from controller.platform.processes import marked_processes
from controller.runtime.home import Home
from tests.support import builders
from tests.support.fault_injection import FaultInjection
from tests.support.phone_farm import LoopAgent, LoopFarm, impatient, serving_phones, wait_for_nobody
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import PATIENCE_S, until

serving = partial(
    serving_phones, pauses=Pauses(first_s=0.1), link_to=partial(impatient, quick_s=5.0)
)
pytestmark = pytest.mark.integration
MID_PUSH = 3 << 20
MID_PULL = 20_000


class Case(NamedTuple):
    """A fault, when it comes, and what the first attempt comes to."""

    fault: Fault
    moment: str
    kind: FaultKind | None
    """None if the run goes on."""
    heals: bool = False
    """The fault is over by itself."""


OFFLINE, UNAUTHORIZED, HUNG = FaultKind.OFFLINE, FaultKind.UNAUTHORIZED, FaultKind.HUNG
FULL, READ_ONLY = FaultKind.STORAGE_FULL, FaultKind.READ_ONLY
SOME = [
    Case(faults.Disconnect(after_bytes=MID_PUSH), "push", OFFLINE, heals=True),
    Case(faults.ReadOnly(), "start", READ_ONLY),
    Case(faults.Hang(), "run", HUNG),
    Case(faults.Offline(), "pull", OFFLINE),
]
OF_A_RUN = ("/performance.json", "sleep 1000")
"""In the command lines of the runner, and of what `fault_injection.HELD` adds to it."""
OTHERS = [
    Case(faults.Offline(), "push", OFFLINE),
    Case(faults.Unauthorized(), "push", UNAUTHORIZED),
    Case(faults.Hang(), "push", HUNG),
    Case(faults.Disconnect(after_bytes=MID_PUSH, stay_offline=True), "push", OFFLINE),
    Case(faults.FullStorage(), "push", FULL),
    Case(faults.ReadOnly(), "push", READ_ONLY),
    Case(faults.Slow(bytes_per_s=20_000_000), "push", None),
    Case(faults.Offline(), "start", OFFLINE),
    Case(faults.Unauthorized(), "start", UNAUTHORIZED),
    Case(faults.Hang(), "start", HUNG),
    Case(faults.FullStorage(), "start", FULL),
    Case(faults.Slow(bytes_per_s=100_000), "start", None),
    Case(faults.Offline(), "run", OFFLINE),
    Case(faults.Unauthorized(), "run", OFFLINE),
    Case(faults.Disconnect(shell_output=True), "run", OFFLINE, heals=True),
    Case(faults.Disconnect(shell_output=True, stay_offline=True), "run", OFFLINE),
    Case(faults.Unauthorized(), "pull", UNAUTHORIZED),
    Case(faults.Hang(), "pull", HUNG),
    Case(faults.Disconnect(after_bytes=MID_PULL), "pull", OFFLINE, heals=True),
    Case(faults.FullStorage(), "pull", None),
    Case(faults.ReadOnly(), "pull", None),
    Case(faults.Slow(bytes_per_s=1_000_000), "pull", None),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Of the agent: its adb server serves all tests."""
    home = Home(tmp_path_factory.mktemp("home"))
    yield home
    folder = home.agent / "host-1" / "adb"
    asyncio.run(_stop(folder))


async def _stop(folder: Path) -> None:
    await (await PrivateServer.start(folder)).stop()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """The bundle, the workload's files: made once."""
    content = Content(tmp_path_factory.mktemp("content"), cache_folder())
    workload = load_catalog().workloads["shapes_classifier"].on_device
    assert workload

    async def make() -> None:
        await content.runtime("litert", "x86_64")
        await content.task("shapes_classifier", workload, "int8", "full")

    asyncio.run(make())
    return content


@pytest.fixture
def content(made: Content) -> Content:
    """In the test's own event loop, of which its lock is."""
    return replace(made, _making=asyncio.Lock())


@pytest.fixture(scope="module")
def flagship(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    # Its processes are looked for by its serial, which no other test session's phone may have.
    serial = f"--serial=FAULTS{os.getpid()}"
    with running_phone("flagship", tmp_path_factory.mktemp("flagship"), serial) as phone:
        yield phone


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopFarm]:
    wait_for_nobody(monkeypatch, tmp_path)
    farm = LoopFarm(Home(tmp_path / "farm"))
    yield farm
    farm.store.close()


async def set_faults(phone: RunningPhone, *wanted: Fault) -> None:
    await control.ask(phone.folder, control.SetFaults(faults=wanted))


async def processes(phone: RunningPhone) -> int:
    return (await control.ask(phone.folder, control.GetStatus())).processes


def sweep(devices: str) -> Sweep:
    return Sweep(
        name="faults",
        workload="shapes_classifier",
        stack="litert",
        scenario="offline",
        knobs={"mode": "performance"},
        devices=devices,
        deadline_s=200,
    )


@pytest.mark.parametrize(
    "case",
    [*SOME, *(pytest.param(case, marks=pytest.mark.long) for case in OTHERS)],
    ids=lambda case: f"{case.fault.kind} at {case.moment}",
)
async def test_a_fault_at_a_moment(
    case: Case, home: Home, farm: LoopFarm, flagship: RunningPhone, content: Content
) -> None:
    injection = FaultInjection(case.moment, isinstance(case.fault, faults.Hang))
    online: list[dict[str, str]] = []

    def witness(event: RunEvent) -> None:
        if event.state is RunState.QUEUED:
            online.append(farm.online())
            injection.left = running_on(flagship)

    farm.on_event = witness
    async with serving(farm, home, content=content, through=injection.through) as agent:
        injection.inject = lambda: strike(case.fault, agent, flagship)
        await set_faults(flagship)
        await agent.connect(flagship.address)
        await until(lambda: flagship.serial in farm.online(), "taken in")
        if case.moment == "push":
            await forget_workload(agent, flagship)
        farm.submit(sweep(f'device == "{flagship.serial}"'))
        if case.kind:
            await until(lambda: bool(online), "the first attempt has failed")
            assert case.heals or len(farm.only_run().attempts) == 1, "it waits for the phone"
            await set_faults(flagship)
        await until(lambda: farm.only_run().state.terminal, "the run has ended")
        await set_faults(flagship)
        await until(lambda: flagship.serial in farm.online(), "it is there again")
        await until_quiet(flagship)
        assert case.kind is None or await runs_left(agent, flagship) == []

    ended_well(case, farm)
    assert injection.outlived == []
    assert online == ([{}] if case.kind else []), "a phone that has failed a run is not there"
    if case.moment == "run" and case.kind is HUNG:
        assert injection.left, "the phone's programs go on while it hangs"


def ended_well(case: Case, farm: LoopFarm) -> None:
    """See that a run is done, after one typed failure if any."""
    assert farm.only_run().state is RunState.DONE, farm.store.failures()
    assert [(r.validity, r.virtual) for r in farm.store.results()] == [(Validity.VALID, True)]
    failed = [(f.blame, f.kind) for f in farm.store.failures()]
    assert failed == ([(Blame.DEVICE, case.kind)] if case.kind else []), farm.store.failures()
    states = [attempt.state for attempt in farm.only_run().attempts]
    assert states == [AttemptState.FAILED] * len(failed) + [AttemptState.SUCCEEDED]


async def strike(fault: Fault, agent: LoopAgent, phone: RunningPhone) -> None:
    """Switch a fault on; what the adb server learns by connecting anew, it has learnt."""
    await set_faults(phone, fault)

    async def is_cut() -> bool:
        return await state_of(agent.server, phone.address) != "device"

    if isinstance(fault, faults.Unauthorized):
        await until(is_cut, "adb has seen the link break")


async def test_what_one_phone_has_failed_another_does(
    home: Home, farm: LoopFarm, flagship: RunningPhone, content: Content, tmp_path: Path
) -> None:
    """The other is of the old profile: its daemon knows no exit codes, and one output for both."""
    with running_phone("old", tmp_path / "old") as old:
        injection = FaultInjection("run", hangs=False)
        async with serving(farm, home, content=content, through=injection.through) as agent:
            injection.inject = lambda: strike(faults.Offline(), agent, flagship)
            await set_faults(flagship)
            for phone in (flagship, old):
                await agent.connect(phone.address)
                await until(lambda: phone.serial in farm.online(), "taken in")  # noqa: B023
            farm.submit(sweep('kind == "android"'))
            await until(lambda: farm.only_run().state.terminal, "the run has ended")
            await set_faults(flagship)
    attempts = [(a.device_id, a.state) for a in farm.only_run().attempts]
    assert attempts == [
        (flagship.serial, AttemptState.FAILED),
        (old.serial, AttemptState.SUCCEEDED),
    ]
    (result,) = farm.store.results()
    assert (result.validity, result.environment["shell_v2"]) == (Validity.VALID, False)
    assert result.environment["android"] == 5.1


async def runs_left(agent: LoopAgent, phone: RunningPhone) -> list[str]:
    """Return the folders of runs that lie on a phone."""
    remote = agent.phones.remote_of(builders.phone(phone.serial))
    listed = await remote.run(("ls", "-A", str(remote.folder / RUNS)), PATIENCE_S)
    assert listed.exit_code == 0
    return listed.stdout.decode().split()


async def forget_workload(agent: LoopAgent, phone: RunningPhone) -> None:
    """Make sure that there is something to push."""
    remote = agent.phones.remote_of(builders.phone(phone.serial))
    script = f"cd {remote.folder} && for model in */model.tflite; do rm -rf ${{model%/*}}; done"
    await remote.run(("sh", "-c", script), PATIENCE_S)


def running_on(phone: RunningPhone) -> dict[psutil.Process, str]:
    """Return a run's processes on a phone, not the agent's own short commands; command lines."""
    found: dict[psutil.Process, str] = {}
    for process in marked_processes(MARKER, phone.serial):
        with suppress(psutil.NoSuchProcess):
            line = " ".join(process.cmdline())
            if any(word in line for word in OF_A_RUN):
                found[process] = line
    return found


async def until_quiet(phone: RunningPhone) -> None:
    async def quiet() -> bool:
        return not await processes(phone)

    await until(quiet, "nothing is left running")
