"""Who holds a virtual phone's key gets at nothing of its owner, and nobody else gets in."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import adbutils
import psutil
import pytest

from agents.virtual_phone import wire
from agents.virtual_phone.daemon import MAX_STRANGERS
from agents.virtual_phone.wire import Command, Message, encode
from controller.platform.programs import python_module
from tests.support.other_user import OTHER_UID, call_as_other_user, needs_other_user
from tests.support.phone_of_other_owner import KEY, WAYS
from tests.support.processes import idle_process
from tests.support.virtual_phone import (
    PHONE,
    ROOT,
    Adb,
    RunningPhone,
    adb_server,
    public_key,
    running_phone,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, needs_other_user]
TMP = "/data/local/tmp"
TOKEN = "a-token-of-the-owner"
OWN = {"benchfarm", "bin", "data", "dev", "etc", "proc", "sdcard", "sys", "system", "usr"}
LIBRARIES = {"lib", "lib32", "lib64", "libx32"}


@dataclass(frozen=True, slots=True)
class Owned:
    """A phone, an adb server that has its key, and what its owner would keep to himself."""

    way: str
    phone: RunningPhone
    adb: Adb
    secret: Path
    """A file that everybody of the host could read."""
    victim: int
    """A process of the phone's own id on the host, as far as there are any."""

    def said(self, command: str) -> str:
        done = self.adb("shell", command, check=False)
        return (done.stdout + done.stderr).decode(errors="replace")

    def received(self, path: str) -> bytes:
        """Return what the sync service sends of a file; b"" if it refuses."""
        try:
            return bytes(_device(self).sync.read_bytes(path))
        except adbutils.AdbError:
            return b""

    def processes(self) -> Sequence[psutil.Process]:
        return psutil.Process(self.phone.pid).children(recursive=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adb]:
    with adb_server(tmp_path_factory.mktemp("adb") / "home") as adb:
        yield adb


@pytest.fixture(scope="module", params=WAYS)
def owned(
    request: pytest.FixtureRequest, server: Adb, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Owned]:
    way = str(request.param)
    # Not below pytest's own folder, which another owner could not enter.
    place = Path(tempfile.mkdtemp(prefix="owner-"))
    secret = place / "secret"
    secret.write_text(TOKEN)
    owner = OTHER_UID if way == "unprivileged" else 0
    for path in (place, secret):
        os.chown(path, owner, owner)
    (place / "phone").mkdir()
    os.chown(place / "phone", owner, owner)
    key = public_key(server, tmp_path_factory.mktemp("key"))
    command = python_module("tests.support.phone_of_other_owner", way, "--until-stdin-closes")
    environment = {"PYTHONPATH": str(ROOT), "A_TOKEN": TOKEN}
    options = (f"--authorized-keys={key}", f"--serial={way.upper()}")
    try:
        with ExitStack() as stack:
            victim = stack.enter_context(
                subprocess.Popen(["sleep", "1000"], user=owner, group=owner, extra_groups=[])
            )
            stack.callback(victim.kill)
            phone = stack.enter_context(
                running_phone(
                    "old" if way == "root" else "midrange",
                    place / "phone",
                    *options,
                    command=command,
                    environment=environment,
                )
            )
            adb = server.connect(phone.address)
            yield Owned(way, phone, adb, secret, victim.pid)
            server("disconnect", phone.address)
            assert victim.poll() is None
    finally:
        shutil.rmtree(place)


