"""A drained agent: its devices take no new runs, whatever comes, goes or restarts meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.cli.agent_drain import drain_lines
from controller.contracts.device import Booking, Device, DeviceState
from controller.contracts.draining import ChangedDrain
from controller.contracts.errors import NotFound, StoreDamaged, UserError
from controller.contracts.run import RunState
from controller.contracts.wire import Orders
from controller.runtime import fleet
from controller.runtime.home import Home
from controller.scheduling.device_life import Booked, Quarantined, Released
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox

WHY = "new fans"
PHONE = builders.phone()
SAID = "its host is draining since 1970-01-01 00:16 UTC, by admin: new fans"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    yield box
    box.close()


def drain(box: FarmBox) -> None:
    assert box.farm.drains.begin("host-1", "admin", WHY).changed


def state(box: FarmBox, device: str = "cpu-1") -> DeviceState:
    return box.farm.state().statuses[device].state


def submit(box: FarmBox, **changes: object) -> None:
    box.submit(builders.sweep(**changes))


def again(box: FarmBox, *devices: Device, incarnation: str = "second") -> None:
    agent = builders.agent(incarnation=incarnation)
    box.farm.register(builders.registration(agent, *devices))


def nothing(_: FarmBox) -> None:
    """Plant nothing."""


def restart_controller(box: FarmBox) -> None:
    box.restart()
    again(box, incarnation="first")


def restart_agent(box: FarmBox) -> None:
    again(box)


def fall_silent(box: FarmBox) -> None:
    box.wait(TTL_S)
    assert state(box) is DeviceState.LOST
    again(box)


def leave(box: FarmBox) -> None:
    """Do as an agent that SIGTERM ends, and as the next one."""
    gone = builders.registration().model_copy(update={"devices": ()})
    box.farm.register(gone)
    assert state(box) is DeviceState.OFFLINE
    again(box)


def revoke(box: FarmBox) -> None:
    box.farm.revoke("host-1", "admin", "sold")
    box.farm.admit("host-1")
    again(box)


def release(box: FarmBox) -> None:
    box.farm.apply_event("cpu-1", Released(), "admin", "by hand")


def book_and_release(box: FarmBox) -> None:
    booking = Booking(begins=0, ends=2000, user="admin", who="admin", why="mine")
    box.farm.apply_event("cpu-1", Booked(booking), "admin", "booked")


def quarantine_and_release(box: FarmBox) -> None:
    box.farm.apply_event("cpu-1", Quarantined("admin", "loud"), "admin", "loud")
    assert state(box) is DeviceState.QUARANTINED
    release(box)


def drain_twice(box: FarmBox) -> None:
    box.clock.now += 60
    assert not box.farm.drains.begin("host-1", "admin", "another reason").changed


PLANTED: dict[str, Callable[[FarmBox], None]] = {
    "nothing": nothing,
    "the controller restarts": restart_controller,
    "the agent restarts": restart_agent,
    "the agent is silent, and comes back": fall_silent,
    "the agent ends, and is started again": leave,
    "the agent is revoked, and admitted": revoke,
    "the device is released": release,
    "the device is reserved for the user": book_and_release,
    "the device was in quarantine": quarantine_and_release,
    "it is drained once more, for another reason": drain_twice,
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED.keys())
def test_a_drain_holds_until_a_person_ends_it(
    box: FarmBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[FarmBox], None]
) -> None:
    drain(box)
    submit(box)
    plant(box)
    incarnation = box.farm.state().agents[0].agent.incarnation
    assert box.ask(incarnation=incarnation) == Orders()
    assert state(box) is DeviceState.DRAINED
    (told,) = box.farm.sweeps.waits(box.store.sweeps()[0].sweep_id)()
    assert told.said == f"1 run waits: cpu-1 takes no runs: {SAID}"
    monkeypatch.setattr(fleet, "why_away", lambda _: "")
    (listed,) = fleet.devices_now(Home(tmp_path), box.store, box.store.runs(open_only=True))
    assert (listed.state, listed.who, listed.why) == (
        *(DeviceState.DRAINED, "admin", f"its host takes no runs: {WHY}"),
    )
    assert listed.draining == box.farm.state().agents[0].draining

    ended = box.farm.drains.end("host-1", "admin", "done")
    assert (ended.changed, ended.now.draining) == (True, None)
    assert len(box.ask(incarnation=incarnation).run) == 1, "at once"


def test_runs_under_way_finish_and_are_named(box: FarmBox) -> None:
    submit(box, repeats=2)
    (job,) = box.ask().run
    drain(box)
    found = box.farm.drains.now("host-1")
    assert [(r.run_id, r.user, r.device) for r in found.running] == [
        (job.ref.run_id, "admin", "cpu-1")
    ]
    assert box.ask(job.ref) == Orders(), "it is not stopped"
    stands = box.farm.state().statuses["cpu-1"]
    assert stands.state is DeviceState.BUSY
    assert stands.why == f"run {job.ref.run_id}, attempt 1; then its host takes no runs"
    box.report(job.ref, builders.result())
    assert box.run(job.ref.run_id).state is RunState.DONE
    assert box.ask() == Orders()
    assert box.farm.drains.now("host-1").running == ()
    assert box.farm.drains.waiting("host-1")() == 1


def test_a_run_on_a_virtual_device_is_marked(box: FarmBox) -> None:
    virtual = builders.cpu("cpu-9").model_copy(update={"virtual": True})
    again(box, virtual, incarnation="first")
    submit(box)
    assert len(box.ask().run) == 1
    drain(box)
    found = ChangedDrain(now=box.farm.drains.now("host-1"), changed=True)
    assert [run.likeness for run in found.now.running] == [" (virtual)"]
    assert any(" (virtual), since " in line for line in drain_lines(found))


def test_a_run_that_was_leased_before_is_begun(box: FarmBox) -> None:
    submit(box)
    drain(box)
    assert len(box.ask().run) == 1, "its lease is older than the drain"


def test_a_phone_that_comes_later_takes_no_run_and_one_that_moves_away_does(box: FarmBox) -> None:
    drain(box)
    again(box, builders.cpu(), PHONE, incarnation="first")
    assert state(box, PHONE.id) is DeviceState.DRAINED
    submit(box, stack="litert")
    assert box.ask() == Orders()
    assert [(e.state, e.who, e.why) for e in box.store.history(PHONE.id)] == [
        (DeviceState.DRAINED, "admin", f"its host takes no runs: {WHY}")
    ]

    again(box, builders.cpu(), incarnation="first")  # it is unplugged
    other = builders.registration(builders.agent("host-2"), PHONE)
    box.farm.register(other)
    assert state(box, PHONE.id) is DeviceState.BUSY
    assert len(box.ask(agent="host-2").run) == 1


def test_runs_go_to_hosts_that_are_not_drained(box: FarmBox) -> None:
    drain(box)
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu("cpu-2")))
    submit(box, repeats=2)
    assert box.ask() == Orders()
    assert len(box.ask(agent="host-2").run) == 1
    assert box.farm.drains.waiting("host-1")() == 0, "the other run waits for its turn on cpu-2"


def test_a_sweep_for_each_device_keeps_runs_for_those_of_a_drained_host(box: FarmBox) -> None:
    drain(box)
    submit(box, run_on="each")
    assert box.farm.drains.waiting("host-1")() == 1


def test_an_agent_without_devices_and_one_that_is_away_can_be_drained(box: FarmBox) -> None:
    box.wait(TTL_S)
    drain(box)
    found = box.farm.drains.now("host-1")
    assert (found.online, found.devices) == (False, ("cpu-1",))
    assert state(box) is DeviceState.LOST, "that is the nearer reason"
    again(box)
    assert state(box) is DeviceState.DRAINED


def test_its_devices_histories_tell_of_it(box: FarmBox) -> None:
    drain(box)
    drain_twice(box)
    assert box.farm.drains.end("host-1", "admin", "done").changed
    assert not box.farm.drains.end("host-1", "admin", "done").changed
    assert [(e.state, e.who, e.why) for e in box.store.history("cpu-1")] == [
        (DeviceState.READY, "host-1", "agent host-1 has it"),
        (DeviceState.DRAINED, "admin", f"its host takes no runs: {WHY}"),
        (DeviceState.READY, "admin", "its host takes runs again: done"),
    ]


def test_a_drain_that_is_not_stored_is_none(box: FarmBox, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise StoreDamaged("store.sqlite", "a page can't be read")

    monkeypatch.setattr(SqliteStore, "save_agent", damaged)
    with pytest.raises(StoreDamaged):
        drain(box)
    assert state(box) is DeviceState.READY
    assert box.farm.drains.now("host-1").draining is None


@dataclass(frozen=True)
class Named:
    given: str
    error: str
    remedy: str


@pytest.mark.parametrize(
    "case",
    [
        Named("xeon-3", "there is no such agent", "Known: host-1 on host-1"),
        Named("hots-1", "there is no such agent", "Did you mean"),
        Named("", "its id is empty", "benchfarm agent list"),
        Named("cpu-1", "it is a device of agent host-1", "Name host-1; for the device alone"),
        Named("cpu", "it is a device of agent host-1", "benchfarm device maintain cpu-1 --for"),
    ],
    ids=lambda case: case.given,
)
def test_what_is_no_agent_is_refused(box: FarmBox, case: Named) -> None:
    with pytest.raises(UserError) as refused:
        box.farm.drains.find(case.given)
    assert case.error in refused.value.seen
    assert case.remedy in refused.value.remedy
    assert isinstance(refused.value, NotFound) is (not case.given.startswith("cpu"))
