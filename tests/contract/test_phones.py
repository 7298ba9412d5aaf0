"""An agent's phones, on a real adb server, and what `benchfarm phone` says of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from agents.phones import discovery as phones_module
from agents.phones.airplane import AirplaneMode
from agents.phones.discovery import PAUSES, Pauses
from agents.phones.recovery.policy import Remedy
from agents.remotes.adb import server as server_module
from agents.remotes.adb.addresses import Address
from agents.remotes.adb.connections import state_of
from agents.remotes.adb.programs import Link
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.adb.server import AdbServer, PrivateServer
from agents.remotes.adb.tracker import Change
from agents.remotes.remote import Completed, FaultKind, RemoteFault
from agents.remotes.tree import Tree
from agents.virtual_phone import control, faults
from controller.contracts.adb_status import ADB_FOLDER, USES_FOLDER
from controller.contracts.phone_addresses import FOLDER, PhoneAddresses
from controller.platform.locks import exclusive
from controller.runtime.home import Home
from tests.support import builders
from tests.support.phone_farm import NO_CLUSTER, LoopAgent, LoopFarm, impatient, serving_phones
from tests.support.remotes import Heard, make_folder
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import until

pytestmark = pytest.mark.integration
SHORT = Pauses(server_s=0.05, first_s=0.05)
MANY = "sleep 1000 & echo begun; wait"


@dataclass(frozen=True)
class Unanswering:
    """The way to a phone that is not heard any more once airplane mode is on."""

    phone: AdbRemote

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        if argv[0] == "rm":
            raise RemoteFault("a phone", FaultKind.OFFLINE, "the link broke")
        return await self.phone.run(argv, deadline_s, stdin)


@pytest.fixture
def farm(tmp_path: Path) -> LoopFarm:
    return LoopFarm(Home(tmp_path / "home"))


@asynccontextmanager
async def serving(
    farm: LoopFarm,
    home: Path,
    name: str = "host-1",
    pauses: Pauses = PAUSES,
    link_to: Callable[[Address, str], Link] = impatient,
) -> AsyncIterator[LoopAgent]:
    """An agent with an adb server of its own, which ends with it."""
    served = serving_phones(farm, Home(home), name=name, pauses=pauses, link_to=link_to)
    try:
        async with served as agent:
            yield agent
    finally:
        await PrivateServer(agent.folder / "adb").stop()


@pytest.fixture
async def agent(farm: LoopFarm, tmp_path: Path) -> AsyncIterator[LoopAgent]:
    async with serving(farm, tmp_path / "home") as agent:
        yield agent
    farm.store.close()


@pytest.fixture
async def quick_agent(farm: LoopFarm, tmp_path: Path) -> AsyncIterator[LoopAgent]:
    """One that tries again at once, and soon takes a phone for silent."""
    link_to = partial(impatient, quick_s=2.0)
    async with serving(farm, tmp_path / "home", pauses=SHORT, link_to=link_to) as agent:
        yield agent
    farm.store.close()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[Change]:
    """Changes that the adb server is made to tell, instead of those that it tells."""
    queue: asyncio.Queue[Change] = asyncio.Queue()

    async def track(server: AdbServer) -> AsyncIterator[Change]:
        await server.ready()
        while True:
            yield await queue.get()

    monkeypatch.setattr(phones_module, "track", track)
    return queue


def by_name(phone: RunningPhone) -> str:
    """Another way to the same phone."""
    return f"localhost:{phone.port}"


def complaint_about(agent: LoopAgent, serial: str) -> Callable[[], bool]:
    return lambda: bool((route := agent.status().routes.get(serial)) and route.complaint)


async def test_a_phone_greeted_again_keeps_what_runs_on_it(
    told: asyncio.Queue[Change], farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone
) -> None:
    await agent.connect(flagship.address)
    told.put_nowait(Change(flagship.address, "device"))
    await until(lambda: flagship.serial in farm.online(), "taken in")
    device = builders.phone(flagship.serial)
    heard = Heard()
    program = asyncio.create_task(
        agent.phones.remote_of(device).stream(("sh", "-c", MANY), 60, heard.take)
    )
    await heard.until(b"begun")

    registered = agent.link.said.count("register")
    told.put_nowait(Change(flagship.address, "device"))
    await until(lambda: agent.link.said.count("register") > registered, "greeted again")
    await agent.connect(by_name(flagship))
    told.put_nowait(Change(by_name(flagship), "device"))
    await until(complaint_about(agent, by_name(flagship)), "the second way is refused")

    complaint = agent.status().routes[by_name(flagship)].complaint
    assert complaint
    assert complaint.kind == "PhoneClaimedTwice"
    assert flagship.address in complaint.seen
    assert agent.status().routes[flagship.address].device_id == flagship.serial
    assert not program.done()
    assert (await phone_processes(flagship)) >= 3
    program.cancel()
    await asyncio.gather(program, return_exceptions=True)


async def test_the_other_way_is_taken_when_the_first_has_gone(
    told: asyncio.Queue[Change], farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone
) -> None:
    for address in (flagship.address, by_name(flagship)):
        await agent.connect(address)
        told.put_nowait(Change(address, "device"))
        await until(lambda: address in agent.status().routes, "looked at")  # noqa: B023
    told.put_nowait(Change(flagship.address, None))
    await until(
        lambda: agent.status().routes[by_name(flagship)].device_id == flagship.serial, "taken in"
    )
    assert flagship.serial in farm.online()


async def test_a_second_way_to_a_phone_is_one_clear_line(
    farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone
) -> None:
    status, out, err = await agent.cli("phone", "connect", flagship.address)
    assert (status, err) == (0, "")
    assert out.startswith(f"{flagship.serial} has joined by {flagship.address}")
    assert farm.online() == {flagship.serial: "host-1"}
    status, out, err = await agent.cli("phone", "list", "--json")
    assert (status, err) == (0, "")
    (row,) = json.loads(out)
    assert row.pop("look") > 0
    assert [row] == [
        {
            "device_id": flagship.serial,
            "last_device_id": None,
            "complaint": None,
            "adb_server": str(agent.server),
            "serial": flagship.address,
        }
    ]
    status, out, err = await agent.cli("phone", "connect", by_name(flagship))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"benchfarm: cannot add phone {flagship.serial}: it is reached as")
    assert flagship.address in err
    assert by_name(flagship) in err
    assert await state_of(agent.server, by_name(flagship)) is None
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0


async def test_a_phone_that_says_a_servers_id_is_one_clear_line(
    farm: LoopFarm, quick_agent: LoopAgent, tmp_path: Path
) -> None:
    server = builders.cpu("cpu-8d14a2f2")
    farm.farm.register(builders.registration(builders.agent("host-2"), server))
    with running_phone("old", tmp_path / "phone", f"--serial={server.id}") as phone:
        status, out, err = await quick_agent.cli("phone", "connect", phone.address)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"ro.serialno {server.id} begins with cpu-, as only a server's may" in err
    assert farm.online() == {server.id: "host-2"}


async def test_two_phones_of_one_serial_number_are_told_apart(
    farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone, tmp_path: Path
) -> None:
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    with running_phone("old", tmp_path / "phone", f"--serial={flagship.serial}") as second:
        status, out, err = await agent.cli("phone", "connect", second.address)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"cannot add phone {flagship.serial}: it is reached as {flagship.address} of" in err
    assert second.address in err
    assert "start a second virtual phone with its own `--serial`" in err
    assert agent.phones.present.here[flagship.serial].serial == flagship.address


async def test_a_phone_of_another_host_is_one_clear_line(
    farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone, tmp_path: Path
) -> None:
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    async with serving(farm, tmp_path / "other", "host-2") as other:
        status, out, err = await other.cli("phone", "connect", flagship.address)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert (
            f"device {flagship.serial}: agent host-1 on host host-1 has it. Remove it there" in err
        )
        assert farm.online() == {flagship.serial: "host-1"}


async def test_without_adb_it_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, farm: LoopFarm, tmp_path: Path
) -> None:
    path = tmp_path / "empty"
    with monkeypatch.context() as missing:
        missing.setattr(server_module, "find_spec", lambda _: None)
        missing.setenv("PATH", str(path))
        async with serving(farm, tmp_path / "home", pauses=SHORT) as agent:
            status, out, err = await agent.cli("phone", "connect", "127.0.0.1:5555")
            assert (status, out, err.count("\n")) == (2, "", 1)
            assert err.startswith(
                "benchfarm: cannot find adb: the Python package adbutils is missing"
            )
            assert "pip install" in err
            assert (await agent.cli("phone", "virtual", "--profile", "old"))[2] == err
            missing.undo()
            await until(lambda: bool(agent.status().server), "adb has been installed")
    farm.store.close()


async def test_a_phone_that_waits_for_its_user_is_connected_again_after_a_restart_of_adb(
    farm: LoopFarm, agent: LoopAgent, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "nobody").write_text("")
    options = ("--serial=WAITING1", f"--authorized-keys={tmp_path / 'nobody'}")
    with running_phone("old", tmp_path / "phone", *options) as phone:

        async def refused() -> bool:
            return await state_of(agent.server, phone.address) == "unauthorized"

        async def asks() -> bool:
            return (await control.ask(phone.folder, control.GetStatus())).asking == 1

        with pytest.raises(RemoteFault, match=r"authenticate|unauthorized"):
            await agent.connect(phone.address)
        await until(lambda: "not taken in" in caplog.text, "the agent has seen it")
        await until(lambda: not agent.phones._tasks, "nothing more is done for it")
        await agent.phones._recovery.apply(Remedy.RESTART_ADB, "OTHER1", AsyncMock())
        await until(refused, "adb lists it as unauthorized")
        await until(asks, "the phone asks its user")
        await control.ask(phone.folder, control.AllowHost())
        await until(lambda: phone.serial in farm.online(), "taken in")


async def test_a_locked_phone_that_never_was_here_is_shown_first_with_what_to_do(
    farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone, tmp_path: Path
) -> None:
    nobody = tmp_path / "nobody"
    nobody.write_text("")
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    options = ("--serial=LOCKED1", f"--authorized-keys={nobody}")
    with running_phone("old", tmp_path / "phone", *options) as phone:
        status, _, err = await agent.cli("phone", "connect", phone.address)
        assert (status, err.count("\n")) == (2, 1)
        await until(complaint_about(agent, phone.address), "the agent tells of it")
        complaint = (
            f"cannot use phone {phone.address}: adb lists it as unauthorized; confirm this host's "
            "key on its screen, or give adb a known key. Confirm this host's key on its screen; it "
            "then joins by itself."
        )
        listed = json.loads((await agent.cli("phone", "list", "--json"))[1])
        assert [row["serial"] for row in listed] == [phone.address, flagship.address]
        status, _, err = await agent.cli("device", "list")
        assert (status, err) == (0, f"{NO_CLUSTER}benchfarm: {complaint}\n")
        await control.ask(phone.folder, control.AllowHost())
        await until(lambda: phone.serial in farm.online(), "it joins by itself")
        assert (await agent.cli("device", "list"))[2] == NO_CLUSTER
        assert (await agent.cli("phone", "disconnect", phone.serial))[0] == 0


async def test_a_key_that_was_confirmed_later_is_asked_for_by_a_new_connection(
    farm: LoopFarm, agent: LoopAgent, tmp_path: Path
) -> None:
    """The phone's user has dismissed the question, and says yes to the next one."""
    with running_phone("old", tmp_path / "phone", "--serial=LATE1") as phone:
        await asyncio.to_thread(phone.set_faults, faults.Unauthorized())
        assert (await agent.cli("phone", "connect", phone.address))[0] == 2
        phone_again = await agent.cli("phone", "connect", phone.address)
        assert phone_again[0] == 2, "as often as one likes"
        assert "confirm this host's key" in phone_again[2]
        await asyncio.to_thread(phone.set_faults)
        assert await agent.cli("phone", "connect", phone.address) == (
            0,
            f"LATE1 has joined by {phone.address}; see: benchfarm device list\n",
            "",
        )
        assert "LATE1" in farm.online()