def test_the_tree_is_the_phones_and_the_systems_programs(owned: Owned, tmp_path: Path) -> None:
    seen = set(owned.said("ls /").split())
    own = OWN - {"bin"} if owned.way == "root" else OWN  # the profile there is Android 5
    assert own <= seen <= own | LIBRARIES
    assert set(owned.said("ls /usr").split()) <= {"bin", *LIBRARIES}
    etc = set(owned.said("ls /etc").split())
    assert etc <= {"alternatives", "group", "ld.so.cache", "passwd"}
    assert TOKEN in owned.secret.read_text()
    files = [owned.secret, owned.phone.folder, "/etc/shadow", "/etc/hostname", "/root", "/home"]
    python = Path(os.__file__).parent
    if not python.is_relative_to("/usr/lib"):  # Debian's own is among the system's libraries
        files.append(python)
    for path in (*files, "/var", "/run", "/tmp", "/opt", "/mnt", ROOT):
        assert "No such file" in owned.said(f"ls -d {path}"), path
        assert owned.adb("pull", str(path), str(tmp_path), check=False).returncode, path
    assert list(tmp_path.iterdir()) == []


def test_no_process_or_link_leads_to_the_owners_files(owned: Owned) -> None:
    held = (f"fd/{number}" for number in _descriptors(owned))
    roots = ["root", "cwd", "root/proc/1/root", "task/1/root", *held]
    for process in ("self", "thread-self", "1", *_daemons(owned)):
        below = [f"/proc/{process}/{root}" for root in roots]
        paths = [f"{b}{up}{owned.secret}" for b in below for up in ("", f"/{'../' * 12}")]
        assert TOKEN not in owned.said(f"cat {' '.join(paths)}")
    for process in ("self", "1", *_daemons(owned)):  # as the daemon, which the sync service is in
        for path in ("environ", "mem", "cmdline", *roots):
            for tail in ("", str(owned.secret), f"/{'../' * 12}{owned.secret}"):
                content = owned.received(f"/proc/{process}/{path}{tail}")
                assert TOKEN.encode() not in content, path
                assert str(owned.phone.folder).encode() not in content, path


def test_no_descriptor_of_the_daemon_can_be_opened(owned: Owned, tmp_path: Path) -> None:
    log = owned.phone.folder / "phone.log"
    planted = tmp_path / "planted"
    planted.write_text("planted")
    for number in _descriptors(owned):
        owned.adb("push", str(planted), f"/proc/self/fd/{number}", check=False)
        owned.adb("push", str(planted), f"/proc/1/fd/{number}", check=False)
    assert "planted" not in log.read_text()
    own = owned.said("sh -c 'ls -l /proc/$$/fd'")
    assert str(owned.phone.folder) not in own
    assert "socket:" not in own


def test_links_in_the_storage_lead_nowhere_else(owned: Owned, tmp_path: Path) -> None:
    owned.said(f"ln -s / {TMP}/all; ln -s {owned.secret} {TMP}/one; ln -s /proc/1/root {TMP}/first")
    for path in (
        f"all{owned.secret}",
        "one",
        f"first{owned.secret}",
        f"all/../../..{owned.secret}",
    ):
        assert owned.received(f"{TMP}/{path}") == b"", path
    new = tmp_path / "new"
    new.write_text("written from the phone")
    for path in (f"all{owned.secret}", f"first{owned.secret}", f"all{owned.secret.parent}/planted"):
        owned.adb("push", str(new), f"{TMP}/{path}", check=False)
    _device(owned).sync.push(new, f"{TMP}/one")  # onto the link, whose place the file takes
    assert owned.received(f"{TMP}/one") == new.read_bytes()
    assert owned.secret.read_text() == TOKEN
    assert sorted(p.name for p in owned.secret.parent.iterdir()) == ["phone", "secret"]
    assert "cross-device" in owned.said(f"ln /usr/bin/env {TMP}/hard").lower()
    owned.said(f"rm -r {TMP}/*")


