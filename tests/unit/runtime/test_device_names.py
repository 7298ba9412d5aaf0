"""Names that persons give devices, and devices that persons remove."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.administration import ChangedDevice, Reason, RenameRequest
from controller.contracts.device import AbsentDevice, Device, DeviceKind, DeviceState
from controller.contracts.errors import NotFound, UserError
from controller.scheduling.device_life import Forgotten, Labelled, Quarantined, Renamed
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox
from tests.unit.runtime.test_access import ADMIN_TOKEN, served

LEFT = builders.cpu("cpu-67b5a1c3", facts={"hostname": "xeon-3"})
RIGHT = builders.cpu("cpu-68000000", facts={"hostname": "xeon-4.lab"}, cores=frozenset())
PHONE = builders.phone("R5CT30ABC")
FLEET = (LEFT, RIGHT, PHONE)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration(None, *FLEET))
    yield box
    box.close()


def rename(box: FarmBox, device: Device, name: str | None) -> ChangedDevice:
    return box.farm.apply_event(device.id, Renamed(name), "admin", "renamed")


def forget(box: FarmBox, device: Device) -> ChangedDevice:
    return box.farm.apply_event(device.id, Forgotten(), "admin", "forgotten: sold")


def leave(box: FarmBox, device: Device) -> None:
    """Have the agent announce all but one device."""
    away = AbsentDevice(device_id=device.id, state=DeviceState.OFFLINE, why="unplugged")
    there = (one for one in FLEET if one.id != device.id)
    registration = builders.registration(None, *there)
    box.farm.register(registration.model_copy(update={"absent": (away,)}))


def stored(box: FarmBox) -> list[str]:
    return [known.device.id for known in box.store.fleet()[1]]


def test_a_name_survives_agent_and_controller_until_it_is_taken_away(box: FarmBox) -> None:
    assert rename(box, LEFT, "left").device_name == "left"
    box.restart()
    box.farm.register(builders.registration(None, *FLEET))
    assert box.farm.find_device("left") == LEFT.id
    assert rename(box, LEFT, "left").device_name == "left"  # its own name is no obstacle
    assert rename(box, LEFT, None).device_name == "xeon-3 · cpu-67b5…"
    with pytest.raises(NotFound, match="there is no such device"):
        box.farm.find_device("left")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Left", "it is the name of device cpu-67b5a1c3. Choose another, or run"),
        ("cpu-rack", "only ids of servers begin with cpu-"),
        ("R5CT30ABC", "it could be taken for device R5CT30ABC"),
        ("r5ct", "it could be taken for device R5CT30ABC"),
        ("xeon-3", "it is the host of device cpu-67b5a1c3"),
    ],
)
def test_a_name_that_could_mean_another_device_is_refused(
    box: FarmBox, name: str, words: str
) -> None:
    rename(box, LEFT, "left")
    with pytest.raises(UserError) as caught:
        rename(box, RIGHT, name)
    assert words in str(caught.value)
    assert box.farm.find_device("xeon-4.lab") == RIGHT.id


def test_no_agent_names_its_devices_and_no_phone_takes_a_given_name_as_its_id(
    box: FarmBox,
) -> None:
    vain = builders.cpu("cpu-9").model_copy(update={"name": "left"})
    box.farm.register(builders.registration(builders.agent("host-2"), vain))
    assert box.farm.find_device("cpu-9") == "cpu-9"
    rename(box, LEFT, "left")
    thieves = [builders.phone(id_) for id_ in ("Left", "xeon-3")]
    answer = box.farm.register(builders.registration(builders.agent("host-2"), *thieves, vain))
    assert [(one.device_id, one.seen) for one in answer.refused] == [
        ("Left", "Left is the name of device cpu-67b5a1c3"),
        ("xeon-3", "xeon-3 is the host of device cpu-67b5a1c3"),
    ]
    assert box.farm.find_device("left") == LEFT.id


def test_a_device_that_is_there_or_has_a_run_is_not_forgotten(box: FarmBox) -> None:
    with pytest.raises(UserError, match=r"it is online: agent host-1 has it\. Disconnect it"):
        forget(box, LEFT)
    box.submit(builders.sweep(devices=(f'device == "{LEFT.id}"',)))
    leave(box, LEFT)
    with pytest.raises(UserError, match=r"run \w+ is leased to it\. Wait until it has ended, or"):
        forget(box, LEFT)
    assert LEFT.id in stored(box)


def test_a_forgotten_device_is_gone_keeps_its_results_and_comes_back_as_new(box: FarmBox) -> None:
    sweep_id = box.submit(builders.sweep(devices=(f'device == "{LEFT.id}"',))).sweep_id
    box.report(box.ask().run[0].ref, builders.result())
    rename(box, LEFT, "left")
    box.farm.apply_event(LEFT.id, Labelled({"rack": "b"}), "admin", "labelled")
    box.farm.apply_event(LEFT.id, Quarantined("admin", "loud"), "admin", "loud")
    leave(box, LEFT)
    assert forget(box, LEFT).device == LEFT.id
    for _ in ("now", "after a restart"):
        assert stored(box) == [PHONE.id, RIGHT.id]
        assert LEFT.id not in {d.device.id for d in box.farm.state().devices}
        with pytest.raises(NotFound):
            box.farm.find_device(LEFT.id)
        assert [r.device_name for r in box.store.results(sweep_id)] == ["xeon-3 · cpu-67b5…"]
        leave(box, LEFT)  # an agent that misses it does not bring it back
        box.restart()
    box.farm.register(builders.registration(None, *FLEET))
    back = next(d for d in box.store.fleet()[1] if d.device.id == LEFT.id)
    assert (back.online, back.life.name, back.life.labels) == (True, None, {})
    assert (back.life.quarantine, back.life.forgotten) == (None, False)
    assert "forgotten: sold" in [event.why for event in box.store.history(LEFT.id)]
    assert box.store.forgotten() == []


def test_a_forgotten_id_keeps_its_kind(box: FarmBox) -> None:
    leave(box, PHONE)
    forget(box, PHONE)
    box.restart()
    spoofed = Device(id=PHONE.id, kind=DeviceKind.ANDROID, virtual=True)
    answer = box.farm.register(builders.registration(builders.agent("host-2"), spoofed))
    assert [one.device_id for one in answer.refused] == [PHONE.id]


def test_a_lost_device_is_forgotten_once_its_leases_have_ended(box: FarmBox) -> None:
    box.submit(builders.sweep(devices=(f'device == "{LEFT.id}"',)))
    box.wait(TTL_S)
    forget(box, LEFT)
    assert stored(box) == [PHONE.id, RIGHT.id]


async def test_names_are_read_by_every_route_about_devices_and_sweeps(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        admin, ann = there.client(ADMIN_TOKEN), await there.new_user("ann")

        def ask() -> None:
            named = RenameRequest(name="left")
            admin.administer(ChangedDevice, "devices/cpu/rename", named)
            why = Reason(why="loud")
            held = admin.administer(ChangedDevice, "devices/left/quarantine", why)
            assert (held.device, held.device_name, held.state) == ("cpu-1", "left", "quarantined")
            admin.administer(ChangedDevice, "devices/lef/release", why)
            with pytest.raises(NotFound, match=r"no such device\. Did you mean left"):
                admin.administer(ChangedDevice, "devices/lefft/probe", why)
            sweep = builders.sweep()
            id_ = ann.submit(sweep).sweep_id
            assert ann.sweep_status(sweep.name).sweep_id == id_
            assert ann.sweep_status(id_[:-2]).waiting == ()
            assert ann.cancel(sweep.name) == 1

        await asyncio.to_thread(ask)