async def test_a_phone_that_restarted_is_connected_again(
    farm: LoopFarm, quick_agent: LoopAgent, tmp_path: Path
) -> None:
    agent, phones = quick_agent, quick_agent.phones
    with running_phone("old", tmp_path / "first", "--serial=BOOT1") as phone:
        assert (await agent.cli("phone", "connect", phone.address))[0] == 0
    restarted = phones._recovery._restarted  # once for a phone that stays away
    await until(lambda: restarted and not phones.present._losing, "adb has been restarted")
    status, _, err = await agent.cli("phone", "connect", phone.address)
    assert (status, err.count("\n")) == (2, 1)
    assert "Check that the phone listens there" in err, err
    again = (f"--port={phone.port}", "--serial=BOOT1")
    with running_phone("old", tmp_path / "second", *again):
        status, out, err = await agent.cli("phone", "connect", phone.address)
        assert (status, err) == (0, "")
        assert out.startswith("BOOT1 has joined")
        assert "BOOT1" in farm.online()


async def test_a_phone_that_has_fallen_silent_is_connected_anew(
    farm: LoopFarm, quick_agent: LoopAgent, flagship: RunningPhone
) -> None:
    """adb goes on listing it as well: nothing but a new connection helps, and adb's own lasts."""
    agent = quick_agent
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    phone = agent.phones.present.here[flagship.serial]
    cut = faults.Disconnect(command="cut me", silent=True)
    await asyncio.to_thread(flagship.set_faults, cut)
    with pytest.raises(RemoteFault):
        await phone.remote.run(("sh", "-c", "echo cut me"), 2.0)
    assert await state_of(agent.server, flagship.address) == "device"
    await agent.phones.suspect(phone.device)
    assert flagship.serial not in farm.online()
    await until(lambda: flagship.serial in farm.online(), "it is there again")
    assert not agent.phones._recovery._restarted, "other phones have not been disturbed"