def test_nothing_can_be_written_but_storage_and_own_places(owned: Owned) -> None:
    found = owned.said(
        "find / -path /proc -prune -o -writable ! -type l -print 2>/dev/null"
    ).split()
    places = (TMP, "/data/app", "/sdcard", "/benchfarm", "/dev", "/sys")
    writable = [p for p in found if not p.startswith(places) and not p.startswith(("/bin", "/lib"))]
    assert writable == []
    devices = {p.name for p in map(Path, owned.said("ls /dev").split())}
    nodes = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
    assert devices == nodes | {"pts", "shm", "fd", "stdin", "stdout", "stderr"}
    kernel = owned.said("find /proc/sys /proc/sysrq-trigger -writable -type f 2>/dev/null").split()
    assert set(kernel) <= {"/proc/sys/kernel/ns_last_pid"}  # of its own namespace
    assert "OK" not in owned.said("(echo 9 >/proc/sys/kernel/ns_last_pid) 2>/dev/null && echo OK")
    for path in ("/usr/bin/x", "/bin/x", "/etc/x", "/x", "/dev/x", "/proc/x", "/usr/lib/x"):
        assert "OK" not in owned.said(f"(echo x >{path}) 2>/dev/null && echo OK"), path
    assert "OK" not in owned.said("chmod 777 /dev/null 2>/dev/null && echo OK")


def test_commands_have_no_privilege_and_get_none(owned: Owned) -> None:
    status = dict(
        line.split(":\t", 1) for line in owned.said("cat /proc/self/status").splitlines() if line
    )
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    (user,) = {p.uids().real for p in owned.processes()}
    assert user == OTHER_UID if owned.way == "unprivileged" else user not in (0, OTHER_UID)
    programs = owned.said("find /usr/bin -perm /6000 -type f").split()
    assert programs, "the system has setuid programs, which this attack needs"
    for attempt in (
        "su -c true </dev/null",
        "mount -t tmpfs x /sdcard",
        "unshare -Ur true",
        "unshare -n true",
        "chroot / true",
        f"mknod {TMP}/disk b 8 0",
        f"cp /system/bin/sh {TMP}/sh; chown 0 {TMP}/sh",
        "chrt -f 50 true",
        "nice -n -5 true 2>&1 | grep -v cannot",
    ):
        done = owned.said(f"({attempt}) >/dev/null 2>&1 && echo OK")
        assert "OK" not in done, attempt


def test_neither_ports_nor_sockets_of_the_host_are_reached(owned: Owned, tmp_path: Path) -> None:
    name = f"benchfarm-attack-{os.getpid()}"
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        abstract = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        abstract.bind(f"\0{name}")
        filed = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        filed.bind(str(tmp_path / "socket"))
        for listener in (abstract, filed):
            listener.listen()
        port = tcp.getsockname()[1]
        theirs = [f"tcp:{port}", f"localabstract:{name}", f"localfilesystem:{tmp_path}/socket"]
        theirs += [f"tcp:{p}" for p in (owned.phone.port, owned.adb.port)]
        for destination in theirs:
            ours = int(owned.adb("forward", "tcp:0", destination).stdout)
            with socket.create_connection(("127.0.0.1", ours)) as app:
                assert app.recv(1) == b"", destination
        for address in ("127.0.0.1", "0.0.0.0", *_addresses()):
            tried = owned.said(f"bash -c 'exec 3<>/dev/tcp/{address}/{port} && echo OK'")
            assert "OK" not in tried, address
        for listener in (tcp, abstract, filed):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
    assert owned.said("cat /proc/net/dev").count(":") == 1
    assert name not in owned.said("cat /proc/net/unix")


