from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agents.agent import MOST_FAILED, AgentParts, AgentPauses, HostAgent
from agents.artefact_queue import ArtefactQueue
from agents.artefacts import SendingPauses
from agents.link import ControllerAway, ControllerFailed
from agents.metrics import AgentMetrics
from agents.outbox import Outbox
from controller.contracts.device import (
    Admission,
    Agent,
    Device,
    DeviceKind,
    DeviceState,
    Registration,
)
from controller.contracts.errors import (
    AgentRevoked,
    DeviceRefused,
    SharedMachineId,
    StoreDamaged,
    StoreUnavailable,
    UnknownAttempt,
    VersionMismatch,
)
from controller.contracts.records import ADMIN
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.run import AttemptState, RunState
from controller.contracts.wire import (
    AttemptRef,
    Progress,
    Report,
    WorkerSpec,
)
from controller.metrics.names import RUN_PROGRESS
from controller.runtime.desk import Desk
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox
from tests.support.memory_link import MemoryLink
from tests.support.waiting import PATIENCE_S, until

AT_ONCE = AgentPauses(away_s=0.0, revoked_s=0.0, progress_s=0.0)


class Bench:
    """A runner whose runs end when the test says so."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[WorkerSpec] = asyncio.Queue()
        self.ended: asyncio.Queue[AttemptRef] = asyncio.Queue()
        self.running: dict[AttemptRef, asyncio.Future[Outcome]] = {}
        self.tell: Callable[[Progress], None] = lambda _: None
        self.dying = asyncio.Event()
        self.dying.set()
        self.cleaned = 0

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.tell = on_progress
        self.running[spec.job.ref] = asyncio.get_running_loop().create_future()
        self.started.put_nowait(spec)
        try:
            return await self.running[spec.job.ref]
        finally:
            await self.dying.wait()
            self.ended.put_nowait(spec.job.ref)

    async def clean(self) -> int:
        self.cleaned += 1
        return 0


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


def host_agent(
    link: MemoryLink,
    bench: Bench,
    folder: Path,
    identity: Agent | None = None,
    on_refused: Callable[[Mapping[str, DeviceRefused]], None] = lambda _: None,
    metrics: AgentMetrics | None = None,
    shortage: Callable[[], str] = str,
    device: Device | None = None,
    pauses: AgentPauses = AT_ONCE,
) -> HostAgent:
    """Return an agent of one device whose runs end when the test says so."""
    return HostAgent(
        AgentParts(
            identity=identity or builders.agent(),
            devices=(device or builders.cpu(),),
            link=link,
            runners={DeviceKind.CPU_HOST: bench},
            folder=folder,
            on_refused=on_refused,
            metrics=metrics or AgentMetrics(),
            shortage=shortage,
            pauses=pauses,
            sending=SendingPauses(away_s=0.0, look_s=0.0, settle_s=0.0),
        )
    )


@asynccontextmanager
async def serving(
    link: MemoryLink,
    bench: Bench,
    folder: Path,
    identity: Agent | None = None,
    on_refused: Callable[[Mapping[str, DeviceRefused]], None] = lambda _: None,
    metrics: AgentMetrics | None = None,
    shortage: Callable[[], str] = str,
    pauses: AgentPauses = AT_ONCE,
) -> AsyncIterator[HostAgent]:
    """Let an agent serve for a while."""
    agent = host_agent(link, bench, folder, identity, on_refused, metrics, shortage, pauses=pauses)
    life = asyncio.create_task(agent.serve())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield agent
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def first_job(link: MemoryLink, bench: Bench, agent: HostAgent) -> WorkerSpec:
    """Submit a sweep of one run and wait until the agent has started it."""
    await agent.registered.wait()
    await Desk(link.box.farm.sweeps).submit(builders.sweep(), ADMIN, again=False)
    return await bench.started.get()


def report_of(run_id: str) -> Report:
    return Report(
        ref=builders.ref(run_id),
        agent_id="host-1",
        incarnation="first",
        started_at=1.0,
        outcome=builders.result(),
    )


def outbox(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "outbox").glob("*"))


async def test_runs_what_is_leased_to_it_and_reports(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        assert spec.device == builders.cpu()
        assert Path(spec.artefact_dir).is_dir()
        assert box.run(spec.job.ref.run_id).state is RunState.LEASED
        bench.running[spec.job.ref].set_result(builders.result(0.125))
        await link.reported.get()

    assert bench.cleaned == 1
    assert box.run(spec.job.ref.run_id).state is RunState.DONE
    assert [r.metrics["step_time"].value for r in box.store.results()] == [0.125]
    assert outbox(tmp_path) == []


async def test_goes_on_to_the_next_run(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        await agent.registered.wait()
        box.submit(builders.sweep(repeats=3))
        for _ in range(3):
            ref = (await bench.started.get()).job.ref
            bench.running[ref].set_result(builders.result())
            await link.reported.get()
    assert [run.state for run in box.store.runs()] == [RunState.DONE] * 3


async def test_why_artefacts_are_no_longer_sent_is_told(
    box: FarmBox,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pending(queue: ArtefactQueue) -> list[AttemptRef]:
        raise OSError("planted")

    monkeypatch.setattr(ArtefactQueue, "pending", pending)
    said = "artefacts stay on this host until the agent is started again: OSError('planted')"
    async with serving(MemoryLink(box), Bench(), tmp_path) as agent:
        await until(lambda: said in caplog.text, "it is told")
        await agent.registered.wait()


async def test_artefacts_are_sent_once_nothing_is_measured(box: FarmBox, tmp_path: Path) -> None:
    link, bench, queue = MemoryLink(box), Bench(), ArtefactQueue(tmp_path / "unsent")
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        earlier = tmp_path / "runs" / "earlier" / "1"
        earlier.mkdir(parents=True)
        (earlier / "output.log").write_text("said")
        agent._artefacts.put(builders.ref("earlier"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert "offer_artefact" not in link.said
        (Path(spec.artefact_dir) / "trace.json").write_text("{}")
        bench.running[spec.job.ref].set_result(builders.result())
        await until(lambda: link.said.count("offer_artefact") >= 4, "both are sent")
        await until(lambda: not queue.pending(), "nothing is left")


async def test_a_lost_answer_is_asked_for_again(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        await agent.registered.wait()
        link.faults["exchange"] = [ControllerAway(), ControllerAway()]
        spec = await first_job(link, bench, agent)
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()
    assert len(box.store.results()) == 1


@pytest.mark.parametrize("trouble", [ControllerAway(), StoreUnavailable("store", "disk full")])
async def test_reports_until_the_controller_has_it(
    box: FarmBox, tmp_path: Path, trouble: Exception
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        link.faults["report"] = [trouble, trouble, trouble]
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()

    assert link.said.count("report") == 4
    assert [r.counted for r in box.store.results()] == [True]
    assert bench.started.empty()
    assert outbox(tmp_path) == []


async def test_an_outcome_that_a_damaged_store_cannot_keep_holds_up_no_other(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        link.faults["report"] = [StoreDamaged("store", "malformed")]
        bench.running[spec.job.ref].set_result(builders.result())
        while link.faults["report"]:
            await asyncio.sleep(0)
    assert len(outbox(tmp_path)) == 1, "it is kept"
    async with serving(link, bench, tmp_path):
        await link.reported.get()
    assert outbox(tmp_path) == []


async def test_a_lost_acknowledgement_counts_nothing_twice(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        link.after_report = [ControllerAway()]
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()

    assert link.said.count("report") == 2
    assert len(box.store.results()) == 1
    assert bench.started.empty()


async def test_an_outcome_outlives_the_agent(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    link.gate.clear()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        bench.running[spec.job.ref].set_result(builders.result(0.125))
        await bench.ended.get()
        while "report" not in link.said:
            await asyncio.sleep(0)
    assert len(outbox(tmp_path)) == 1
    assert box.store.results() == []

    link = MemoryLink(box)
    async with serving(link, Bench(), tmp_path, builders.agent(incarnation="second")) as agent:
        await link.reported.get()
        await agent.registered.wait()
    assert link.said[0] == "report"
    assert [r.counted for r in box.store.results()] == [True]
    assert [a.state for a in box.run(spec.job.ref.run_id).attempts] == [AttemptState.SUCCEEDED]
    assert outbox(tmp_path) == []


async def test_a_damaged_outcome_is_put_aside(box: FarmBox, tmp_path: Path) -> None:
    (tmp_path / "outbox").mkdir()
    (tmp_path / "outbox" / "run-1.json").write_bytes(b'{"ref": {"run_id\xff')
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        await first_job(link, bench, agent)
    assert outbox(tmp_path) == ["run-1.damaged"]
    assert "report" not in link.said


async def test_an_outcome_the_controller_never_asked_for_is_put_aside(
    box: FarmBox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()
        report = report_of("run-x")
        Outbox(tmp_path / "outbox").put(report)
    for incarnation in ("second", "third"):
        asked = link.said.count("report")
        async with serving(link, bench, tmp_path, builders.agent(incarnation=incarnation)) as agent:
            await agent.registered.wait()
    assert link.said.count("report") == asked, "it is not sent again"
    assert outbox(tmp_path) == ["run-x-1.refused"]
    aside = tmp_path / "outbox" / "run-x-1.refused"
    assert Report.model_validate_json(aside.read_text().splitlines()[0]) == report
    assert f"the controller refused an outcome (run run-x has no attempt 1), see {aside}" in {
        record.message for record in caplog.records
    }


@pytest.mark.parametrize(("room", "kept"), [(True, ["run-1-1.refused"]), (False, [])])
def test_an_outcome_that_was_in_memory_only_is_kept_when_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, room: bool, kept: list[str]
) -> None:
    report = report_of("run-1")
    folder = tmp_path / "outbox"
    if not room:
        folder.write_text("in the way")
    Outbox(folder).refused(report, UnknownAttempt("run-1", 1))
    assert outbox(tmp_path) == kept
    assert ("which is lost" in caplog.text) is not room


async def test_an_outcome_is_handed_in_though_the_disk_takes_nothing(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        (tmp_path / "outbox").write_text("in the way")
        link.faults["report"] = [ControllerAway()]
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()
        (tmp_path / "outbox").unlink()
    assert len(box.store.results()) == 1


async def test_a_host_without_room_measures_nothing_until_it_has_some(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench, short = MemoryLink(box), Bench(), [""]
    link.hold_s = 0.01
    async with serving(link, bench, tmp_path, shortage=lambda: short[0]) as agent:
        ref = (await first_job(link, bench, agent)).job.ref
        short[0] = "its disk is full"
        while box.farm.state().devices[0].online:
            await asyncio.sleep(0)
        stands = box.farm.state().statuses["cpu-1"]
        assert (stands.state, stands.why) == (DeviceState.OFFLINE, "its disk is full")
        bench.running[ref].set_result(builders.failure(Blame.WORKLOAD))
        await link.reported.get()
        assert box.run(ref.run_id).state is RunState.QUEUED
        short[0] = ""
        again = (await bench.started.get()).job.ref
        bench.running[again].set_result(builders.result())
        await link.reported.get()
    (failure,) = box.store.failures()
    assert (failure.blame, failure.kind) == (Blame.DEVICE, "disk_full")
    assert failure.message == "its disk is full; exit: it ended"
    assert box.run(ref.run_id).state is RunState.DONE


async def test_stops_what_is_cancelled_and_says_nothing_about_it(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        box.cancel(box.run(spec.job.ref.run_id).sweep_id)
        assert await bench.ended.get() == spec.job.ref
        box.submit(builders.sweep(), again=True)
        assert (await bench.started.get()).job.ref != spec.job.ref
    assert "report" not in link.said


async def test_a_worker_that_is_slow_to_end_is_stopped_only_once(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        bench.dying.clear()
        box.cancel(box.run(spec.job.ref.run_id).sweep_id)
        asked = link.said.count("exchange")
        while link.said.count("exchange") < asked + 5:
            await asyncio.sleep(0)
        assert bench.ended.empty()
        bench.dying.set()
        await bench.ended.get()


async def test_an_outcome_on_its_way_is_not_stopped(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        link.gate.clear()
        bench.running[spec.job.ref].set_result(builders.result())
        while "report" not in link.said:
            await asyncio.sleep(0)
        box.cancel(box.run(spec.job.ref.run_id).sweep_id)
        asked = link.said.count("exchange")
        while link.said.count("exchange") < asked + 3:
            await asyncio.sleep(0)
        link.gate.set()
        await link.reported.get()
    assert [r.counted for r in box.store.results()] == [False]
    assert outbox(tmp_path) == []


async def test_waits_for_a_controller_that_is_away(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    link.faults["register"] = [ControllerAway() for _ in range(5)]
    async with serving(link, bench, tmp_path) as agent:
        await first_job(link, bench, agent)
    assert link.said[:6] == ["register"] * 6


async def test_a_controller_that_forgot_it_is_told_again(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        box.wait(TTL_S)
        link.poke()
        again = await bench.started.get()
        assert await bench.ended.get() == spec.job.ref
        bench.running[again.job.ref].set_result(builders.result())
        await link.reported.get()

    assert link.said.count("register") == 2
    run = box.run(spec.job.ref.run_id)
    assert [a.state for a in run.attempts] == [AttemptState.LOST, AttemptState.SUCCEEDED]


async def test_works_on_while_the_controller_restarts(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        box.restart()
        link.faults["exchange"] = [ControllerAway()]
        link.poke()
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()
    assert [a.state for a in box.run(spec.job.ref.run_id).attempts] == [AttemptState.SUCCEEDED]


async def test_a_transport_that_breaks_is_the_harnesss_fault(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        bench.running[spec.job.ref].set_exception(FileNotFoundError("numactl"))
        report = await link.reported.get()
    assert report.outcome == Failure(
        blame=Blame.HARNESS,
        kind="agent",
        message="the agent failed to run it: FileNotFoundError: numactl",
    )


FAILS = ControllerFailed("OverflowError: for SQLite")


async def test_an_outcome_that_cannot_be_reported_ends_as_a_failure(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        link.faults["report"] = [FAILS] * (MOST_FAILED + 1)
        bench.running[spec.job.ref].set_result(builders.result(0.125))
        report = await link.reported.get()
    assert report.ref == spec.job.ref
    assert isinstance(report.outcome, Failure)
    assert (report.outcome.blame, report.outcome.kind) == (Blame.HARNESS, "report")
    assert str(FAILS) in report.outcome.message
    (kept,) = outbox(tmp_path)
    assert kept.endswith(".refused")
    assert "0.125" in (tmp_path / "outbox" / kept).read_text()


async def test_an_outcome_that_the_controller_takes_at_last_counts(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        link.faults["report"] = [FAILS] * (MOST_FAILED - 1)
        bench.running[spec.job.ref].set_result(builders.result(0.125))
        assert isinstance((await link.reported.get()).outcome, Result)
    assert outbox(tmp_path) == []


async def test_an_outcome_that_no_longer_can_be_reported_lets_the_next_agent_serve(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    link.gate.clear()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        bench.running[spec.job.ref].set_result(builders.result())
        await until(lambda: "report" in link.said, "it is on its way")
    link = MemoryLink(box)
    link.faults["report"] = [FAILS] * MOST_FAILED
    async with serving(link, Bench(), tmp_path, builders.agent(incarnation="second")) as agent:
        assert isinstance((await link.reported.get()).outcome, Failure)
        await agent.registered.wait()


async def test_a_failure_in_words_that_are_no_unicode_is_stored(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    said = os.fsdecode(b"gr\xfc\xdf")
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
        failure = Failure(blame=Blame.WORKLOAD, kind="exit", message=said, output=said)
        bench.running[spec.job.ref].set_result(failure)
        await link.reported.get()
    (stored,) = box.store.failures()
    assert (stored.message, stored.output) == (r"gr\udcfc\udcdf", r"gr\udcfc\udcdf")


async def test_a_failure_records_what_its_device_was_when_the_attempt_began(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        await agent.announce([builders.cpu(facts={"os": "Debian 12", "kernel": "6.1"})])
        spec = await first_job(link, bench, agent)
        await agent.announce([builders.cpu(facts={"os": "Debian 12", "kernel": "6.9"})])
        bench.running[spec.job.ref].set_result(builders.failure(Blame.WORKLOAD))
        report = await link.reported.get()
    assert report.outcome.environment == {"os": "Debian 12", "kernel": "6.1"}
    (stored,) = box.store.failures()
    assert stored.environment == {"os": "Debian 12", "kernel": "6.1"}


class ImpatientLink(MemoryLink):
    """A controller that wants to be asked again at once."""

    async def register(self, registration: Registration) -> Admission:
        admission = await super().register(registration)
        return admission.model_copy(update={"again_in_s": 0.0})


async def test_a_device_that_another_agent_has_is_asked_for_until_it_is_free(
    box: FarmBox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box.farm.register(builders.registration(builders.agent("host-2")))
    refusals: list[Mapping[str, DeviceRefused]] = []
    link = ImpatientLink(box)
    link.hold_s = 0.0
    async with serving(link, Bench(), tmp_path, on_refused=refusals.append):
        while len(refusals) < 4:
            await asyncio.sleep(0)
        other = builders.registration(builders.agent("host-2"), builders.cpu("cpu-2"))
        box.farm.register(other)
        while refusals[-1]:
            await asyncio.sleep(0)
        registered, asked = link.said.count("register"), link.said.count("exchange")
        while link.said.count("exchange") < asked + 3:
            await asyncio.sleep(0)
    assert link.said.count("register") == registered, "nothing is refused any more"
    assert list(refusals[0]) == ["cpu-1"]
    (said,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    assert said.startswith(
        "cannot announce device cpu-1: agent host-2 on host host-2 has it. Remove"
    )


async def test_devices_the_store_could_not_take_are_told_later(
    box: FarmBox, tmp_path: Path
) -> None:
    link = MemoryLink(box)
    link.hold_s = 0.0
    async with serving(link, Bench(), tmp_path) as agent:
        await agent.registered.wait()
        link.faults["register"] = [StoreUnavailable("store", "disk full")]
        await agent.announce([builders.cpu(), builders.cpu("cpu-9", cores=frozenset({9}))])
        while len(box.store.fleet()[1]) < 2:
            await asyncio.sleep(0)


async def test_a_phone_with_the_host_s_id_does_not_take_its_place(
    box: FarmBox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = MemoryLink(box)
    link.hold_s = 0.0
    async with serving(link, Bench(), tmp_path) as agent:
        await agent.registered.wait()
        await agent.announce([builders.cpu(), builders.phone("cpu-1"), builders.phone("R58M")])
    kinds = {d.device.id: d.device.kind for d in box.store.fleet()[1]}
    assert kinds == {"cpu-1": DeviceKind.CPU_HOST, "R58M": DeviceKind.ANDROID}
    assert "device cpu-1 is announced twice: the cpu_host stays" in caplog.text


class SlowLink(MemoryLink):
    """Takes its time before the first registration reaches the controller, as Ray's node does."""

    def __init__(self, box: FarmBox) -> None:
        super().__init__(box)
        self.asked, self.up = asyncio.Event(), asyncio.Event()

    async def register(self, registration: Registration) -> Admission:
        self.asked.set()
        await self.up.wait()
        return await super().register(registration)