async def test_a_phone_over_tcp_is_remembered_until_it_is_let_go_of(
    farm: LoopFarm, tmp_path: Path, flagship: RunningPhone
) -> None:
    home = tmp_path / "home"
    async with serving(farm, home) as agent:
        assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    async with serving(farm, home) as agent:
        present = agent.phones.present
        await until(lambda: flagship.serial in present.here, "it is back by itself")
        status, out, _ = await agent.cli("phone", "disconnect", flagship.serial)
        assert (status, out) == (0, f"{flagship.address}: disconnected\n")
        assert present.here == {}
        assert not agent.phones._tasks, "it is not looked for"
        assert await state_of(agent.server, flagship.address) is None
    async with serving(farm, home) as agent:
        assert not agent.phones._tasks
        status, _, err = await agent.cli("phone", "disconnect", flagship.address)
        assert (status, err.count("\n")) == (2, 1)
        assert f"cannot disconnect phone {flagship.address}: it is not here" in err
        assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    farm.store.close()


async def test_a_remembered_phone_that_is_away_is_told_until_it_is_let_go_of(
    farm: LoopFarm, tmp_path: Path
) -> None:
    home, away = Home(tmp_path / "home"), "127.0.0.1:1"
    PhoneAddresses(home.agent / "host-1" / ADB_FOLDER / FOLDER).remember(away, "AWAY1")
    async with serving(farm, home.path, pauses=SHORT) as agent:
        await until(complaint_about(agent, away), "it is told")
        assert (await agent.cli("phone", "disconnect", away))[0] == 0
        await until(lambda: not agent.phones._tasks, "it is looked for no more")
        await until(lambda: away not in agent.status().routes, "it is told no more")
    farm.store.close()


