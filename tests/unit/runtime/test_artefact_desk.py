"""Who may send artefacts of which attempt, when, and what retention removes meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from controller.contracts.annotations import SweepAnnotations
from controller.contracts.artefacts import ArtefactFile, ArtefactPart, ArtefactReceipt
from controller.contracts.errors import AgentRevoked, StoreUnavailable, UnknownAttempt
from controller.contracts.retention import PINNED, Retention
from controller.runtime.artefact_desk import LATER, ArtefactDesk, pinned_sweeps
from controller.scheduling.retention import DAY_S
from controller.store.artefacts.folder import ArtefactFolder, FolderArtefacts
from tests.support import builders
from tests.support.artefacts import artefact, noise, part_of
from tests.support.farm import FarmBox
from tests.support.waiting import PATIENCE_S, until

CONTENT = noise(5000)
HOUR_S = 3600.0
USUAL = Retention()


class Box(FarmBox):
    """A farm with an artefact store, one ended run, and what retention is told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "store.sqlite")
        self.folder = folder / "artefacts"
        self.artefacts = FolderArtefacts(self.folder, room_bytes=0)
        self.pinned: Collection[str] | None = frozenset()
        self.farm.register(builders.registration())
        self.submit(builders.sweep())
        (job,) = self.ask().run
        self.ref = job.ref
        self.host = builders.agent().host

    def desk(self, retention: Retention = USUAL, host: str = "head") -> ArtefactDesk:
        clock = self.clock.both()
        return ArtefactDesk(self.farm, self.artefacts, lambda: self.pinned, retention, host, clock)

    def file(self, content: bytes = CONTENT, agent: str = "host-1", **of: object) -> ArtefactFile:
        known = {"run_id": self.ref.run_id, "attempt": self.ref.attempt, **of}
        return artefact(content, agent=agent).model_copy(
            update={"ref": self.ref.model_copy(update=known)}
        )

    def close(self) -> None:
        self.artefacts.close()
        super().close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path)
    yield box
    box.close()


async def send(desk: ArtefactDesk, file: ArtefactFile, content: bytes = CONTENT) -> None:
    await desk.offer(file)
    part = ArtefactPart(file=file, offset=0)
    assert (await desk.add(part, part_of(content, 0))).whole


async def test_an_agent_sends_what_its_attempt_has_left(box: Box) -> None:
    await send(box.desk(), box.file())
    (row,) = ArtefactFolder(box.folder).rows(box.ref.run_id)
    assert row["agent_id"] == "host-1"


@pytest.mark.parametrize(
    "of",
    [
        lambda box: box.file(agent="host-2"),
        lambda box: box.file(attempt=2),
        lambda box: box.file(run_id="none"),
    ],
    ids=["another agent's", "no such attempt", "no such run"],
)
async def test_another_agents_attempt_and_unknown_ones_are_refused(
    box: Box, of: Callable[[Box], ArtefactFile]
) -> None:
    desk, file = box.desk(), of(box)
    with pytest.raises(UnknownAttempt):
        await desk.offer(file)
    with pytest.raises(UnknownAttempt):
        await desk.add(ArtefactPart(file=file, offset=0), part_of(CONTENT, 0))
    assert not box.folder.exists()


async def test_an_agent_that_is_shut_out_sends_no_more(box: Box) -> None:
    desk, file = box.desk(), box.file()
    await desk.offer(file)
    box.farm.revoke("host-1", "admin", "it is not ours")
    with pytest.raises(AgentRevoked):
        await desk.add(ArtefactPart(file=file, offset=0), part_of(CONTENT, 0))
    with pytest.raises(AgentRevoked):
        await desk.offer(file)


async def test_nothing_is_taken_while_a_run_measures_on_the_heads_host(box: Box) -> None:
    desk, file = box.desk(host=box.host), box.file()
    assert await desk.offer(file) == LATER
    assert await desk.add(ArtefactPart(file=file, offset=0), part_of(CONTENT, 0)) == LATER
    assert not box.folder.exists()
    box.report(box.ref, builders.result())
    await send(desk, file)


async def test_agents_are_answered_while_a_file_is_stored(box: Box) -> None:
    storing, go_on = threading.Event(), threading.Event()

    class Slow(FolderArtefacts):
        def offer(self, file: ArtefactFile, sweep_id: str, now: float) -> ArtefactReceipt:
            storing.set()
            assert go_on.wait(PATIENCE_S)
            return super().offer(file, sweep_id, now)

    box.artefacts = Slow(box.folder, room_bytes=0)
    task = asyncio.create_task(box.desk().offer(box.file()))
    await asyncio.to_thread(storing.wait, PATIENCE_S)
    box.ask(box.ref)  # in the event loop's thread, which is free
    assert not task.done()
    go_on.set()
    assert (await task).held == 0


