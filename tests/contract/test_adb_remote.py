"""A phone's own troubles, as its Remote tells and survives them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from agents.remotes.adb.connections import disconnect, state_of
from agents.remotes.adb.facts import read_device
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import RUNS, FaultKind, RemoteFault, failure_of
from agents.remotes.self_test import examine
from agents.remotes.tree import Tree, listing_of_folder
from agents.virtual_phone import faults
from controller.contracts.device import DeviceKind
from controller.contracts.result import Blame
from tests.support.remotes import OWNER, Heard, Phone, make_folder
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration
MANY = "sleep 1000 & sleep 1000 & echo begun; wait"


async def begin(phone: Phone) -> asyncio.Task[object]:
    """Start a program that goes on for ever."""
    heard = Heard()
    stream = asyncio.create_task(phone.remote.stream(("sh", "-c", MANY), 60, heard.take))
    await heard.until(b"begun")
    return stream


async def fault_of(work: asyncio.Task[object]) -> FaultKind:
    with pytest.raises(RemoteFault) as caught:
        await work
    assert caught.value.blame is Blame.DEVICE
    assert failure_of(caught.value).kind == caught.value.kind
    return caught.value.kind


async def kind_of_run(phone: Phone, deadline_s: float = PATIENCE_S) -> FaultKind:
    return await fault_of(asyncio.create_task(phone.remote.run(("true",), deadline_s)))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree.of(make_folder(tmp_path / "tree", 5 << 20), tmp_path / "archives")


async def test_an_offline_phone_is_told(phone: Phone) -> None:
    await phone.set_faults(faults.Offline())
    assert await kind_of_run(phone) is FaultKind.OFFLINE


async def test_a_phone_that_is_back_is_recovered(phone: Phone) -> None:
    await phone.set_faults(faults.Offline())
    assert await kind_of_run(phone) is FaultKind.OFFLINE
    await phone.set_faults()
    assert (await phone.remote.run(("echo", "back"), PATIENCE_S)).stdout == b"back\n"


async def test_an_unauthorized_phone_is_told(phone: Phone) -> None:
    await phone.set_faults(faults.Unauthorized())
    await phone.until_cut()
    assert await kind_of_run(phone) is FaultKind.UNAUTHORIZED


async def test_a_serial_nobody_has(phone: Phone) -> None:
    nobody = AdbRemote.of(replace(phone.remote.link, serial="NOBODY"), OWNER)
    with pytest.raises(RemoteFault, match="not attached") as caught:
        await nobody.run(("true",), 60)
    assert caught.value.kind is FaultKind.OFFLINE


async def test_a_hung_phone_is_told_after_the_deadline(phone: Phone) -> None:
    await phone.set_faults(faults.Hang())
    assert await kind_of_run(phone, 0.3) is FaultKind.HUNG


async def test_what_a_hung_phone_ran_is_ended_once_it_answers(phone: Phone) -> None:
    heard = Heard()
    stream = asyncio.create_task(phone.remote.stream(("sh", "-c", MANY), 1.0, heard.take))
    await heard.until(b"begun")
    await phone.set_faults(faults.Hang())
    assert await fault_of(stream) is FaultKind.HUNG
    assert await phone.processes() >= 3, "the virtual phone's commands go on"
    await phone.set_faults()
    assert (await phone.remote.run(("echo", "back"), PATIENCE_S)).stdout == b"back\n"
    await phone.place.until_quiet()


async def test_cancelled_while_it_hangs_and_cleaned_later(phone: Phone) -> None:
    stream = await begin(phone)
    await phone.set_faults(faults.Hang())
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stream
    assert await phone.processes() >= 3
    await phone.set_faults()
    await phone.remote.clean()
    await phone.place.until_quiet()


async def test_what_another_host_runs_is_ended_and_ours_goes_on(phone: Phone) -> None:
    await phone.set_faults()
    heard = Heard()
    other = AdbRemote.of(phone.remote.link, "another host")
    ours = await begin(phone)
    theirs = asyncio.create_task(other.stream(("sh", "-c", MANY), 60, heard.take))
    await heard.until(b"begun")
    assert await phone.remote.programs.end_others() >= 3
    await asyncio.wait({theirs}, timeout=PATIENCE_S)
    assert theirs.done(), "though its link is well"
    assert await phone.remote.programs.end_others() == 0
    assert not ours.done()
    assert (await phone.processes()) >= 3
    ours.cancel()
    await asyncio.gather(ours, theirs, return_exceptions=True)


async def test_what_measures_does_not_begin_beside_another_host_s_run(phone: Phone) -> None:
    heard = Heard()
    other = AdbRemote.of(phone.remote.link, "another host")
    settings = str(phone.remote.folder / RUNS / "theirs-1" / "performance.json")
    argv = ("sh", "-c", MANY, "run", settings)
    theirs = asyncio.create_task(other.stream(argv, 60, heard.take))
    await heard.until(b"begun")
    ours = asyncio.create_task(phone.remote.stream(("echo", "ours"), PATIENCE_S, heard.take))
    assert await fault_of(ours) is FaultKind.OFFLINE
    theirs.cancel()
    await asyncio.gather(theirs, return_exceptions=True)
    await phone.remote.stream(("echo", "ours"), PATIENCE_S, heard.take)
    assert heard.lines == [b"begun", b"ours"]


async def test_what_another_host_s_run_needs_is_kept_until_it_has_ended(phone: Phone) -> None:
    heard = Heard()
    other = AdbRemote.of(phone.remote.link, "another host")
    folder = str(phone.remote.folder / RUNS / "theirs-1")
    await other.run(("mkdir", "-p", folder), PATIENCE_S)
    theirs = asyncio.create_task(other.stream(("sh", "-c", MANY), 60, heard.take))
    await heard.until(b"begun")
    await phone.remote.clean()
    assert (await other.run(("ls", folder), PATIENCE_S)).exit_code == 0
    assert not theirs.done()
    theirs.cancel()
    await asyncio.gather(theirs, return_exceptions=True)
    await phone.remote.clean()
    assert (await other.run(("ls", folder), PATIENCE_S)).exit_code != 0


async def test_the_link_breaks_mid_stream(phone: Phone) -> None:
    stream = await begin(phone)
    await phone.set_faults(faults.Offline())
    assert await fault_of(stream) is FaultKind.OFFLINE
    await phone.set_faults()
    await phone.remote.clean()
    await phone.place.until_quiet()
    assert (await phone.remote.run(("echo", "back"), PATIENCE_S)).stdout == b"back\n"


async def test_the_link_breaks_for_a_moment_mid_stream(phone: Phone) -> None:
    await phone.set_faults(faults.Disconnect(shell_output=True))
    stream = asyncio.create_task(phone.remote.stream(("sh", "-c", MANY), 60, Heard().take))
    assert await fault_of(stream) is FaultKind.OFFLINE
    assert (await phone.remote.run(("echo", "back"), PATIENCE_S)).stdout == b"back\n"
    await phone.place.until_quiet()


async def test_a_daemon_that_restarts_takes_its_programs_along_and_is_reached_again(
    phone: Phone,
) -> None:
    await phone.set_faults(faults.Disconnect(command="sleep 1000", away_s=1.5))
    stream = phone.remote.stream(("sh", "-c", MANY), 60, Heard().take)
    assert await fault_of(asyncio.ensure_future(stream)) is FaultKind.OFFLINE

    async def answers() -> bool:
        try:
            return (await phone.remote.run(("echo", "back"), PATIENCE_S)).stdout == b"back\n"
        except RemoteFault:
            return False

    await until(answers, "it is back")
    await phone.place.until_quiet()


async def test_a_link_that_is_cut_in_silence_is_told_after_the_deadline(phone: Phone) -> None:
    """adb goes on listing it as well; its program goes on until it is reached anew."""
    await phone.set_faults(faults.Disconnect(command="sleep 1000", silent=True))
    stream = phone.remote.stream(("sh", "-c", MANY), 2, Heard().take)
    assert await fault_of(asyncio.ensure_future(stream)) is FaultKind.HUNG
    assert await state_of(phone.server, phone.running.address) == "device"
    assert await phone.processes() > 0
    await disconnect(phone.server, phone.running.address)
    assert (await phone.remote.run(("echo", "back"), PATIENCE_S)).stdout == b"back\n"
    await phone.place.until_quiet()


async def test_the_link_breaks_mid_push(phone: Phone, tree: Tree) -> None:
    await phone.set_faults(faults.Disconnect(after_bytes=2 << 20))
    assert await fault_of(asyncio.create_task(phone.remote.push_tree(tree))) is FaultKind.OFFLINE
    pushed = await phone.remote.push_tree(tree)
    assert pushed.pushed_bytes == tree.archive_bytes
    left = await phone.remote.run(("ls", "-A", str(phone.remote.folder)), PATIENCE_S)
    assert left.stdout.decode().split() == [tree.digest]


async def test_the_link_breaks_mid_pull(phone: Phone, tree: Tree, tmp_path: Path) -> None:
    path = (await phone.remote.push_tree(tree)).path / "data.bin"
    await phone.set_faults(faults.Disconnect(after_bytes=2 << 20))
    pull = asyncio.create_task(phone.remote.pull(path, tmp_path / "back"))
    assert await fault_of(pull) is FaultKind.OFFLINE
    assert list(tmp_path.glob("*back*")) == []
    await phone.remote.pull(path, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "tree" / "data.bin").read_bytes()


async def test_a_push_that_hangs(phone: Phone, tree: Tree) -> None:
    await phone.set_faults(faults.Slow(bytes_per_s=3_000_000))
    before = await phone.free_bytes()
    push = asyncio.create_task(phone.remote.push_tree(tree))
    while await phone.free_bytes() > before - (1 << 20):
        assert not push.done()
    await phone.set_faults(faults.Hang())
    assert await fault_of(push) is FaultKind.HUNG
    await phone.set_faults()
    assert (await phone.remote.push_tree(tree)).pushed_bytes == tree.archive_bytes


async def test_a_slow_link_is_no_fault(phone: Phone, tree: Tree) -> None:
    await phone.set_faults(faults.Slow(bytes_per_s=4_000_000))
    # All that is on its way when the last byte is sent takes its time, too.
    remote = AdbRemote.of(replace(phone.remote.link, patience_s=PATIENCE_S), OWNER)
    assert (await remote.push_tree(tree)).pushed_bytes == tree.archive_bytes


@pytest.mark.parametrize("free_bytes", [0, 1 << 20, 15 << 20])
async def test_a_full_storage_is_told(phone: Phone, tree: Tree, free_bytes: int) -> None:
    await phone.set_faults(faults.FullStorage(free_bytes=free_bytes))
    push = asyncio.create_task(phone.remote.push_tree(tree))
    assert await fault_of(push) is FaultKind.STORAGE_FULL
    await phone.set_faults()
    assert (await phone.remote.push_tree(tree)).pushed_bytes == tree.archive_bytes


async def test_few_files_need_no_room_for_their_archive(phone: Phone, tmp_path: Path) -> None:
    """A data set may take most of a storage; what has a program comes as an archive."""
    folder = make_folder(tmp_path / "tree", 20 << 20)
    plain = tmp_path / "plain"
    plain.mkdir()
    (folder / "data.bin").rename(plain / "data.bin")
    (plain / "empty").touch()
    tree = Tree.of(plain, tmp_path / "archives")
    await phone.set_faults(faults.FullStorage(free_bytes=38 << 20))
    pushed = await phone.remote.push_tree(tree)
    assert pushed.pushed_bytes == 20 << 20
    assert (await phone.remote.push_tree(tree)).pushed_bytes == 0
    await phone.remote.pull(pushed.path, tmp_path / "back")
    assert listing_of_folder(tmp_path / "back") == tree.listing
    (plain / "data.bin").chmod(0o755)
    push = asyncio.create_task(phone.remote.push_tree(Tree.of(plain, tmp_path / "archives")))
    assert await fault_of(push) is FaultKind.STORAGE_FULL


async def test_a_storage_that_fills_up_while_it_is_written(phone: Phone, tmp_path: Path) -> None:
    await phone.set_faults(faults.FullStorage(free_bytes=1 << 20))
    source = make_folder(tmp_path / "tree", 5 << 20) / "data.bin"
    target = phone.remote.folder / "data.bin"
    with source.open("rb") as file, pytest.raises(RemoteFault) as caught:
        async with phone.remote.link.sync() as sync:
            await sync.send(file, target)
    assert caught.value.kind is FaultKind.STORAGE_FULL
    assert (await phone.remote.run(("ls", str(target)), PATIENCE_S)).exit_code


async def test_a_read_only_storage_is_told(phone: Phone, tree: Tree) -> None:
    await phone.set_faults(faults.ReadOnly())
    push = asyncio.create_task(phone.remote.push_tree(tree))
    assert await fault_of(push) is FaultKind.READ_ONLY
    assert (await phone.remote.run(("echo", "it"), PATIENCE_S)).stdout == b"it\n"


async def test_a_storage_on_which_nothing_is_executed_is_told(phone: Phone, tree: Tree) -> None:
    await phone.set_faults(faults.NoExec())
    with pytest.raises(RemoteFault, match="is it mounted noexec") as caught:
        await phone.remote.push_tree(tree)
    assert (caught.value.kind, caught.value.blame) == (FaultKind.NO_EXEC, Blame.DEVICE)
    with pytest.raises(
        RemoteFault, match=r"cannot write and run a program: .*[Pp]ermission denied"
    ):
        await examine(phone.remote, phone.remote.folder, "here")
    await phone.set_faults()
    await phone.remote.push_tree(tree)


@pytest.mark.parametrize("fault", [faults.ReadOnly(), faults.FullStorage()])
async def test_cleaning_tells_that_a_phone_takes_no_files(
    phone: Phone, fault: faults.ReadOnly | faults.FullStorage
) -> None:
    await phone.set_faults(fault)
    kind = await fault_of(asyncio.create_task(phone.remote.clean()))
    read_only = isinstance(fault, faults.ReadOnly)
    assert kind is (FaultKind.READ_ONLY if read_only else FaultKind.STORAGE_FULL)
    await phone.set_faults()
    await phone.remote.clean()


async def test_where_nothing_may_be_written(phone: Phone, tree: Tree) -> None:
    elsewhere = AdbRemote.of(phone.remote.link, OWNER, PurePosixPath("/proc/benchfarm"))
    with pytest.raises(RemoteFault) as caught:
        await elsewhere.push_tree(tree)
    assert caught.value.blame in (Blame.DEVICE, Blame.WORKLOAD)


async def test_free_storage(phone: Phone) -> None:
    await phone.set_faults(faults.FullStorage(free_bytes=10 << 20))
    assert await phone.remote.free_bytes() == pytest.approx(10 << 20, abs=64 << 10)


async def test_a_command_that_is_too_long(phone: Phone) -> None:
    with pytest.raises(RemoteFault) as caught:
        await phone.remote.run(("true", "x" * 100_000), PATIENCE_S)
    assert caught.value.kind is (FaultKind.UNSUPPORTED if phone.old else FaultKind.PROTOCOL)
    assert (await phone.remote.run(("true", "x" * 3000), PATIENCE_S)).exit_code == 0


async def test_what_the_phone_is(phone: Phone) -> None:
    shell_v2 = await phone.remote.link.has_shell_v2()
    device = await read_device(phone.remote, phone.running.serial, shell_v2=shell_v2)
    assert (device.id, device.kind) == (phone.running.serial, DeviceKind.ANDROID)
    assert device.virtual
    assert device.facts["shell_v2"] is not phone.old
    assert device.facts["android"] == (5.1 if phone.old else 15.0)
    assert device.facts["sdk"] == (22 if phone.old else 35)
    assert device.facts["manufacturer"] == "Benchfarm"
    assert device.facts["cores"] == 1
    assert device.host_cores == frozenset({min(os.sched_getaffinity(0))})
    assert int(str(device.facts["memory_bytes"])) > 1 << 28


async def test_a_script_that_names_bin_sh_starts_by_a_shell_only_where_there_is_no_bin(
    phone: Phone, tree: Tree
) -> None:
    """Android has a /bin since 10; the profile `old` is 5."""
    script = str((await phone.remote.push_tree(tree)).path / "bin" / "hello")
    by_itself = await phone.remote.run((script,), PATIENCE_S)
    assert by_itself.exit_code == (127 if phone.old else 0)
    assert (await phone.remote.run(("sh", script), PATIENCE_S)).stdout == b"hello\n"
