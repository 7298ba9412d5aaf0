"""A virtual phone's faults, as the real adb sees them, and the phone's end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import pytest

from agents.virtual_phone import faults
from agents.virtual_phone.control import AllowHost, SetConditions
from agents.virtual_phone.daemon import MARKER
from agents.virtual_phone.errors import PhoneOptionsInvalid
from agents.virtual_phone.phone import VirtualPhone
from agents.virtual_phone.thermal import ThermalStatus
from controller.contracts.errors import UserError
from controller.contracts.helper_reply import HelperReply
from controller.platform.processes import marked_processes
from tests.support.processes import wait_until_dead
from tests.support.virtual_phone import (
    PHONE,
    ROOT,
    Adb,
    RunningPhone,
    adb_server,
    package,
    public_key,
    running_phone,
)
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.integration
TMP = "/data/local/tmp"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adb]:
    with adb_server(tmp_path_factory.mktemp("adb") / "home") as adb:
        yield adb


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("midrange", tmp_path_factory.mktemp("phone")) as running:
        yield running


@pytest.fixture
def phone(shared: RunningPhone, server: Adb) -> Iterator[RunningPhone]:
    shared.set_faults()
    yield shared
    shared.set_faults()
    # What adb is told to disconnect while it reconnects, it may forget when its link next breaks.
    eventually(lambda: server.state_of(shared.address) in ("device", None), "it has reconnected")
    server("disconnect", check=False)


@pytest.fixture
def adb(server: Adb, phone: RunningPhone) -> Adb:
    return server.connect(phone.address)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "file"
    path.write_bytes(Random(1).randbytes(5 << 20))
    return path


def test_offline_and_back(adb: Adb, phone: RunningPhone) -> None:
    phone.set_faults(faults.Offline())
    eventually(lambda: adb.state_of(phone.address) == "offline", "listed as offline")
    assert b"offline" in adb("shell", "true", check=False).stderr
    phone.set_faults()
    eventually(lambda: adb.state_of(phone.address) == "device", "listed as device")
    adb("shell", "true")


def test_unauthorized_lets_nobody_in(server: Adb, phone: RunningPhone) -> None:
    phone.set_faults(faults.Unauthorized())
    assert b"failed to authenticate" in server("connect", phone.address, check=False).stdout
    assert server.state_of(phone.address) == "unauthorized"
    phone.ask(AllowHost())
    assert server.state_of(phone.address) == "unauthorized"


def test_a_hanging_phone_answers_when_it_hangs_no_more(adb: Adb, phone: RunningPhone) -> None:
    phone.set_faults(faults.Hang())
    with subprocess.Popen(
        adb.command("shell", "echo late"), env=adb.env, stdout=subprocess.PIPE
    ) as client:
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(0.5)
        assert adb.state_of(phone.address) == "device"
        phone.set_faults()
        assert client.communicate()[0] == b"late\n"


def test_a_slow_link_takes_its_time(adb: Adb, phone: RunningPhone, file: Path) -> None:
    bytes_per_s = 10 << 20
    phone.set_faults(faults.Slow(bytes_per_s=bytes_per_s))
    began = time.monotonic()
    adb("push", str(file), f"{TMP}/slow")
    assert time.monotonic() - began >= file.stat().st_size / bytes_per_s


def test_disconnect_in_the_middle_of_a_push(adb: Adb, phone: RunningPhone, file: Path) -> None:
    phone.set_faults(faults.Disconnect(after_bytes=2 << 20))
    assert adb("push", str(file), f"{TMP}/half", check=False).returncode == 1
    eventually(lambda: adb.state_of(phone.address) == "device", "adb has reconnected")
    assert phone.status().faults == ()
    assert adb("shell", f"ls {TMP}/half", check=False).returncode != 0


@pytest.mark.parametrize(
    "fault", [faults.Disconnect(command="sleep"), faults.Disconnect(shell_output=True)]
)
def test_disconnect_in_the_middle_of_a_run(
    adb: Adb, phone: RunningPhone, fault: faults.Disconnect
) -> None:
    phone.set_faults(fault)
    done = adb("shell", "trap '' HUP; echo running; sleep 1000", check=False)
    assert (done.stdout, done.returncode) == (b"", 255)
    eventually(lambda: phone.status().processes == 0, "its processes have ended")
    eventually(lambda: adb.state_of(phone.address) == "device", "adb has reconnected")


def test_unplugged_in_the_middle_of_a_run(adb: Adb, phone: RunningPhone) -> None:
    phone.set_faults(faults.Disconnect(shell_output=True, stay_offline=True))
    assert adb("shell", "echo", check=False).returncode == 255
    eventually(lambda: adb.state_of(phone.address) == "offline", "listed as offline")
    assert phone.status().faults == (faults.Offline(),)


def test_full_storage_is_full_for_pushes_and_commands(
    adb: Adb, phone: RunningPhone, file: Path
) -> None:
    adb("shell", f"head -c 1000000 /dev/zero >{TMP}/old")
    phone.set_faults(faults.FullStorage(free_bytes=100_000))
    pushed = adb("push", str(file), f"{TMP}/new", check=False)
    assert b"No space left on device" in pushed.stderr
    assert b"INSUFFICIENT_STORAGE" in adb("install", _apk(file), check=False).stderr
    written = adb("shell", f"head -c 200000 /dev/zero >{TMP}/more", check=False)
    assert b"No space left on device" in written.stderr
    adb("shell", f"rm {TMP}/old {TMP}/more; head -c 900000 /dev/zero >{TMP}/more")
    phone.set_faults()
    adb("push", str(file), f"{TMP}/new")


def test_read_only_is_so_for_pushes_and_commands(adb: Adb, phone: RunningPhone, file: Path) -> None:
    phone.set_faults(faults.ReadOnly())
    pushed = adb("push", str(file), f"{TMP}/x", check=False)
    assert b"Read-only file system" in pushed.stderr
    assert adb("shell", f"touch {TMP}/x", check=False).returncode == 1
    phone.set_faults()
    adb("shell", f"touch {TMP}/x")


def test_read_only_is_refused_while_files_are_written(adb: Adb, phone: RunningPhone) -> None:
    command = f"exec 3>{TMP}/open; echo open; sleep 1000"
    with subprocess.Popen(
        adb.command("shell", command), env=adb.env, stdout=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"open\n"
        with pytest.raises(PhoneOptionsInvalid, match="open for writing"):
            phone.set_faults(faults.ReadOnly())
        assert phone.status().faults == ()
        client.kill()


def test_an_old_daemon(server: Adb, tmp_path: Path, file: Path) -> None:
    with running_phone("old", tmp_path / "phone") as old:
        adb = server.connect(old.address)
        done = adb("shell", "echo out; echo err >&2; exit 3")
        assert (done.stdout, done.stderr, done.returncode) == (b"out\r\nerr\r\n", b"", 0)
        assert b"closed" in adb("exec-out", "id", check=False).stderr
        adb("push", str(file), f"{TMP}/file")
        adb("pull", f"{TMP}/file", str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == file.read_bytes()
        assert b"Success" in adb("install", _apk(file)).stdout
        answer = adb("shell", "dumpsys thermalservice").stdout
        assert answer == b"Can't find service: thermalservice\r\n"
        server("disconnect", old.address)


def test_a_locked_phone_lets_in_known_hosts_and_those_its_user_allows(
    server: Adb, tmp_path: Path
) -> None:
    known = public_key(server, tmp_path)
    (tmp_path / "none").write_text("")
    with running_phone("flagship", tmp_path / "1", "--authorized-keys", str(known)) as phone:
        assert server.connect(phone.address)("shell", "getprop ro.adb.secure").stdout == b"1\n"
        server("disconnect", phone.address)
    with running_phone(
        "flagship", tmp_path / "2", "--authorized-keys", str(tmp_path / "none")
    ) as phone:
        assert b"authenticate" in server("connect", phone.address, check=False).stdout
        eventually(lambda: phone.status().asking == 1, "the phone asks its user")
        phone.ask(AllowHost())
        eventually(lambda: server.state_of(phone.address) == "device", "let in")
        server("disconnect", phone.address)


def test_conditions_show_and_work_warms(adb: Adb, phone: RunningPhone) -> None:
    hot = SetConditions(battery_percent=7.5, charging=False, temperatures_c={"skin": 46.0})
    assert phone.ask(hot).thermal_status is ThermalStatus.SEVERE
    assert "level: 7" in adb("shell", "dumpsys battery").stdout.decode()
    assert "Thermal Status: 3" in adb("shell", "dumpsys thermalservice").stdout.decode()
    with pytest.raises(PhoneOptionsInvalid, match="no zone nose"):
        phone.ask(SetConditions(temperatures_c={"nose": 1.0}))
    before = phone.status()
    adb("shell", "timeout 1 sh -c 'while :; do :; done'", check=False)
    eventually(lambda: phone.status().cpu_s > before.cpu_s + 0.1, "CPU time is counted")
    eventually(
        lambda: phone.status().temperatures_c["cpu-0"] > before.temperatures_c["cpu-0"], "warmer"
    )


def test_what_takes_more_memory_than_a_phone_has_is_killed(server: Adb, tmp_path: Path) -> None:
    with running_phone("entry", tmp_path / "phone") as phone:
        adb = server.connect(phone.address)
        assert "MemAvailable:     524288 kB" in adb("shell", "cat /proc/meminfo").stdout.decode()
        took = {
            mib: adb("shell", f"head -c {mib}M /dev/zero | tail -c {mib}M | wc -c").stdout
            for mib in (300, 700)
        }
        assert took == {300: b"%d\n" % (300 << 20), 700: b"0\n"}
    server("disconnect", phone.address)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_phone(server: Adb, tmp_path: Path, end: signal.Signals) -> None:
    serial = f"ENDING{end.value}"
    with running_phone("midrange", tmp_path / "phone", "--serial", serial) as phone:
        adb = server.connect(phone.address)
        adb("shell", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
        (left,) = marked_processes(MARKER, serial)
        family = [psutil.Process(phone.pid), *psutil.Process(phone.pid).children(recursive=True)]
        assert left in family
        os.kill(phone.pid, end)
        for process in family:
            wait_until_dead(process)
    server("disconnect", phone.address)


async def test_as_a_library(server: Adb) -> None:
    core = min(os.sched_getaffinity(0))
    async with VirtualPhone(
        "midrange", serial="MINE", cores=[core], faults=[faults.OldDaemon()], any_key=True
    ) as phone:
        assert (phone.serial, phone.facts.virtual, list(phone.facts.cores)) == (
            "MINE",
            True,
            [core],
        )
        assert (await phone.status()).faults == (faults.OldDaemon(),)
        assert (await phone.set_faults()).faults == ()
        assert server.connect(phone.address)("shell", "exit 3", check=False).returncode == 3
        server("disconnect", phone.address)
        folder = phone.folder
    assert not folder.exists()
    with pytest.raises(UserError, match="Choose among bare, entry"):
        async with VirtualPhone("nothing"):
            pass


def started_with(options: list[str]) -> subprocess.CompletedProcess[str]:
    """Start a phone that is to end at once."""
    command = [*PHONE, *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--profile", "nothing"],
            "Choose among bare, entry, flagship, flagship-arm64, locked, midrange, old, restarting",
        ),
        (["--profile", "old", "--fault", "broken"], "it is not one of offline, unauthorized, hang"),
        (["--profile", "old", "--fault", "slow"], "bytes_per_s: it is missing"),
        (["--profile", "old", "--fault", "disconnect"], "after_bytes, shell_output, command"),
        (["--profile", "old", "--cores", "x"], "Write a list such as 0,2-3."),
        (["--profile", "old", "--cores", "9999"], "this process may use only"),
        (["--profile", "old", "--folder", "/proc/x"], "Choose a folder"),
        (["--profile", "old", "--port", "99999"], "Choose another port"),
        (["--profile", "old", "--authorized-keys", "/nothing"], "adbkey.pub"),
    ],
)
def test_bad_options_are_one_line(options: list[str], said: str) -> None:
    done = started_with(options)
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (2, 1, "")
    refusal = HelperReply.model_validate_json(done.stdout).error
    assert refusal
    assert said in str(refusal.error())


def test_a_folder_holds_one_phone(phone: RunningPhone) -> None:
    options = ["--profile", "old", "--folder", str(phone.folder)]
    done = started_with(options)
    assert done.returncode == 2
    assert "no running phone uses" in done.stdout
    phone.status()


def _apk(file: Path) -> str:
    return str(package(file.with_suffix(".apk"), file.read_bytes()))
