"""What runs wait for, as the store and the controller's interface tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.contracts.device import Booking, DeviceState
from controller.contracts.waiting import Waiting, WaitReason
from controller.contracts.wire import COOL_DOWN, HeldUp, Progress
from controller.runtime import fleet
from controller.runtime.desk import Desk
from controller.runtime.home import Home
from controller.runtime.shared_waits import KEEP_S
from controller.runtime.waiting import held_up_now, waiting_now
from controller.scheduling.device_life import Booked, Quarantined
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox


def waits_of(box: FarmBox, tmp_path: Path) -> dict[str, Waiting]:
    def held_up(_: Home) -> Mapping[str, str]:
        return box.farm.held_up()

    runs = box.store.runs(open_only=True)
    return waiting_now(Home(tmp_path), box.store, runs, builders.catalog, box.clock, held_up)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    monkeypatch.setattr(fleet, "why_away", lambda _: "")
    box.farm.register(builders.registration())
    yield box
    box.close()


async def told(box: FarmBox, tmp_path: Path) -> list[tuple[WaitReason, str]]:
    """Return what the runs of the sweep wait for, which store and interface tell alike."""
    box.clock.now += KEEP_S  # what was told before is told no more
    found = waits_of(box, tmp_path)
    reasons = [(wait.reason, wait.words) for wait in found.values()]
    (sweep,) = box.store.sweeps()
    asked = (await Desk(box.farm.sweeps).sweep_status(sweep.sweep_id, "admin")).waiting
    assert {(group.first.reason, group.first.words) for group in asked} == set(reasons)
    return reasons


def book(box: FarmBox, user: str | None) -> None:
    now = box.clock.now
    booking = Booking(begins=now, ends=now + 600, user=user, who="admin", why="a paper")
    box.farm.apply_event("cpu-1", Booked(booking), "admin", "booked")


async def test_the_store_and_the_controller_tell_the_same(box: FarmBox, tmp_path: Path) -> None:
    book(box, "ann")
    box.submit(builders.sweep())
    reserved = "cpu-1 is reserved for ann until 1970-01-01 00:26 UTC: a paper"
    assert await told(box, tmp_path) == [(WaitReason.RESERVED, reserved)]

    box.farm.apply_event("cpu-1", Quarantined("admin", "it is loud"), "admin", "it is loud")
    held = "cpu-1 is in quarantine until a person releases it: it is loud"
    assert await told(box, tmp_path) == [(WaitReason.QUARANTINED, held)]


async def test_a_lease_that_cools_down_and_the_run_behind_it(box: FarmBox, tmp_path: Path) -> None:
    box.submit(builders.sweep(repeats=2))
    (job,) = box.ask().run
    box.tell(job.ref, Progress(phase=COOL_DOWN, done=0, total=9))

    said = f"cpu-1 cools down for run {job.ref.run_id} of admin"
    assert await told(box, tmp_path) == [(WaitReason.COOLING, said)] * 2
    waits = waits_of(box, tmp_path)
    (listed,) = fleet.devices_now(Home(tmp_path), box.store, box.store.runs(open_only=True), waits)
    assert (listed.queued, listed.state) == (1, DeviceState.COOLING)


async def test_cores_that_another_farm_holds(box: FarmBox, tmp_path: Path) -> None:
    box.submit(builders.sweep(repeats=2))
    (job,) = box.ask().run
    why = "waiting for core 3, which process 7 of user eve holds"
    box.ask(job.ref, held_up=(HeldUp(ref=job.ref, why=why),))

    said = f"cpu-1, with run {job.ref.run_id} of admin, is {why}"
    assert await told(box, tmp_path) == [(WaitReason.LOCKED, said)] * 2
    (listed,) = fleet.devices_now(
        Home(tmp_path), box.store, box.store.runs(open_only=True), waits_of(box, tmp_path)
    )
    assert (listed.state, listed.locked, listed.queued) == (DeviceState.BUSY, why, 1)

    box.restart()
    assert box.farm.held_up() == {}, "kept in memory only"
    box.ask(job.ref, held_up=(HeldUp(ref=job.ref, why=why),))
    assert box.farm.held_up() == {job.ref.run_id: why}, "the agent repeats it"
    box.ask(job.ref)
    assert box.farm.held_up() == {}
    box.ask(job.ref, held_up=(HeldUp(ref=job.ref, why=why),))
    box.report(job.ref, builders.result())
    assert job.ref.run_id not in box.farm.held_up(), "its lease has ended"


def test_nobody_knows_what_is_held_up_while_the_controller_is_away(tmp_path: Path) -> None:
    assert held_up_now(Home(tmp_path)) == {}


async def test_a_silent_agent_and_a_farm_that_is_down(
    box: FarmBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.submit(builders.sweep())
    box.wait(TTL_S)
    ((reason, said),) = await told(box, tmp_path)
    assert (
        reason,
        "cpu-1 is lost since 1970-01-01 00:16 UTC (agent host-1 has been" in said,
    ) == (*(WaitReason.AWAY, True),)
    box.farm.register(builders.registration())
    monkeypatch.setattr(fleet, "why_away", lambda _: "the farm is down")
    box.submit(builders.sweep(name="other", repeats=2))
    found = waits_of(box, tmp_path)
    assert {w.words for w in found.values()} == {
        "no device that fits is online: cpu-1 is lost (the farm is down)"
    }


async def test_a_start_is_estimated_from_earlier_attempts(box: FarmBox, tmp_path: Path) -> None:
    box.submit(builders.sweep(repeats=3))
    (job,) = box.ask().run
    box.clock.now += 5
    box.report(job.ref, builders.result())
    begun = box.clock.now

    (last,) = waits_of(box, tmp_path).values()

    assert (last.reason, last.starts_at) == (WaitReason.BUSY, begun + 5)
