from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controller.platform.locks import is_locked
from controller.platform.processes import (
    end_all,
    end_marked,
    environment_of,
    marked_processes,
    name_of,
)
from tests.support.processes import idle_process, is_dead, wait_until_dead
from tests.support.waiting import PATIENCE_S

MARKER = "BENCHFARM_TEST_MARKER"
READY = "print('ready', flush=True); time.sleep(600)"
OBEDIENT = f"import time; {READY}"
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"
TIDY = f"""
import pathlib, signal, sys, time
def told(number, frame):
    time.sleep(0.2)
    pathlib.Path({{put_away!r}}).touch()
    sys.exit()
signal.signal(signal.SIGTERM, told)
{READY}
"""
UNCARING = f"""
import subprocess, time
child = subprocess.Popen(["sleep", "infinity"])
{READY}
"""
HEADLESS = """
import ctypes, fcntl, os, pathlib, threading, time
def hold():
    while "State:\\tZ" not in pathlib.Path(f"/proc/{os.getpid()}/status").read_text():
        time.sleep(0.001)
    print("ready", flush=True)
    time.sleep(600)
lock = os.open(HELD, os.O_CREAT | os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
threading.Thread(target=hold).start()
exit_thread = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
ctypes.CDLL(None).syscall(exit_thread, 0)
"""
PARENT = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
time.sleep(600)
"""


@pytest.fixture
def value() -> Iterator[str]:
    value = secrets.token_hex(8)
    yield value
    end_marked(MARKER, value, grace_s=0.0)


def start(script: str, value: str | None) -> psutil.Process:
    """Start a process and wait until it, or its child, is ready."""
    environ = {k: v for k, v in os.environ.items() if k != MARKER}
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        env=environ | ({MARKER: value} if value else {}),
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.stdout.close()
    child.returncode = 0  # end_marked waits for it; Popen must not
    return psutil.Process(child.pid)


def test_marked_processes_are_found_and_no_others(value: str) -> None:
    marked = start(OBEDIENT, value)
    others = [start(OBEDIENT, f"{value}0"), start(OBEDIENT, None)]
    try:
        assert [p.pid for p in marked_processes(MARKER, value)] == [marked.pid]
        assert end_marked(MARKER, value, grace_s=10.0) == 1
        assert is_dead(marked)
        assert not any(is_dead(other) for other in others)
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_this_process_is_never_one_of_them(value: str) -> None:
    script = f"""
from controller.platform.processes import end_marked
assert end_marked({MARKER!r}, {value!r}, 0.0) == 0
"""
    environ = {**os.environ, MARKER: value}
    ended = subprocess.run([sys.executable, "-c", script], env=environ, timeout=PATIENCE_S)
    assert ended.returncode == 0


def test_a_grandchild_in_a_session_of_its_own_is_found(value: str) -> None:
    parent = start(PARENT, value)
    (child,) = parent.children()
    assert os.getsid(child.pid) != os.getsid(parent.pid)

    assert end_marked(MARKER, value, grace_s=0.5) == 2
    assert is_dead(parent)
    wait_until_dead(child)


def test_who_ignores_sigterm_is_killed_after_the_grace(value: str) -> None:
    stubborn = start(STUBBORN, value)
    assert end_marked(MARKER, value, grace_s=0.3) == 1
    assert is_dead(stubborn)


def test_what_has_nothing_to_put_away_is_killed_once_nothing_else_is_left(value: str) -> None:
    stubborn = start(STUBBORN, value)
    began = time.monotonic()
    assert end_marked(MARKER, value, PATIENCE_S, expendable=lambda _: True) == 1
    assert is_dead(stubborn)
    assert time.monotonic() - began < PATIENCE_S


def test_others_have_their_grace_beside_what_is_expendable(value: str, tmp_path: Path) -> None:
    put_away = tmp_path / "put away"
    start(TIDY.format(put_away=str(put_away)), value)
    with idle_process({MARKER: value}):
        assert (
            end_marked(MARKER, value, PATIENCE_S, expendable=lambda p: name_of(p) == "sleep") == 2
        )
        assert put_away.exists()


def test_a_zombie_that_its_parent_leaves_is_not_waited_for(value: str) -> None:
    parent = start(UNCARING, None)
    try:
        (child,) = parent.children()
        began = time.monotonic()
        assert end_all(lambda: iter([child]), PATIENCE_S) == 1
        assert child.status() == psutil.STATUS_ZOMBIE
        assert time.monotonic() - began < PATIENCE_S
    finally:
        parent.kill()


def test_a_process_whose_first_thread_has_ended_is_found_and_ended(
    value: str, tmp_path: Path
) -> None:
    """As every process is for a while that was killed on a busy host: it still holds its locks."""
    lock = tmp_path / "lock"
    process = start(HEADLESS.replace("HELD", repr(str(lock))), value)
    assert process.status() == psutil.STATUS_ZOMBIE
    assert is_locked(lock)
    assert [p.pid for p in marked_processes(MARKER, value)] == [process.pid]
    assert end_marked(MARKER, value, grace_s=0.0) == 1
    assert not is_locked(lock)


def test_nobody_marked(value: str) -> None:
    assert end_marked(MARKER, value, grace_s=10.0) == 0


def test_a_process_that_is_becoming_another_program_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = tmp_path / "environ"
    environ.touch()
    (tmp_path / "exe").symlink_to("/bin/sleep")
    monkeypatch.setattr("time.sleep", lambda _: environ.write_bytes(b"A=1\0"))
    assert environment_of(tmp_path) == b"A=1\0"


def test_a_kernel_thread_has_no_environment_and_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "environ").touch()
    with pytest.raises(FileNotFoundError):
        environment_of(tmp_path)


def test_a_process_without_an_environment_is_not_waited_for_long() -> None:
    with idle_process({}) as process:
        assert environment_of(Path(f"/proc/{process.pid}")) == b""