async def test_cleaning_a_phone_removes_all_and_tells_how_much(
    agent: LoopAgent, flagship: RunningPhone, tmp_path: Path
) -> None:
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    remote = agent.phones.remote_of(builders.phone(flagship.serial))
    tree = Tree.of(make_folder(tmp_path / "tree", 5_000_000), tmp_path / "archives")
    await remote.push_tree(tree)
    assert await agent.cli("phone", "clean", flagship.serial) == (
        0,
        f"{flagship.serial}: 5.0 MB freed\n",
        "",
    )
    assert (await remote.run(("ls", "-A", str(remote.folder.parent)), 10.0)).stdout == b""
    assert (await remote.push_tree(tree)).pushed_bytes == tree.archive_bytes
    use = agent.folder / ADB_FOLDER / USES_FOLDER / flagship.serial  # as a run has it
    async with exclusive(use):
        status, out, err = await agent.cli("phone", "clean", flagship.serial)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert (
        f"cannot clean phone {flagship.serial}: a run or a probe uses it. Wait until it ends" in err
    )
    status, out, err = await agent.cli("phone", "clean", "NOBODY")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert (
        "cannot clean phone NOBODY: it is not here. Run `benchfarm phone list` to see those" in err
    )


async def test_the_doctor_says_what_is_to_be_mended_first(
    agent: LoopAgent, flagship: RunningPhone
) -> None:
    assert (await agent.cli("phone", "connect", flagship.address))[0] == 0
    empty = {"battery_percent": 12.9, "charging": False}  # rounded down
    await control.ask(flagship.folder, control.SetConditions.model_validate(empty))
    doctor = ("phone", "doctor", flagship.serial)
    status, out, err = await agent.cli(*doctor, "--policy", "lab", "--json")
    assert (status, err) == (1, "")
    first, *others = json.loads(out)
    assert first["what"] == "policy lab"
    assert first["seen"].startswith("battery at 12 % is below 20 %")
    assert first["remedy"] == "Charge it."
    assert {check["what"] for check in others} >= {
        *("key", "mode", "developer options", "connection", "storage and programs", "Android"),
    }
    status, out, _ = await agent.cli(*doctor, "--policy", "ci")
    assert status == 0
    assert "4 MiB written and read, a program run" in " ".join(out.split())
    use = agent.folder / ADB_FOLDER / USES_FOLDER / flagship.serial  # as a run has it
    async with exclusive(use):
        status, out, err = await agent.cli(*doctor)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"cannot examine phone {flagship.serial}: a run or a probe uses it" in err
    status, out, err = await agent.cli("phone", "doctor", "NOBODY")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert (
        "cannot examine phone NOBODY: it is not here. Run `benchfarm phone list` to see those"
        in err
    )


