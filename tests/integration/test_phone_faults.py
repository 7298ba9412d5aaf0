"""Each fault of a phone at each moment of a run, from the farm's queue to the phone and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil
import pytest

from agents.android import phones as phones_module
from agents.android import transport as transport_module
from agents.android.content import Content, cache_folder
from agents.android.virtual import control, faults
from agents.android.virtual.daemon import MARKER
from agents.android.virtual.faults import Fault
from agents.host.cores import exclusive_cores
from agents.transports.adb import remote as adb_remote
from agents.transports.adb.server import PrivateServer
from agents.transports.remote import (
    NO_ENVIRONMENT,
    RUNS,
    Completed,
    Ended,
    FaultKind,
    Pushed,
    Remote,
)
from agents.transports.tree import Tree
from controller.contracts.catalog import load_catalog
from controller.contracts.processes import marked_processes
from controller.contracts.result import Blame, Validity
from controller.contracts.run import AttemptState, RunState
from controller.contracts.sweep import Sweep
from controller.contracts.wire import RunEvent
from controller.runtime.home import Home
from tests.support import builders
from tests.support.phone_farm import LoopAgent, LoopFarm, impatient, serving_phones
from tests.support.processes import is_dead
from tests.support.remotes import PATIENCE_S
from tests.support.virtual_phone import RunningPhone, running_phone

pytestmark = pytest.mark.integration
HELD = ("sh", "-c", 'echo begun; sleep 1000 & "$@"; wait', "sh")
"""Runs the runner, and goes on."""
GIVEN_UP_S = 2.0
"""The deadline of a program that will hang."""
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
OTHERS = [
    Case(faults.Offline(), "push", OFFLINE),
    Case(faults.Unauthorized(), "push", UNAUTHORIZED),
    Case(faults.Hang(), "push", HUNG),
    Case(faults.Disconnect(after_bytes=MID_PUSH, stay_offline=True), "push", OFFLINE),
    Case(faults.FullStorage(), "push", FULL),
    Case(faults.ReadOnly(), "push", READ_ONLY),
    Case(faults.Slow(bytes_per_s=20_000_000), "push", None),
    Case(faults.OldDaemon(), "push", None),
    Case(faults.Offline(), "start", OFFLINE),
    Case(faults.Unauthorized(), "start", UNAUTHORIZED),
    Case(faults.Hang(), "start", HUNG),
    Case(faults.Disconnect(command="performance.json"), "start", OFFLINE, heals=True),
    Case(faults.FullStorage(), "start", FULL),
    Case(faults.Slow(bytes_per_s=100_000), "start", None),
    Case(faults.OldDaemon(), "start", None),
    Case(faults.Offline(), "run", OFFLINE),
    Case(faults.Unauthorized(), "run", OFFLINE),
    Case(faults.Disconnect(shell_output=True), "run", OFFLINE, heals=True),
    Case(faults.Disconnect(shell_output=True, stay_offline=True), "run", OFFLINE),
    Case(faults.OldDaemon(), "run", OFFLINE, heals=True),
    Case(faults.Unauthorized(), "pull", UNAUTHORIZED),
    Case(faults.Hang(), "pull", HUNG),
    Case(faults.Disconnect(after_bytes=MID_PULL), "pull", OFFLINE, heals=True),
    Case(faults.FullStorage(), "pull", None),
    Case(faults.ReadOnly(), "pull", None),
    Case(faults.Slow(bytes_per_s=1_000_000), "pull", None),
    Case(faults.OldDaemon(), "pull", None),
]


@dataclass
class Struck:
    """What a fault strikes in the first attempt, and what is seen of it."""

    moment: str
    hangs: bool
    strike: Callable[[], Awaitable[None]]
    attempts: int = 0
    left: Sequence[psutil.Process] = ()
    """The phone's processes when the first attempt had failed."""
    outlived: list[psutil.Process] = field(default_factory=list)
    """Those of them that lived when the next attempt began."""

    def through(self, remote: Remote) -> Remote:
        """Stand between a run and its phone, once."""
        self.attempts += 1
        if self.attempts > 1:
            self.outlived += [process for process in self.left if not is_dead(process)]
            return remote
        return _Way(remote, self)

    async def at(self, moment: str) -> None:
        """Strike, if this is the moment."""
        if moment == self.moment:
            await self.strike()

    def deadline_s(self, moment: str, deadline_s: float) -> float:
        """Return when a program is given up."""
        return GIVEN_UP_S if self.hangs and self.moment == moment else deadline_s


@dataclass(frozen=True)
class _Way:
    """A Remote that tells how far a run is."""

    remote: Remote
    struck: Struck

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        return await self.remote.run(argv, deadline_s, stdin)

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        await self.struck.at("start")
        if self.struck.moment != "run":
            deadline_s = self.struck.deadline_s("start", deadline_s)
            return await self.remote.stream(argv, deadline_s, on_line, environment)
        begun = asyncio.Event()

        def take(line: bytes) -> None:
            if line == b"begun":
                begun.set()
            else:
                on_line(line)

        deadline_s = self.struck.deadline_s("run", deadline_s)
        stream = asyncio.create_task(self.remote.stream((*HELD, *argv), deadline_s, take))
        await begun.wait()
        await self.struck.at("run")
        return await stream

    async def push_tree(self, tree: Tree) -> Pushed:
        await self.struck.at("push")
        return await self.remote.push_tree(tree)

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await self.struck.at("pull")
        await self.remote.pull(source, target)

    async def clean(self) -> int:
        return await self.remote.clean()


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
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tree]:
    """The bundle, the workload's files: made once."""
    made: dict[str, Tree] = {}
    content = Content(tmp_path_factory.mktemp("content"), cache_folder(), made)
    workload = load_catalog().workloads["shapes_classifier"].on_device
    assert workload

    async def make() -> None:
        await content.bundle("litert", "x86_64")
        await content.workload(workload, "int8")

    asyncio.run(make())
    return made


