"""What the real adb makes of a virtual phone, by its program and by a library."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

import adbutils
import pytest

from tests.support.virtual_phone import (
    Adb,
    RunningPhone,
    adb_server,
    package,
    read_all,
    running_phone,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration
TMP = "/data/local/tmp"
BIG = 50 << 20
PORT = 4000
"""On a phone, whose ports are its own."""


@dataclass(frozen=True, slots=True)
class Ran:
    output: bytes
    exit_code: int


class Driver(Protocol):
    """What both ways to adb can do."""

    def shell(self, command: str) -> Ran:
        """Run a command, standard error apart or in the output."""
        ...

    def push(self, local: Path, remote: str) -> None: ...

    def pull(self, remote: str, local: Path) -> None: ...

    def forward(self, remote: str) -> int:
        """Return the local port that leads to the phone's socket."""
        ...

    def reverse(self, remote: str, local: str) -> None: ...

    def install(self, apk: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class Program:
    adb: Adb

    def shell(self, command: str) -> Ran:
        done = self.adb("shell", command, check=False)
        return Ran(done.stdout, done.returncode)

    def push(self, local: Path, remote: str) -> None:
        self.adb("push", str(local), remote)

    def pull(self, remote: str, local: Path) -> None:
        self.adb("pull", remote, str(local))

    def forward(self, remote: str) -> int:
        return int(self.adb("forward", "tcp:0", remote).stdout)

    def reverse(self, remote: str, local: str) -> None:
        self.adb("reverse", remote, local)

    def install(self, apk: Path) -> None:
        self.adb("install", str(apk))


@dataclass(frozen=True, slots=True)
class Library:
    device: adbutils.AdbDevice

    def shell(self, command: str) -> Ran:
        done = self.device.shell2(command, v2=True, encoding=None)
        return Ran(done.output, done.returncode)

    def push(self, local: Path, remote: str) -> None:
        self.device.sync.push(local, remote)

    def pull(self, remote: str, local: Path) -> None:
        self.device.sync.pull(remote, local)

    def forward(self, remote: str) -> int:
        port: int = self.device.forward_port(remote)
        return port

    def reverse(self, remote: str, local: str) -> None:
        self.device.reverse(remote, local)

    def install(self, apk: Path) -> None:
        self.device.install(apk, nolaunch=True, silent=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adb]:
    with adb_server(tmp_path_factory.mktemp("adb") / "home") as adb:
        yield adb


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("flagship", tmp_path_factory.mktemp("phone")) as running:
        yield running


@pytest.fixture(scope="module")
def adb(server: Adb, phone: RunningPhone) -> Adb:
    return server.connect(phone.address)


@pytest.fixture(params=["program", "library"])
def driver(request: pytest.FixtureRequest, adb: Adb, phone: RunningPhone) -> Driver:
    if request.param == "program":
        return Program(adb)
    return Library(adbutils.AdbClient("127.0.0.1", adb.port).device(phone.address))


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("big") / "big"
    path.write_bytes(Random(1).randbytes(BIG))
    return path


def test_it_is_listed_as_what_it_is(adb: Adb, phone: RunningPhone) -> None:
    line = next(li for li in adb("devices", "-l").stdout.decode().splitlines() if ":" in li)
    assert line.split()[:2] == [phone.address, "device"]
    assert "model:Virtual_Flagship" in line
    assert adb("shell", "getprop", "ro.serialno").stdout.decode().strip() == phone.serial


@pytest.mark.parametrize(
    ("command", "output", "exit_code"),
    [
        ("true", b"", 0),
        ("exit 7", b"", 7),
        ("kill -KILL $$", b"", 137),
        ("no_such_command_here 2>/dev/null", b"", 127),
        ("echo 'a  b' \"$HOME\" '*' \"it's\"", b"a  b /data/local/tmp * it's\n", 0),
        ("printf 'x\\ty\\n'; echo $((6*7))", b"x\ty\n42\n", 0),
        ("echo ä€𝄞", "ä€𝄞\n".encode(), 0),
        ("echo $BENCHFARM_PHONE", b"VIRTUALFLAGSHIP1\n", 0),
        ("getprop ro.product.model", b"Virtual Flagship\n", 0),
        ("getprop ro.benchfarm.virtual", b"1\n", 0),
        ("getprop no.such.property", b"\n", 0),
        ("settings get global airplane_mode_on", b"1\n", 0),
        ("settings get global nothing", b"null\n", 0),
        ("cat /sys/class/thermal/thermal_zone*/type", b"cpu-0\nbattery\nskin\n", 0),
        ("cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq", b"3000000\n", 0),
        ("cat /sys/class/power_supply/battery/status", b"Charging\n", 0),
        ("touch /usr/bin/x 2>/dev/null", b"", 1),
        ("ls /data/local", b"tmp\n", 0),
    ],
)
def test_shell(driver: Driver, command: str, output: bytes, exit_code: int) -> None:
    assert driver.shell(command) == Ran(output, exit_code)


def test_outputs_and_exit_code_are_separate(adb: Adb) -> None:
    done = adb("shell", "echo out; echo err >&2; exit 3", check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)


def test_standard_input_reaches_the_command_and_ends(adb: Adb) -> None:
    sent = Random(2).randbytes(3 << 20)
    assert adb("shell", "sha256sum", stdin=sent).stdout.split()[0].decode() == _digest(sent)
    assert adb("shell", stdin=b"echo from a script\nexit 4\n", check=False).returncode == 4


def test_exec_passes_every_byte(adb: Adb) -> None:
    every = bytes(range(256)) * 4096
    adb("exec-in", f"cat >{TMP}/every", stdin=every)

    def is_written() -> bool:
        # exec-in doesn't wait for the phone: at first there may be no file.
        counted = adb("shell", f"wc -c <{TMP}/every", check=False)
        return counted.stdout == b"%d\n" % len(every)

    eventually(is_written, "written")
    assert adb("exec-out", f"cat {TMP}/every").stdout == every


def test_many_streams_at_once(adb: Adb) -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda n=n: results.append(adb("shell", f"sleep 0.2; echo {n}").stdout)
        )
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, results)) == list(range(16))