async def test_what_the_doctor_sets_is_put_back(
    farm: LoopFarm, agent: LoopAgent, flagship: RunningPhone
) -> None:
    await agent.connect(flagship.address)
    await until(lambda: flagship.serial in farm.online(), "taken in")
    remote = agent.phones.remote_of(builders.phone(flagship.serial))
    usual = {
        "global airplane_mode_on": "0",
        "global airplane_mode_radios": "cell,bluetooth,wifi",
        "global low_power": "1",
        "system screen_brightness": "200",
        "global stay_on_while_plugged_in": None,
    }

    async def said() -> dict[str, str | None]:
        found = {key: await remote.run(("settings", "get", *key.split()), 10.0) for key in usual}
        texts = {key: done.stdout.decode().strip() for key, done in found.items()}
        return {key: None if text == "null" else text for key, text in texts.items()}

    for key, value in usual.items():
        verb, more = ("delete", ()) if value is None else ("put", (value,))
        await remote.run(("settings", verb, *key.split(), *more), 10.0)
    doctor = ("phone", "doctor", flagship.serial)
    status, out, err = await agent.cli(*doctor, "--set", "--yes", "--json")
    assert (status, err) == (1, ""), "it is charging"
    checks = {check["what"]: check for check in json.loads(out)}
    assert checks["global/airplane_mode_on"]["seen"] == "1, was 0"
    assert checks["global/stay_on_while_plugged_in"]["seen"] == "7, was not set"
    assert "phone restore" in checks["set"]["remedy"]
    assert await said() == {
        "global airplane_mode_on": "1",
        "global airplane_mode_radios": "cell,bluetooth",
        "global low_power": "0",
        "system screen_brightness": "1",
        "global stay_on_while_plugged_in": "7",
    }
    await remote.run(("settings", "put", "system", "screen_brightness", "90"), 10.0)  # its user
    status, out, err = await agent.cli("phone", "restore", flagship.serial)
    assert (status, err) == (0, "")
    assert "left at 90: changed since it was set to 1" in " ".join(out.split())
    assert await said() == usual | {"system screen_brightness": "90"}
    airplane = AirplaneMode(
        Unanswering(remote), remote.folder, networked=True, settle_s=0.0, guard_s=1
    )
    with pytest.raises(RemoteFault, match="cut it off; it turns that off by itself in 1 s"):
        await airplane.turn(on=True)

    async def ended() -> bool:
        return (await said())["global airplane_mode_on"] == "0"

    await until(ended, "the phone has turned airplane mode off by itself")


async def test_a_phone_outside_android_is_shown_with_the_way_out(
    told: asyncio.Queue[Change], agent: LoopAgent
) -> None:
    for state, way_out in (("recovery", "Restart it into Android"), ("no permissions", "plugdev")):
        told.put_nowait(Change(state, state))
        await until(complaint_about(agent, state), "shown")
        complaint = agent.status().routes[state].complaint
        assert complaint
        assert way_out in complaint.remedy


async def phone_processes(phone: RunningPhone) -> int:
    return (await asyncio.to_thread(phone.status)).processes


async def test_a_phone_is_taken_in_once_its_host_can_lock_it(
    farm: LoopFarm, quick_agent: LoopAgent, flagship: RunningPhone
) -> None:
    """The attempt ended for good, without a word: no phone until it was connected anew."""
    uses = quick_agent.folder / ADB_FOLDER / USES_FOLDER
    uses.write_text("in the way")
    await quick_agent.connect(flagship.address)
    await until(complaint_about(quick_agent, flagship.address), "the agent tells of it")
    complaint = quick_agent.status().routes[flagship.address].complaint
    assert complaint
    assert complaint.seen.startswith("this host can't lock it: ")
    assert str(uses) in complaint.seen
    assert "it is then tried again by itself" in complaint.remedy
    assert flagship.serial not in farm.online()
    uses.unlink()
    await until(lambda: flagship.serial in farm.online(), "taken in")
    assert quick_agent.status().routes[flagship.address].complaint is None
