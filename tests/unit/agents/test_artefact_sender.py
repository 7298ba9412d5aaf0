"""An agent's artefacts come to the head whole, whatever interrupts the sending."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.artefact_queue import ArtefactQueue
from agents.artefacts import MOST_DAMAGED, SLICE_BYTES, AgentRuns, ArtefactSender, SendingPauses
from agents.link import ControllerAway
from agents.quiet import Quiet
from controller.contracts.artefacts import (
    ArtefactFile,
    ArtefactPart,
    ArtefactPlace,
    ArtefactReceipt,
)
from controller.contracts.device import Admission, Registration
from controller.contracts.errors import AgentRevoked, StoreUnavailable, UnknownAttempt
from controller.contracts.wire import AttemptRef, Exchange, Orders, Report, RunProgress
from controller.platform.frames import FRAME_BYTES
from controller.store.artefacts.contents import ARRIVING
from controller.store.artefacts.folder import ArtefactFolder, FolderArtefacts
from tests.support.artefacts import SWEEP, noise
from tests.support.waiting import PATIENCE_S, until

AT_ONCE = SendingPauses(away_s=0.0, look_s=0.0, settle_s=0.0)
REF = AttemptRef(run_id="run-1", attempt=1)
TRACE = noise(3 * 8 * FRAME_BYTES + 7)
FILES = {"output.log": b"log\n" * 1000, "performance/trace.json": TRACE, "empty": b""}


class StoreLink:
    """A head's store without a controller between; what goes wrong is put into `faults`."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderArtefacts(folder, room_bytes=0)
        self.folder = folder
        self.faults: list[Exception] = []
        """Raised before requests, one each."""
        self.lost_answers: list[Exception] = []
        """Raised after parts were taken, one each."""
        self.spoilt = 0
        """Parts that are damaged on their way."""
        self.rotten = 0
        """First parts that are damaged on the head's disk."""
        self.later = 0
        """Requests that are put off."""
        self.parts: list[ArtefactPart] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def offer_artefact(self, file: ArtefactFile) -> ArtefactReceipt:
        if self.faults:
            raise self.faults.pop()
        if self.later:
            self.later -= 1
            return ArtefactReceipt(later_s=0.001)
        return self.store.offer(file, SWEEP, 1.0)

    async def add_artefact(self, part: ArtefactPart, frames: Sequence[bytes]) -> ArtefactReceipt:
        self.parts.append(part)
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop()
        if self.spoilt:
            self.spoilt -= 1
            frames = [frames[0][:-1] + b"?", *frames[1:]]
        receipt = self.store.add(part.file, part.offset, frames, 1.0)
        if self.rotten and not part.offset and not receipt.whole:
            self.rotten -= 1
            flip_a_byte(self.folder, part.file)
        if self.lost_answers:
            raise self.lost_answers.pop()
        return receipt

    async def register(self, registration: Registration) -> Admission:
        raise NotImplementedError

    async def exchange(self, question: Exchange) -> Orders:
        raise NotImplementedError

    async def report(self, report: Report) -> None:
        raise NotImplementedError

    async def progress(self, progress: RunProgress) -> None:
        raise NotImplementedError


def flip_a_byte(folder: Path, file: ArtefactFile) -> None:
    """Damage a content in what has arrived of a file."""
    (arriving,) = folder.glob(f"{ARRIVING}/*/{file.sha256}")
    content = bytearray(arriving.read_bytes())
    content[1000] ^= 1
    arriving.write_bytes(content)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[StoreLink]:
    link = StoreLink(tmp_path / "artefacts")
    yield link
    link.store.close()


@pytest.fixture
def runs(tmp_path: Path) -> AgentRuns:
    """An agent's folder with one attempt in it."""
    runs = AgentRuns("host-1", tmp_path / "agent")
    for name, content in FILES.items():
        path = runs.of(REF) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return runs


@asynccontextmanager
async def sending(runs: AgentRuns, link: StoreLink) -> AsyncIterator[ArtefactSender]:
    """Let a sender go on for a while."""
    sender = ArtefactSender(runs, link, AT_ONCE)
    task = asyncio.create_task(sender.go_on())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield sender
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


async def all_sent(runs: AgentRuns) -> None:
    await until(lambda: not runs.queue.pending(), "all is sent")


def at_the_head(tmp_path: Path) -> dict[str, bytes]:
    """Return the whole files of the run by name, as the head has them."""
    folder = ArtefactFolder(tmp_path / "artefacts")
    rows = folder.rows(REF.run_id)
    return {row["name"]: b"".join(folder.read(row["sha256"])) for row in rows}


async def test_an_attempt_comes_whole(runs: AgentRuns, link: StoreLink, tmp_path: Path) -> None:
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES


async def test_what_an_ended_agent_had_not_sent_is_sent_by_the_next(
    runs: AgentRuns, link: StoreLink, tmp_path: Path
) -> None:
    link.gate.clear()
    async with sending(runs, link) as sender:
        sender.put(REF)
        await until(lambda: link.parts, "a part is under way")
    link.gate.set()
    assert ArtefactQueue(runs.folder / "unsent").pending() == [REF]
    async with sending(runs, link):
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES


