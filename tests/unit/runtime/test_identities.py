"""An id stays with what it was given to, whatever a phone says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.device import Device, DeviceKind
from controller.contracts.wire import Orders
from controller.runtime.roster import Roster
from tests.support import builders
from tests.support.farm import FarmBox

SERVER = builders.cpu("cpu-8d14a2f2")
SPOOFED = Device(id=SERVER.id, kind=DeviceKind.ANDROID, virtual=False)
VIRTUAL = Device(id="R58M", kind=DeviceKind.ANDROID, virtual=True)
REAL = VIRTUAL.model_copy(update={"virtual": False})


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


def seen_of(box: FarmBox, agent: str, *devices: Device) -> dict[str, str]:
    """Register; return what is refused, and why."""
    registration = builders.registration(builders.agent(agent), *devices)
    return {one.device_id: one.seen for one in box.farm.register(registration).refused}


def known(box: FarmBox) -> dict[str, tuple[str, DeviceKind, str]]:
    """Return what the store keeps of each device: its agent, kind, and whether it is there."""
    devices = box.store.fleet()[1]
    return {
        d.device.id: (d.agent_id, d.device.kind, "here" if d.online else "away") for d in devices
    }


@pytest.mark.parametrize("agent", ["host-1", "host-2"])
@pytest.mark.parametrize("away", [False, True])
def test_a_phone_never_becomes_a_server(box: FarmBox, agent: str, away: bool) -> None:
    """It says the server's id at the server's own host or another, while that is there or not."""
    box.farm.register(builders.registration(None, SERVER))
    if away:
        box.farm.register(builders.registration(None, builders.cpu("cpu-2")))
    before = known(box)[SERVER.id]
    for phone in (SPOOFED, SPOOFED.model_copy(update={"virtual": True})):
        refused = seen_of(box, agent, phone, builders.phone("R58M"))
        assert list(refused) == [SERVER.id]
        assert "only servers have ids that begin with cpu-" in refused[SERVER.id]
        assert known(box)[SERVER.id][:2] == before[:2]
        assert known(box)["R58M"] == (agent, DeviceKind.ANDROID, "here")


def test_a_phone_that_comes_first_does_not_keep_a_server_out(box: FarmBox) -> None:
    assert list(seen_of(box, "host-2", SPOOFED)) == [SERVER.id]
    assert seen_of(box, "host-1", SERVER) == {}
    assert known(box) == {SERVER.id: ("host-1", DeviceKind.CPU_HOST, "here")}


def test_a_server_gets_its_id_back_from_a_phone_that_has_taken_it_before(
    box: FarmBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a store that was edited by hand can say."""
    with monkeypatch.context() as earlier:
        earlier.setattr(Roster, "refused", lambda *_: [])
        box.farm.register(builders.registration(None, SPOOFED))
    assert known(box)[SERVER.id][1] is DeviceKind.ANDROID
    assert seen_of(box, "host-1", SERVER) == {}
    assert known(box)[SERVER.id][1] is DeviceKind.CPU_HOST


@pytest.mark.parametrize(("first", "second"), [(VIRTUAL, REAL), (REAL, VIRTUAL)])
@pytest.mark.parametrize("agent", ["host-1", "host-2"])
def test_no_virtual_phone_takes_a_real_ones_place(
    box: FarmBox, first: Device, second: Device, agent: str
) -> None:
    box.farm.register(builders.registration(None, first))
    box.farm.register(builders.registration(None, builders.cpu()))  # it is unplugged
    refused = seen_of(box, agent, second)
    assert "is known as a" in refused["R58M"]
    assert "agent host-1 on host host-1" in refused["R58M"]
    box.restart()
    assert list(seen_of(box, agent, second)) == ["R58M"]
    assert seen_of(box, "host-1", first) == {}
    assert known(box)["R58M"] == ("host-1", DeviceKind.ANDROID, "here")


def test_of_two_devices_of_one_id_neither_is_taken(box: FarmBox) -> None:
    other = builders.phone("R58M").model_copy(update={"facts": {"model": "other"}})
    refused = seen_of(box, "host-1", SERVER, builders.phone("R58M"), other)
    assert refused == {"R58M": "agent host-1 announces two devices with this id"}
    assert list(known(box)) == [SERVER.id]


def test_what_a_server_runs_goes_on_beside_a_phone_with_its_id(box: FarmBox) -> None:
    box.farm.register(builders.registration(None, SERVER))
    box.submit(builders.sweep())
    (job,) = box.ask().run
    assert list(seen_of(box, "host-2", SPOOFED)) == [SERVER.id]
    assert box.ask(job.ref) == Orders()
    box.report(job.ref, builders.result())
    (attempt,) = box.run(job.ref.run_id).attempts
    assert (attempt.device_id, attempt.agent_id) == (SERVER.id, "host-1")
