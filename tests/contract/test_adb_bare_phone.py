"""What the client asks of a phone that has toybox's programs alone, no dumpsys and no settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agents.phones.condition_reading import read_conditions
from agents.remotes.adb.facts import read_device
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.adb.server import PrivateServer
from agents.remotes.remote import RUNS, RemoteFault
from agents.remotes.self_test import examine
from agents.remotes.tree import Tree
from tests.support.phone_farm import impatient
from tests.support.remotes import OWNER, Phone, make_folder
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("bare", tmp_path_factory.mktemp("bare")) as phone:
        yield phone


@pytest.fixture
async def bare(running: RunningPhone, adb_server: PrivateServer) -> AsyncIterator[Phone]:
    remote = AdbRemote.of(impatient(adb_server.address, running.address), OWNER)
    phone = Phone(running, adb_server.address, remote, old=False)
    await phone.reset()
    yield phone
    await phone.reset()


@pytest.mark.parametrize("program", ["dumpsys", "settings", "cmd", "python3", "perl", "awk"])
async def test_it_lacks_much(bare: Phone, program: str) -> None:
    done = await bare.remote.run(("sh", "-c", f"command -v {program}"), PATIENCE_S)
    assert (done.exit_code != 0, done.stdout) == (True, b"")
    assert (await bare.remote.run((program,), PATIENCE_S)).exit_code == 127


async def test_it_has_no_programs_but_androids(bare: Phone) -> None:
    there = await bare.remote.run(("ls", "-d", "/bin", "/usr/bin", "/system/bin"), PATIENCE_S)
    assert there.stdout.split() == [b"/system/bin"]


async def test_it_can_be_described(bare: Phone) -> None:
    device = await read_device(bare.remote, bare.running.serial, shell_v2=True)
    assert (device.id, device.facts["android"], device.facts["sdk"]) == ("VIRTUALBARE1", 8.1, 27)
    assert device.facts["memory_bytes"]


async def test_what_it_does_not_tell_of_its_condition_is_left_out(bare: Phone) -> None:
    facts = await read_conditions(bare.remote)
    assert facts.keys() >= {"load", "memory_available_kb", "battery_current_ua", "governor"}
    untold = {"battery_percent", "thermal_status", "airplane_mode", "screen_brightness", "screen"}
    assert not facts.keys() & untold


async def test_trees_are_pushed_known_again_run_and_removed(bare: Phone, tmp_path: Path) -> None:
    remote = bare.remote
    tree = Tree.of(make_folder(tmp_path / "tree", 1 << 20), tmp_path / "archives")
    pushed = await remote.push_tree(tree)
    assert pushed.pushed_bytes > 1 << 20
    assert (await remote.push_tree(tree)).pushed_bytes == 0
    hello = await remote.run(("sh", str(pushed.path / "bin" / "hello")), PATIENCE_S)
    assert hello.stdout == b"hello\n"
    assert await remote.free_bytes() == pytest.approx(await bare.free_bytes(), abs=1 << 20)
    await remote.require_alone()
    await remote.clean()
    assert await remote.remove_all() > 1 << 20
    assert (await remote.run(("ls", str(remote.folder)), PATIENCE_S)).exit_code


async def test_a_probe_finds_it_well(bare: Phone) -> None:
    remote = bare.remote
    assert "a program run" in await examine(remote, remote.folder, bare.running.serial)
    listed = await remote.run(("ls", "-A", str(remote.folder / RUNS)), PATIENCE_S)
    assert (listed.exit_code, listed.stdout) == (0, b"")


async def test_what_is_killed_leaves_nothing(bare: Phone) -> None:
    with pytest.raises(RemoteFault, match="had not ended after 1 s"):
        await bare.remote.run(("sh", "-c", "sleep 1000 & sleep 1000"), 1.0)
    await bare.place.until_quiet()