@pytest.mark.parametrize(
    "fault",
    [
        ControllerAway(),
        StoreUnavailable("artefacts", "less than 512 MiB would be free on its disk"),
        AgentRevoked("host-1", "ann", "why"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_interruptions_only_delay_it(
    runs: AgentRuns,
    link: StoreLink,
    tmp_path: Path,
    fault: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    link.faults = [fault] * 9
    link.lost_answers = [StoreUnavailable("artefacts", "the answer is lost")] * 3
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES
    assert caplog.text.count(repr(fault)) == 1, "the same trouble is said once"


async def test_a_damaged_part_is_sent_again(
    runs: AgentRuns, link: StoreLink, tmp_path: Path
) -> None:
    link.spoilt = 2
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES


async def test_parts_that_never_arrive_leave_the_attempt_for_later(
    runs: AgentRuns, link: StoreLink, tmp_path: Path
) -> None:
    link.spoilt = 1000
    async with sending(runs, link) as sender:
        sender.put(REF)
        await until(lambda: len(link.parts) > 20, "it is tried again and again")
        assert runs.queue.pending() == [REF]
        link.spoilt = 0
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES


async def test_what_is_damaged_at_the_head_is_sent_anew(
    runs: AgentRuns, link: StoreLink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link.rotten = MOST_DAMAGED - 1
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES
    assert caplog.text.count("begins again") == MOST_DAMAGED - 1


async def test_what_is_damaged_at_the_head_again_and_again_stays_here(
    runs: AgentRuns, link: StoreLink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link.rotten = 1000
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    rows = ArtefactFolder(tmp_path / "artefacts").rows(REF.run_id)
    places = {row["name"]: row["where"] for row in rows}
    head, agent = ArtefactPlace.HEAD, ArtefactPlace.AGENT
    assert places == {"output.log": head, "performance/trace.json": agent, "empty": head}
    assert link.rotten == 1000 - MOST_DAMAGED
    assert caplog.text.count("stays on this host: it has arrived damaged 3 times") == 1


async def test_nothing_is_sent_while_a_run_measures_here(
    runs: AgentRuns, link: StoreLink, tmp_path: Path
) -> None:
    link.gate.clear()
    async with sending(runs, link) as sender:
        sender.put(REF)
        await until(lambda: link.parts, "a part is under way")
        sender.quiet.say(measuring=True)
        link.gate.set()
        await until(link.store.kept_bytes, "that part is taken")
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(link.parts) == 1
        sender.quiet.say(measuring=False)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES


async def test_a_head_that_measures_is_asked_later(
    runs: AgentRuns, link: StoreLink, tmp_path: Path
) -> None:
    link.later = 20
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert link.later == 0
    assert at_the_head(tmp_path) == FILES


async def test_a_file_that_changes_while_it_is_sent_comes_as_it_is_then(
    runs: AgentRuns, link: StoreLink, tmp_path: Path
) -> None:
    link.gate.clear()
    async with sending(runs, link) as sender:
        sender.put(REF)
        await until(lambda: link.parts, "a part is under way")
        changed = {"performance/trace.json": TRACE[:-1] + b"!", "output.log": b"another"}
        for name, content in changed.items():
            (runs.of(REF) / name).write_bytes(content)
        link.gate.set()
        await all_sent(runs)
    found = at_the_head(tmp_path)
    assert found["performance/trace.json"] == changed["performance/trace.json"]


async def test_a_file_that_has_come_and_changed_is_not_sent_again(
    runs: AgentRuns, link: StoreLink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
        (runs.of(REF) / "output.log").write_bytes(b"false")
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES
    assert "another content of it has come before" in caplog.text


async def test_an_attempt_of_another_agent_is_refused_and_forgotten(
    runs: AgentRuns, link: StoreLink, caplog: pytest.LogCaptureFixture
) -> None:
    link.faults = [UnknownAttempt("run-1", 1)]
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert "artefacts of run run-1 stay on this host" in caplog.text
    assert (runs.of(REF) / "output.log").exists()


async def test_a_fault_of_the_sender_ends_nothing(
    runs: AgentRuns, link: StoreLink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link.faults = [RuntimeError("planted")]
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES
    assert "planted" in caplog.text


async def test_an_attempt_that_cannot_be_taken_off_the_queue_ends_nothing(
    runs: AgentRuns, link: StoreLink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link.gate.clear()
    async with sending(runs, link) as sender:
        sender.put(REF)
        await until(lambda: link.parts, "a part is under way")
        (queued,) = (runs.folder / "unsent").iterdir()
        queued.unlink()
        queued.mkdir()  # which is not unlinked
        link.gate.set()
        await until(lambda: "could not be sent now" in caplog.text, "it is told")
        queued.rmdir()
        sender.put(REF)
        await all_sent(runs)
    assert at_the_head(tmp_path) == FILES


async def test_an_attempt_whose_folder_is_gone_is_forgotten(
    runs: AgentRuns, link: StoreLink, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with sending(runs, link) as sender:
        sender.put(AttemptRef(run_id="gone", attempt=1))
        await all_sent(runs)
    assert caplog.text == ""


async def test_a_long_file_is_hashed_in_slices_between_which_a_run_may_begin(
    runs: AgentRuns, link: StoreLink
) -> None:
    (runs.of(REF) / "long.bin").write_bytes(bytes(2 * SLICE_BYTES + 1))
    async with sending(runs, link) as sender:
        sender.put(REF)
        await all_sent(runs)
    assert {part.file.size for part in link.parts} >= {2 * SLICE_BYTES + 1}


async def test_quiet_is_waited_for_until_it_has_lasted() -> None:
    quiet = Quiet(0.0)
    quiet.say(measuring=True)
    waiting = asyncio.create_task(quiet.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    quiet.say(measuring=False)
    await asyncio.sleep(0)
    quiet.say(measuring=True)  # before it has lasted
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    quiet.say(measuring=False)
    await waiting