def test_the_hosts_processes_and_memory_are_out_of_reach(owned: Owned) -> None:
    assert "No such process" in owned.said(f"kill -9 {owned.victim}")
    (first, *_) = _daemons(owned)
    owned.said(f"kill -9 1; kill -TERM 1; kill -STOP 1; dd if=/proc/{first}/mem count=1")
    for path in (f"/proc/1/{n}" for n in ("environ", "mem", "maps", "auxv")):
        assert "denied" in owned.said(f"cat {path}"), path
    names = owned.said("cat /proc/1/cmdline /proc/[0-9]*/environ 2>/dev/null")
    assert TOKEN not in names
    assert "python" not in names
    assert KEY not in owned.said("cat /proc/keys")
    numbers = {"x86_64": (248, 249, 250, 425), "aarch64": (217, 218, 219, 425)}[os.uname().machine]
    for call in numbers:  # add_key, request_key, keyctl, io_uring_setup
        tried = f"print syscall({call}, 0, 0, 0, 0, 0) == -1 ? 0 + $! : -1"
        assert owned.said(f"perl -e '{tried}'") == str(errno.ENOSYS), call
    for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG):
        tried = f"print socket(S, {int(family)}, 1, 0) ? -1 : 0 + $!"
        assert owned.said(f"perl -e '{tried}'") == str(errno.EAFNOSUPPORT), family
    segment = subprocess.run(["ipcmk", "-M", "4096", "-p", "0666"], capture_output=True, text=True)
    number = segment.stdout.split()[-1]
    try:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as shared:
            assert "0x" not in owned.said("ipcs -m")
            assert Path(shared.name).name not in owned.said("ls /dev/shm")
    finally:
        subprocess.run(["ipcrm", "-m", number], check=True)


def test_killing_all_it_may_ends_the_phone_at_most(server: Adb, tmp_path: Path) -> None:
    with idle_process() as victim, running_phone("old", tmp_path / "phone") as phone:
        server.connect(phone.address)("shell", "kill -9 -1", check=False)
        server("disconnect", phone.address, check=False)
        assert victim.poll() is None


def test_without_the_key_nothing_is_served(owned: Owned, tmp_path: Path) -> None:
    asked = Message(Command.OPEN, 1, 0, b"shell:id\0")
    hello = Message(Command.CNXN, wire.VERSION_NO_CHECKSUM, wire.MAX_PAYLOAD, b"host::\0")
    signed = [Message(Command.AUTH, 2, 0, os.urandom(256)) for _ in range(20)]
    for talk in ([hello, asked], [asked], [hello, *signed], [hello, Message(Command.AUTH, 9, 0)]):
        heard = call_as_other_user(_conversation(owned.phone.port, talk))
        assert set(heard) <= {Command.AUTH}, heard
    with adb_server(tmp_path / "other") as other:
        said = other("connect", owned.phone.address, check=False).stdout
        assert b"failed to authenticate" in said
        assert other.state_of(owned.phone.address) == "unauthorized"
        assert other.of(owned.phone.address)("shell", "id", check=False).returncode
        other("disconnect", owned.phone.address)


def test_a_second_user_reaches_nothing_of_the_phone(server: Adb, tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="owner-"))
    place.chmod(0o755)
    try:
        with running_phone("old", place / "phone") as phone:
            adb = server.connect(phone.address)
            with subprocess.Popen(adb.command("shell", "sleep 1000"), env=adb.env) as client:
                eventually(lambda: phone.status().processes > 0, "it runs")
                family = psutil.Process(phone.pid)
                processes = [family.pid, *(p.pid for p in family.children(recursive=True))]
                assert len(processes) > 3
                tried = call_as_other_user(lambda: _tried(phone.folder, processes))
                client.kill()
            server("disconnect", phone.address)
        assert {name for name, (_, got) in tried.items() if got} == set()
        assert len(tried) > 30
        assert psutil.Process().is_running()
    finally:
        shutil.rmtree(place)


def test_connections_of_strangers_keep_nobody_out_and_fill_no_log(
    server: Adb, tmp_path: Path
) -> None:
    key = public_key(server, tmp_path)
    with (
        running_phone("old", tmp_path / "phone", f"--authorized-keys={key}") as phone,
        ExitStack() as held,
    ):
        for _ in range(4 * MAX_STRANGERS):
            address = ("127.0.0.1", phone.port)
            held.enter_context(socket.create_connection(address))
        adb = server.connect(phone.address)
        assert adb("shell", "echo in").stdout == b"in\r\n"
        for _ in range(300):
            with socket.create_connection(address) as one:
                one.sendall(b"x" * 24)
                assert one.recv(1) == b""
        assert phone.status().connections <= MAX_STRANGERS + 1
        assert adb("shell", "echo still").stdout == b"still\r\n"
        assert len((phone.folder / "phone.log").read_text().splitlines()) < 20
        server("disconnect", phone.address)