async def test_a_full_disk_is_said_once_and_to_the_agent(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    box.artefacts.close()
    box.artefacts = FolderArtefacts(box.folder, room_bytes=2**70)
    desk, file = box.desk(), box.file()
    await desk.offer(file)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await desk.add(ArtefactPart(file=file, offset=0), part_of(CONTENT, 0))
    assert caplog.text.count("artefacts stay with their agents until they can be stored") == 1


async def test_too_many_bytes_remove_the_oldest_and_never_pinned_ones(box: Box) -> None:
    desk = box.desk(Retention(days=100, most_bytes=11_000))
    contents = [noise(5000, seed) for seed in range(4)]
    for number, content in enumerate(contents):
        box.clock.now += 1
        file = box.file(content).model_copy(update={"name": str(number)})
        await send(desk, file, content)
    assert places(box) == {"0": "expired", "1": "expired", "2": "head", "3": "head"}
    run = box.run(box.ref.run_id)
    box.pinned = {run.sweep_id}
    more = noise(50_000)
    await send(desk, box.file(more).model_copy(update={"name": "more"}), more)
    assert places(box)["2"] == "head"


async def test_age_removes_and_unreadable_pins_remove_nothing(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    desk = box.desk(Retention(days=3, most_bytes=10**9))
    await send(desk, box.file())
    box.clock.now += 3 * DAY_S + 1
    box.pinned = None
    await desk.expire()
    assert places(box) == {"output.log": "head"}
    assert "which sweeps are pinned can't be read" in caplog.text
    box.pinned = frozenset()
    await desk.expire()
    assert places(box) == {"output.log": "expired"}


async def test_a_clock_that_is_set_ahead_makes_nothing_old(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    desk = box.desk(Retention(days=180, most_bytes=10**9))
    await send(desk, box.file())
    for ahead_s in (200 * DAY_S, HOUR_S, -HOUR_S):
        box.clock.step(ahead_s)
        await desk.expire()
        box.clock.now += HOUR_S  # both clocks go on, the wall clock from where it was set
        await desk.expire()
        assert places(box) == {"output.log": "head"}
    assert caplog.text.count("the date was set 4800 h ahead") == 1, "the same trouble is said once"
    box.clock.now += 180 * DAY_S
    await desk.expire()
    assert places(box) == {"output.log": "expired"}


async def test_a_clock_that_was_behind_and_is_set_right_makes_nothing_old(box: Box) -> None:
    box.clock.step(-200 * DAY_S)  # as after the start of a host whose battery is empty
    desk = box.desk(Retention(days=180, most_bytes=10**9))
    await send(desk, box.file())
    box.clock.step(200 * DAY_S)
    await desk.expire()
    assert places(box) == {"output.log": "head"}
    box.clock.now += 180 * DAY_S + 1
    await desk.expire()
    assert places(box) == {"output.log": "expired"}


async def test_a_clock_that_was_ahead_and_is_set_right_makes_nothing_old(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    box.clock.step(200 * DAY_S)
    desk = box.desk(Retention(days=180, most_bytes=10**9))
    box.clock.step(-200 * DAY_S)
    await send(desk, box.file())
    await desk.expire()
    assert places(box) == {"output.log": "head"}
    assert caplog.text == ""


async def test_in_the_first_hour_only_what_is_too_much_expires(box: Box) -> None:
    """A date that NTP has not corrected yet made all old as soon as bytes were too many."""
    contents = {name: noise(5000, seed) for seed, name in enumerate("abcd")}
    files = {
        name: box.file(content).model_copy(update={"name": name})
        for name, content in contents.items()
    }
    for name in "abc":
        box.clock.now += 1
        await send(box.desk(), files[name], contents[name])
    box.clock.step(200 * DAY_S)
    desk = box.desk(Retention(days=180, most_bytes=16_000))
    await send(desk, files["d"], contents["d"])
    assert places(box) == {"a": "expired", "b": "head", "c": "head", "d": "head"}
    box.clock.now += HOUR_S
    await desk.expire()
    assert places(box) == {"a": "expired", "b": "expired", "c": "expired", "d": "head"}


def places(box: Box) -> dict[str, str]:
    rows = ArtefactFolder(box.folder).rows(box.ref.run_id)
    return {row["name"]: str(row["where"]) for row in rows}


def test_a_sweep_is_pinned_by_its_tag(box: Box) -> None:
    sweep_id = box.run(box.ref.run_id).sweep_id
    assert pinned_sweeps(box.store) == frozenset()
    said = SweepAnnotations(sweep_id=sweep_id, tags=("paper", PINNED), notes=())
    box.store.save_annotations(said)
    assert pinned_sweeps(box.store) == frozenset({sweep_id})


async def test_it_looks_again_and_again(box: Box) -> None:
    looks = 0

    def pinned() -> frozenset[str]:
        nonlocal looks
        looks += 1
        return frozenset()

    clock = box.clock.both()
    desk = ArtefactDesk(box.farm, box.artefacts, pinned, Retention(), "head", clock)
    task = asyncio.create_task(desk.keep_to_retention(look_s=0.0))
    await until(lambda: looks >= 3, "it has looked three times")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_does_not_look_at_once_since_the_clock_may_still_be_set(box: Box) -> None:
    await send(box.desk(), box.file())
    box.clock.now += 200 * DAY_S
    desk = box.desk()
    task = asyncio.create_task(desk.keep_to_retention())
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await desk.offer(box.file())  # done in the same thread, after whatever was begun there
    assert places(box) == {"output.log": "head"}