async def test_devices_that_come_while_it_registers_are_told_before_it_asks(
    box: FarmBox, tmp_path: Path
) -> None:
    link = SlowLink(box)
    async with serving(link, Bench(), tmp_path) as agent:
        await link.asked.wait()
        await agent.announce([builders.cpu(), builders.cpu("cpu-9", cores=frozenset({9}))])
        link.up.set()
        while "exchange" not in link.said:
            await asyncio.sleep(0)
    assert link.said == ["register", "register", "exchange"]
    assert [d.device.id for d in box.store.fleet()[1]] == ["cpu-1", "cpu-9"]


async def test_an_order_for_a_device_it_lacks_is_answered(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        await agent.registered.wait()
        both = builders.registration(None, builders.cpu("cpu-9", cores=frozenset({9})))
        box.farm.register(both)
        box.submit(builders.sweep(devices="device == cpu-9"))
        report = await link.reported.get()
    assert isinstance(report.outcome, Failure)
    assert "cpu-9" in report.outcome.message


async def test_an_order_for_a_device_that_has_just_left_waits_until_it_is_back(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    ninth = builders.cpu("cpu-9", cores=frozenset({9}))
    async with serving(link, bench, tmp_path) as agent:
        await agent.registered.wait()
        await agent.announce([builders.cpu(), ninth])
        await agent.announce([builders.cpu()])
        box.farm.register(builders.registration(None, ninth))  # it has not heard of that yet
        box.submit(builders.sweep(devices="device == cpu-9"))
        (run,) = [run.run_id for run in box.store.runs()]
        asked = link.said.count("exchange")
        while link.said.count("exchange") < asked + 3:
            await asyncio.sleep(0)
        assert box.run(run).state is RunState.LEASED
        assert bench.started.empty()
        await agent.announce([builders.cpu(), ninth])
        spec = await bench.started.get()
    assert (spec.device.id, spec.job.ref) == ("cpu-9", AttemptRef(run_id=run, attempt=1))
    assert box.store.failures() == []


async def test_an_agent_of_another_release_ends(box: FarmBox, tmp_path: Path) -> None:
    agent = HostAgent(
        AgentParts(
            identity=builders.agent(version="9.9"),
            devices=(builders.cpu(),),
            link=MemoryLink(box),
            runners={DeviceKind.CPU_HOST: Bench()},
            folder=tmp_path,
        )
    )
    with pytest.raises(VersionMismatch):
        await asyncio.wait_for(agent.serve(), PATIENCE_S)
    assert not agent.registered.is_set()


SHARED = SharedMachineId("host-1", "one", "two", again_in_s=0.0)


async def test_the_boot_before_this_one_is_outlasted(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    link.faults["register"] = [SHARED]
    async with serving(link, bench, tmp_path) as agent:
        await first_job(link, bench, agent)
    assert link.said[:3] == ["register", "register", "exchange"]


async def test_a_copy_of_another_host_ends(box: FarmBox, tmp_path: Path) -> None:
    link = MemoryLink(box)
    link.faults["register"] = [SHARED, SHARED]
    with pytest.raises(SharedMachineId):
        await asyncio.wait_for(host_agent(link, Bench(), tmp_path).serve(), PATIENCE_S)
    assert link.said == ["register", "register"]


async def test_an_agent_that_ends_stops_its_workers(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        spec = await first_job(link, bench, agent)
    assert bench.ended.get_nowait() == spec.job.ref
    assert "report" not in link.said


async def test_progress_reaches_who_watches_and_may_get_lost(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    seen: asyncio.Queue[Progress] = asyncio.Queue()
    async with serving(link, bench, tmp_path) as agent:
        await first_job(link, bench, agent)
        box.on_event = lambda event: seen.put_nowait(event.progress) if event.progress else None
        link.faults["progress"] = [ControllerAway()]
        bench.tell(Progress(phase="training", done=1, total=3))
        bench.tell(Progress(phase="training", done=2, total=3))
        assert (await seen.get()).done == 2


async def test_of_a_flood_of_progress_the_newest_is_told(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    seen: asyncio.Queue[Progress] = asyncio.Queue()
    async with serving(link, bench, tmp_path) as agent:
        await first_job(link, bench, agent)
        box.on_event = lambda event: seen.put_nowait(event.progress) if event.progress else None
        for done in range(1, 10_001):
            bench.tell(Progress(phase="training", done=done, total=10_000))
        assert [(await seen.get()).done for _ in range(2)] == [1, 10_000]
        bench.tell(Progress(phase="training", done=9, total=9))
        assert (await seen.get()).done == 9
    assert seen.empty()
    assert link.said.count("progress") == 3


async def test_progress_that_comes_in_the_pause_after_another_waits(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    pauses = replace(AT_ONCE, progress_s=PATIENCE_S)
    async with serving(link, bench, tmp_path, pauses=pauses) as agent:
        spec = await first_job(link, bench, agent)
        for done in (1, 2, 3):
            bench.tell(Progress(phase="training", done=done, total=9))
            for _ in range(50):
                await asyncio.sleep(0)
        assert [e.progress.done for e in box.events if e.progress] == [1]
        bench.running[spec.job.ref].set_result(builders.result())
        await link.reported.get()  # no report waits for it


async def test_progress_that_is_refused_may_get_lost(box: FarmBox, tmp_path: Path) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        await first_job(link, bench, agent)
        link.faults["progress"] = [AgentRevoked("host-1", "admin", "stolen")]
        for done in (1, 2):
            bench.tell(Progress(phase="training", done=done, total=9))
        await until(lambda: link.said.count("progress") == 2, "the next is sent all the same")


def live(metrics: AgentMetrics) -> list[float]:
    """Return the progress of every run that is exported as live."""
    return [value for g in metrics.gauges() if g.metric is RUN_PROGRESS for _, value in g.samples]


@pytest.mark.parametrize("stopped", [False, True], ids=["done", "stopped"])
async def test_a_run_is_live_from_its_first_progress_to_its_end(
    box: FarmBox, tmp_path: Path, stopped: bool
) -> None:
    link, bench, metrics = MemoryLink(box), Bench(), AgentMetrics()
    async with serving(link, bench, tmp_path, metrics=metrics) as agent:
        spec = await first_job(link, bench, agent)
        assert live(metrics) == []
        for done in (1, 2):
            bench.tell(Progress(phase="training", done=done, total=4))
            assert live(metrics) == [done / 4]
        link.gate.clear()  # gone at its end, not when the controller has heard of it
        if stopped:
            box.cancel(box.run(spec.job.ref.run_id).sweep_id)
            link.poke()
        else:
            bench.running[spec.job.ref].set_result(builders.result())
        await bench.ended.get()
        while live(metrics):
            await asyncio.sleep(0)
        link.gate.set()


async def test_a_device_that_is_not_announced_any_more_has_no_conditions(
    box: FarmBox, tmp_path: Path
) -> None:
    metrics = AgentMetrics()
    async with serving(MemoryLink(box), Bench(), tmp_path, metrics=metrics) as agent:
        await agent.registered.wait()
        for device in ("cpu-1", "phone-1"):
            metrics.read(device, {"battery_percent": 50})
        await agent.announce([builders.cpu()])
    shown = [labels for gauge in metrics.gauges() for labels, _ in gauge.samples]
    assert shown == [("cpu-1",)]


async def test_a_revoked_agent_ends_what_it_runs_and_comes_back_when_admitted(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    async with serving(link, bench, tmp_path) as agent:
        ref = (await first_job(link, bench, agent)).job.ref
        box.farm.revoke("host-1", "admin", "stolen")
        assert await bench.ended.get() == ref
        assert "revoked by admin (stolen). Run `benchfarm agent admit" in str(agent.revoked)
        assert [d.online for d in box.store.fleet()[1]] == [False]
        box.farm.admit("host-1")
        assert (await bench.started.get()).job.ref == builders.ref(ref.run_id, 2)
        assert agent.revoked is None
    assert outbox(tmp_path) == []


async def test_a_revoked_agent_drains(box: FarmBox, tmp_path: Path) -> None:
    agent = host_agent(MemoryLink(box), Bench(), tmp_path)
    life = asyncio.create_task(agent.serve())
    async with asyncio.timeout(PATIENCE_S):
        await agent.registered.wait()
        box.farm.revoke("host-1", "admin", "stolen")
        while agent.revoked is None:
            await asyncio.sleep(0)
        await agent.drain()
        await life


async def test_a_draining_agent_finishes_what_it_has_and_takes_no_more(
    box: FarmBox, tmp_path: Path
) -> None:
    link, bench = MemoryLink(box), Bench()
    link.hold_s = 0.01
    agent = host_agent(link, bench, tmp_path)
    life = asyncio.create_task(agent.serve())
    async with asyncio.timeout(PATIENCE_S):
        spec = await first_job(link, bench, agent)
        submitted = box.submit(builders.sweep(), again=True)
        link.faults["register"] = [ControllerAway()]  # it is told at the next opportunity
        await agent.drain()
        while box.farm.state().devices[0].online:
            await asyncio.sleep(0)
        bench.running[spec.job.ref].set_result(builders.result())
        await life
    assert box.run(spec.job.ref.run_id).state is RunState.DONE
    (waiting,) = box.store.runs(sweep_id=submitted.sweep_id)
    assert waiting.state is RunState.QUEUED
    assert outbox(tmp_path) == []
