"""The hosts that other tests are made on do what they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.forked_cli import forked
from tests.support.namespaced_hosts import Host, lab, pid_namespace
from tests.support.processes import is_dead
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with lab(tmp_path) as switch, switch.host("one") as one, switch.host("two") as two:
        yield one, two


def reaches(host: Host, other: Host, within_s: float = 10.0) -> bool:
    # Nothing listens at the port, so that a host that is reached answers at once.
    return _connect(host, other.address, 9, within_s) == "refused"


def _connect(host: Host, address: str, port: int, within_s: float) -> str:
    script = f"""
import socket
try:
    socket.create_connection(({address!r}, {port}), {within_s})
    print("connected", end="")
except ConnectionRefusedError:
    print("refused", end="")
except OSError:
    print("nothing", end="")
"""
    said = host.run(["python3", "-c", script])
    assert said.returncode == 0, said.stderr
    return said.stdout


def test_a_cut_link_is_silent_and_comes_back(two: tuple[Host, Host]) -> None:
    one, other = two
    assert reaches(one, other)
    assert reaches(other, one)
    other.cut_link()
    assert not reaches(one, other, within_s=0.5)
    other.restore_link()
    assert reaches(one, other)


def test_hosts_have_their_own_processes_names_ids_and_files(two: tuple[Host, Host]) -> None:
    script = "hostname; cat /etc/machine-id; echo $HOME/x >/tmp/note; ls /proc | grep -c '^[0-9]'"
    said = [host.run(["bash", "-c", script]).stdout.split() for host in two]
    assert [names[0] for names in said] == ["one", "two"]
    if Path("/etc/machine-id").exists():
        assert (
            len({names[1] for names in said} | {Path("/etc/machine-id").read_text().strip()}) == 3
        )
    assert all(int(names[-1]) < 10 for names in said)
    assert two[0].path("/tmp/note").read_text() == "/root/x\n"
    two[0].path("/tmp/note").unlink()
    assert two[1].path("/tmp/note").exists()


def test_a_core_that_one_host_holds_is_free_on_others(two: tuple[Host, Host]) -> None:
    said = [host.run(["stat", "--format=%a %d", "/run/lock"]).stdout.split() for host in two]
    assert [mode for mode, _ in said] == ["1777", "1777"]
    assert len({device for _, device in said} | {str(Path("/run").stat().st_dev)}) == 3


def test_the_command_line_is_called_on_a_host(two: tuple[Host, Host]) -> None:
    sweep = "{name: x, workload: resnet18, stack: torch, scenario: training}"
    two[0].path("/root/x.yaml").write_text(sweep)
    found, missing = (
        forked(["sweep", "validate", "x.yaml"], host.environment(), host=host.init.pid)
        for host in two
    )
    assert (found.returncode, found.stderr) == (0, b"")
    assert (missing.returncode, missing.stdout) == (2, b"")
    assert b"No such file" in missing.stderr


def test_a_frozen_host_goes_on_where_it_was(two: tuple[Host, Host]) -> None:
    host, _ = two
    program = host.start(["sh", "-c", "sleep 1000 & wait"])
    eventually(lambda: host.processes("sleep 1000"), "it has started")
    host.freeze()
    assert {p.status() for p in host.processes()} == {psutil.STATUS_STOPPED}
    host.thaw()
    assert psutil.STATUS_STOPPED not in {p.status() for p in host.processes()}
    assert program.entrance.poll() is None


def test_a_killed_host_leaves_nothing_and_the_other_lives(two: tuple[Host, Host]) -> None:
    host, other = two
    program = host.start(["sleep", "1000"])
    space, before = host.pid_namespace, other.processes()
    host.kill()
    assert program.entrance.poll() not in (None, 0)
    for process in psutil.process_iter():
        with suppress(OSError):  # it ended meanwhile
            assert pid_namespace(process.pid) != space or is_dead(process)
    assert [p.pid for p in other.processes()] == [p.pid for p in before]


def test_a_full_disk_takes_no_more(tmp_path: Path) -> None:
    with lab(tmp_path) as switch, switch.host("small", disk_bytes=8 << 20) as host:
        filler = host.fill_disk()
        assert host.run(["sh", "-c", "echo words > /root/file"]).returncode != 0
        filler.unlink()
        assert host.run(["sh", "-c", "echo words > /root/file"]).returncode == 0
