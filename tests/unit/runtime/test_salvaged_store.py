"""A farm on what `store salvage` has saved: it starts, and the runs go on that are left."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.device import Booking
from controller.contracts.run import AttemptState, RunState
from controller.contracts.wire import AttemptRef
from controller.scheduling.device_life import Booked
from controller.store.integrity import salvage
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox

LOST = {
    "device": "UPDATE devices SET facts = '{' WHERE device_id = 'cpu-1'",
    "agent": "UPDATE agents SET host = x'ff' WHERE agent_id = 'host-1'",
}
"""What is damaged, and so not saved."""


def salvaged(box: FarmBox, folder: Path, lost: str) -> FarmBox:
    """End a farm, damage its store, and return a farm on what is saved of that."""
    box.close()
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection, connection:
        connection.execute(LOST[lost])
    (named,) = salvage(folder / "store.sqlite", folder / "new.sqlite").damage
    assert named.startswith(lost)
    return FarmBox(folder / "new.sqlite")


def leased(folder: Path) -> tuple[FarmBox, AttemptRef]:
    """Return a farm whose only device has a run."""
    box = FarmBox(folder / "store.sqlite")
    box.farm.register(builders.registration())
    box.submit(builders.sweep())
    (job,) = box.ask().run
    return box, job.ref


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("state", [RunState.LEASED, RunState.QUEUED])
def test_a_run_that_was_tried_on_what_is_lost_goes_on_elsewhere(
    tmp_path: Path, lost: str, state: RunState
) -> None:
    box, ref = leased(tmp_path)
    box.report(ref, builders.failure())
    if state is RunState.QUEUED:
        box.wait(TTL_S)
    assert box.run(ref.run_id).state is state
    box = salvaged(box, tmp_path, lost)
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu("cpu-2")))
    box.wait(1.0)
    (job,) = box.ask(agent="host-2").run
    box.report(job.ref, builders.result(), agent="host-2")
    run = box.run(ref.run_id)
    assert run.state is RunState.DONE
    assert [(attempt.device_id, attempt.state) for attempt in run.attempts] == [
        ("cpu-1", AttemptState.FAILED),
        ("cpu-1", AttemptState.LOST),
        ("cpu-2", AttemptState.SUCCEEDED),
    ]
    assert [failure.device for failure in box.store.failures()] == ["cpu-1"]
    assert box.store.damage() == []
    box.close()


@pytest.mark.parametrize("lost", LOST)
def test_what_was_measured_meanwhile_is_taken_before_its_agent_registers(
    tmp_path: Path, lost: str
) -> None:
    box, ref = leased(tmp_path)
    box = salvaged(box, tmp_path, lost)
    box.report(ref, builders.result())
    (stored,) = box.store.results()
    assert (stored.device, stored.device_kind, stored.counted) == ("cpu-1", "cpu_host", False)
    box.close()


def test_a_booking_ends_of_a_device_whose_agent_is_lost(tmp_path: Path) -> None:
    box, _ = leased(tmp_path)
    now = box.clock.now
    booking = Booking(begins=now, ends=now + 60.0, user="ann", who="ann", why="a demo")
    box.farm.apply_event("cpu-1", Booked(booking), "ann", "a demo")
    box = salvaged(box, tmp_path, "agent")
    (device,) = box.store.fleet()[1]
    assert device.life.bookings
    box.wait(61.0)
    (device,) = box.store.fleet()[1]
    assert not device.life.bookings
    box.farm.register(builders.registration())
    (device,) = box.store.fleet()[1]
    assert (device.agent_id, device.online) == ("host-1", True)
    box.close()