def test_as_many_strangers_as_are_held_all_stay(server: Adb, tmp_path: Path) -> None:
    key = public_key(server, tmp_path)
    with (
        running_phone("old", tmp_path / "phone", f"--authorized-keys={key}") as phone,
        ExitStack() as held,
    ):
        for number in range(1, MAX_STRANGERS + 1):
            held.enter_context(socket.create_connection(("127.0.0.1", phone.port)))
            eventually(partial(_holds, phone, number), f"{number} are held")


def _holds(phone: RunningPhone, connections: int) -> bool:
    return phone.status().connections == connections


def test_a_folder_that_others_may_change_holds_no_phone(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    done = subprocess.run(
        [*PHONE, "--profile=old", f"--folder={loose}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "other users may change it" in done.stdout


def _device(owned: Owned) -> adbutils.AdbDevice:
    return adbutils.AdbClient("127.0.0.1", owned.adb.port).device(owned.phone.address)


def _daemons(owned: Owned) -> list[str]:
    """Return the daemon's id as the phone has it."""
    return [str(n) for p in owned.processes()[1:2] for n in _inner(p.pid)]


def _descriptors(owned: Owned) -> list[int]:
    """Return the numbers of what the phone's processes have open, and one that none has."""
    held = {int(fd.name) for p in owned.processes() for fd in Path(f"/proc/{p.pid}/fd").iterdir()}
    assert held
    return sorted(held | {max(held) + 1})


def _inner(pid: int) -> Sequence[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[-1] for line in lines if line.startswith("NSpid"))
    return [int(found)]


def _addresses() -> list[str]:
    found = [a for each in psutil.net_if_addrs().values() for a in each]
    return [a.address for a in found if a.family == socket.AF_INET and a.address != "127.0.0.1"]


def _conversation(port: int, talk: Sequence[Message]) -> Callable[[], list[int]]:
    said = b"".join(encode(message, wire.VERSION_CHECKSUM) for message in talk)

    def converse() -> list[int]:
        heard = []
        with socket.create_connection(("127.0.0.1", port)) as peer, peer.makefile("rb") as answers:
            peer.sendall(said)
            peer.shutdown(socket.SHUT_WR)
            while len(header := answers.read(24)) == 24:
                command, _, _, length, _, _ = struct.unpack("<6I", header)
                answers.read(length)
                heard.append(command)
        return heard

    return converse


def _tried(folder: Path, processes: Sequence[int]) -> Mapping[str, tuple[str, bool]]:
    """Try everything as this process's user; return whether it succeeded, by what it was."""
    attempts: dict[str, Callable[[], object]] = {
        "list": lambda: list(folder.iterdir()),
        "log": (folder / "phone.log").read_text,
        "control": lambda: socket.socket(socket.AF_UNIX).connect(str(folder / "control.sock")),
        "plant": lambda: (folder / "planted").write_text("x"),
    }
    for pid in processes:
        proc = Path(f"/proc/{pid}")
        for name in ("environ", "mem", "maps", "auxv"):
            attempts[f"{pid} {name}"] = (proc / name).read_bytes
        for name in ("fd", "root", "cwd", "root/data/local/tmp"):
            attempts[f"{pid} {name}"] = partial(os.scandir, proc / name)
        attempts[f"{pid} kill"] = partial(os.kill, pid, signal.SIGKILL)
    found = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError as error:
            found[name] = (str(error), False)
        else:
            found[name] = ("", True)
    return found
