"""Whose the processes of tests are, and waiting for those that are nobody's children any more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.waiting import eventually

OWNER = f"test-agent-{os.getpid()}"
"""The agent whose workers a test starts; tests that run beside it have another."""
LOOK_S = 0.01
LEAST_NICE = 19


def is_dead(process: psutil.Process) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_dead(process: psutil.Process) -> None:
    """Return once a process has ended; nobody signals that to a stranger, so it asks."""
    eventually(lambda: is_dead(process), f"{process} is dead", LOOK_S)


@contextmanager
def idle_process(env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process that does nothing for a block, however that ends."""
    with subprocess.Popen(["sleep", "infinity"], env=env) as process:
        try:
            # Linux lets Popen return from exec before it has set the new command line.
            words = Path(f"/proc/{process.pid}/cmdline")
            eventually(lambda: words.read_bytes().startswith(b"sleep"), "it is sleep", LOOK_S)
            yield process
        finally:
            process.kill()


def give_way(process: psutil.Process) -> None:
    """Let a process compute only while nothing else wants to: one that is there to be waited for.

    Linux may weigh sessions, and a process only within its own; proc_pid_autogroup(5).
    """
    process.nice(LEAST_NICE)
    session = Path(f"/proc/{process.pid}/autogroup")
    if session.exists():
        session.write_text(str(LEAST_NICE))