def test_a_big_file_there_and_back(driver: Driver, big: Path, tmp_path: Path) -> None:
    driver.push(big, f"{TMP}/new/folder/big")
    there = driver.shell(f"sha256sum <{TMP}/new/folder/big").output.split()[0].decode()
    driver.pull(f"{TMP}/new/folder/big", tmp_path / "back")
    assert there == _digest(big.read_bytes()) == _digest((tmp_path / "back").read_bytes())
    driver.shell(f"rm -r {TMP}/new")


def test_a_tree_there_and_back(adb: Adb, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(60):
        path = tree / f"folder {number % 3}" / f"ä {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Random(number).randbytes(number * 1000))
    (tree / "run").write_text("#!/bin/sh\necho it runs\n")
    (tree / "run").chmod(0o700)
    adb("push", str(tree), f"{TMP}/tree")
    adb("pull", f"{TMP}/tree", str(tmp_path / "back"))
    assert _contents(tmp_path / "back") == _contents(tree)
    assert adb("shell", f"{TMP}/tree/run").stdout == b"it runs\n"


def test_what_cannot_be_pulled_or_pushed_is_said(adb: Adb, tmp_path: Path) -> None:
    assert b"No such file" in adb("pull", f"{TMP}/nothing", str(tmp_path), check=False).stderr
    (tmp_path / "file").write_text("x")
    refused = adb("push", str(tmp_path / "file"), "/usr/bin/x", check=False)
    assert refused.returncode == 1
    assert b"Read-only file system" in refused.stderr


def test_a_directory_is_no_file(adb: Adb, phone: RunningPhone) -> None:
    device = adbutils.AdbClient("127.0.0.1", adb.port).device(phone.address)
    with pytest.raises(adbutils.AdbError, match="Is a directory"):
        device.sync.read_bytes(TMP)
    assert "Is a directory" not in (phone.folder / "phone.log").read_text()  # no connection ended
    assert adb("shell", "echo on").stdout == b"on\n"


def test_forward_and_reverse_meet_on_the_phones_own_network(driver: Driver, adb: Adb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        local = f"tcp:{server.getsockname()[1]}"
        on_phone = f"tcp:{PORT}"
        driver.reverse(on_phone, local)
        assert f"{on_phone} {local}" in adb("reverse", "--list").stdout.decode()
        with socket.create_connection(("127.0.0.1", driver.forward(on_phone))) as client:
            served, _ = server.accept()
            with served:
                client.sendall(b"to the phone and back")
                assert served.recv(100) == b"to the phone and back"
                served.sendall(b"an answer")
            assert read_all(client) == b"an answer"
    adb("reverse", "--remove", on_phone)
    gone = adb("reverse", "--remove", on_phone, check=False)
    assert b"not found" in gone.stderr


def test_a_program_on_the_phone_reaches_a_reversed_port(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        driver.reverse(f"tcp:{PORT}", f"tcp:{server.getsockname()[1]}")
        ask = f"exec 3<>/dev/tcp/127.0.0.1/{PORT}; echo a question >&3; cat <&3"
        ran: list[Ran] = []
        thread = threading.Thread(target=lambda: ran.append(driver.shell(f"bash -c '{ask}'")))
        thread.start()
        served, _ = server.accept()
        with served:
            assert served.recv(100) == b"a question\n"
            served.sendall(b"an answer")
        thread.join()
    assert ran == [Ran(b"an answer", 0)]


def test_a_port_nobody_has_on_the_phone_is_closed_whoever_has_it_on_the_host(
    driver: Driver,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = driver.forward(f"tcp:{taken.getsockname()[1]}")
        with socket.create_connection(("127.0.0.1", port)) as ours:
            assert read_all(ours) == b""
        taken.setblocking(False)
        with pytest.raises(BlockingIOError):
            taken.accept()


def test_a_reversed_port_is_the_phones_and_not_the_hosts(driver: Driver, adb: Adb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        on_phone = f"tcp:{taken.getsockname()[1]}"  # which is taken on the host
        driver.reverse(on_phone, "tcp:1")
        adb("reverse", "--remove", on_phone)


def test_install(driver: Driver, tmp_path: Path) -> None:
    apk = package(tmp_path / "some.apk", Random(3).randbytes(2 << 20))
    driver.install(apk)
    packages = driver.shell("pm list packages").output.decode().split()
    paths = [driver.shell(f"pm path {p.removeprefix('package:')}").output for p in packages]
    kept = [path.decode().strip().removeprefix("package:") for path in paths]
    hashes = [driver.shell(f"sha256sum {path}").output.decode().split()[0] for path in kept]
    assert _digest(apk.read_bytes()) in hashes


def test_what_is_no_package_is_not_installed(adb: Adb, tmp_path: Path) -> None:
    before = adb("shell", "pm list packages").stdout
    archive = package(tmp_path / "other.apk", b"")
    archive.write_bytes(archive.read_bytes().replace(b"AndroidManifest", b"AndroidSomething"))
    (tmp_path / "text.apk").write_text("AndroidManifest.xml")
    for path in tmp_path.iterdir():
        refused = adb("install", str(path), check=False)
        assert refused.returncode == 1
        assert b"INSTALL_PARSE_FAILED_NOT_APK" in refused.stderr + refused.stdout
    assert adb("shell", "pm list packages").stdout == before


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("shell", b"out\nerr\n"),
        ("shell,raw", b"out\nerr\n"),
        ("shell,pty", b"out\r\nerr\r\n"),
        ("shell,pty,raw", b"out\nerr\n"),
        ("shell,raw,pty", b"out\r\nerr\r\n"),
        ("exec", b"out\nerr\n"),
    ],
)
def test_a_command_has_a_terminal_only_if_it_asks_for_one(
    adb: Adb, phone: RunningPhone, asked: str, said: bytes
) -> None:
    device = adbutils.AdbClient("127.0.0.1", adb.port).device(phone.address)
    with device.open_transport() as connection:
        connection.send_command(f"{asked}:echo out; echo err >&2")
        connection.check_okay()
        assert connection.read_until_close(encoding=None) == said


def test_a_shell_of_a_terminal_is_interactive_and_others_are_not(adb: Adb) -> None:
    for option, kind in (("-t", b"terminal"), ("-T", b"pipe")):
        said = adb("shell", option, option, "[ -t 1 ] && echo terminal || echo pipe").stdout
        assert said.split() == [kind]


def test_a_listing_tells_all_that_readdir_does(adb: Adb) -> None:
    adb("shell", f"mkdir {TMP}/listed && echo >{TMP}/listed/file")
    lines = adb("ls", f"{TMP}/listed").stdout.decode().splitlines()
    assert sorted(line.split()[3] for line in lines) == [".", "..", "file"]
    assert adb("ls", "/nothing", check=False).stdout == b""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("root",), b"adbd cannot run as root in production builds\n"),
        (("unroot",), b"adbd not running as root\n"),
        (("tcpip", "5555"), b"a virtual phone stays on the port that it listens on\n"),
        (("usb",), b"a virtual phone has no USB\n"),
    ],
)
def test_requests_to_restart_the_daemon_are_answered_in_a_line(
    adb: Adb, asked: tuple[str, ...], said: bytes
) -> None:
    assert adb(*asked, check=False).stdout == said
    assert adb("shell", "echo on").stdout == b"on\n"


def test_logcat_says_why_it_has_nothing(adb: Adb) -> None:
    done = adb("logcat", "-d", check=False)
    assert (done.stdout, done.returncode) == (b"", 1)
    assert b"keeps no log" in done.stderr


def test_getprop_lists_all_and_setprop_sets_some(adb: Adb) -> None:
    lines = adb("shell", "getprop").stdout.decode().splitlines()
    assert "[ro.build.version.sdk]: [35]" in lines
    adb("shell", "setprop debug.mine 'a b'")
    assert adb("shell", "getprop debug.mine").stdout == b"a b\n"
    refused = adb("shell", "setprop ro.product.model other", check=False)
    assert refused.returncode == 1


def test_a_client_that_goes_takes_its_commands_along(adb: Adb, phone: RunningPhone) -> None:
    command = "trap '' HUP; sleep 1000 & sleep 1000 & echo started; wait"
    with subprocess.Popen(
        adb.command("shell", command), env=adb.env, stdout=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"started\n"
        assert phone.status().processes == 3
        client.kill()
    eventually(lambda: phone.status().processes == 0, "all three processes have ended")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _contents(tree: Path) -> dict[str, bytes]:
    return {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}