@pytest.fixture(scope="module")
def flagship(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("flagship", tmp_path_factory.mktemp("flagship")) as phone:
        yield phone


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopFarm]:
    monkeypatch.setattr(phones_module, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(adb_remote, "QUICK_S", 5.0)
    # Nothing is measured here: no need to wait for others who measure.
    alone = partial(exclusive_cores, lock_dir=tmp_path / "locks")
    monkeypatch.setattr(transport_module, "exclusive_cores", alone)
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
        deadline_s=60,
    )


@pytest.mark.parametrize(
    "case",
    [*SOME, *(pytest.param(case, marks=pytest.mark.long) for case in OTHERS)],
    ids=lambda case: f"{case.fault.kind} at {case.moment}",
)
async def test_a_fault_at_a_moment(
    case: Case,
    home: Home,
    farm: LoopFarm,
    flagship: RunningPhone,
    trees: dict[str, Tree],
    tmp_path: Path,
) -> None:
    async def strike() -> None:
        await set_faults(flagship, case.fault)
        if isinstance(case.fault, faults.OldDaemon):  # the server knows it when it is back
            while await impatient(agent.server, flagship.address).has_shell_v2():
                await asyncio.sleep(0.01)

    struck = Struck(case.moment, isinstance(case.fault, faults.Hang), strike)
    online: list[dict[str, str]] = []

    def witness(event: RunEvent) -> None:
        if event.state is RunState.QUEUED:
            online.append(farm.online())
            struck.left = list(marked_processes(MARKER, flagship.serial))

    farm.on_event = witness
    content = Content(tmp_path / "content", cache_folder(), trees)
    async with serving_phones(farm, home, content=content, through=struck.through) as agent:
        await set_faults(flagship)
        await agent.connect(flagship.address)
        await agent.until(lambda: flagship.serial in farm.online(), "taken in")
        if case.moment == "push":
            await forget_workload(agent, flagship, trees)
        farm.farm.submit(sweep(f'device == "{flagship.serial}"'))
        if case.kind:
            await agent.until(lambda: bool(online), "the first attempt has failed")
            assert case.heals or len(farm.only_run().attempts) == 1, "it waits for the phone"
            await set_faults(flagship)
        await agent.until(lambda: farm.only_run().state.terminal, "the run has ended")
        await set_faults(flagship)
        await agent.until(lambda: flagship.serial in farm.online(), "it is there again")
        await until_quiet(flagship)
        if case.kind:
            assert await runs_left(agent, flagship) == []

    assert farm.only_run().state is RunState.DONE, farm.store.failures()
    assert [(r.validity, r.virtual) for r in farm.store.results()] == [(Validity.VALID, True)]
    assert struck.outlived == []
    states = [attempt.state for attempt in farm.only_run().attempts]
    if case.kind is None:
        assert states == [AttemptState.SUCCEEDED], farm.store.failures()
        return
    (failure,) = farm.store.failures()
    assert (failure.blame, failure.kind) == (Blame.DEVICE, case.kind), failure.message
    assert states == [AttemptState.FAILED, AttemptState.SUCCEEDED]
    assert online == [{}], "a phone that has failed a run is not there"
    assert struck.left or case.kind is not HUNG or case.moment != "run"


async def test_what_one_phone_has_failed_another_does(
    home: Home,
    farm: LoopFarm,
    flagship: RunningPhone,
    trees: dict[str, Tree],
    tmp_path: Path,
) -> None:
    """The other is of the old profile: its daemon knows no exit codes, and one output for both."""
    content = Content(tmp_path / "content", cache_folder(), trees)
    with running_phone("old", tmp_path / "old") as old:
        struck = Struck("run", False, lambda: set_faults(flagship, faults.Offline()))
        async with serving_phones(farm, home, content=content, through=struck.through) as agent:
            await set_faults(flagship)
            for phone in (flagship, old):
                await agent.connect(phone.address)
                await agent.until(lambda: phone.serial in farm.online(), "taken in")  # noqa: B023
            farm.farm.submit(sweep('kind == "android"'))
            await agent.until(lambda: farm.only_run().state.terminal, "the run has ended")
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


async def forget_workload(agent: LoopAgent, phone: RunningPhone, trees: Mapping[str, Tree]) -> None:
    """Make sure that there is something to push."""
    remote = agent.phones.remote_of(builders.phone(phone.serial))
    (workload,) = [tree for key, tree in trees.items() if not key.startswith("bundle")]
    await remote.run(("rm", "-rf", str(remote.folder / workload.digest)), PATIENCE_S)


async def until_quiet(phone: RunningPhone) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await processes(phone):
            await asyncio.sleep(0.01)
