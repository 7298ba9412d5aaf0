"""A pytest plugin: a failure on namespaced hosts shows what runs on each, where, and its logs.

The hosts are gone when the test has ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.fleet import HOME, Fleet
from tests.support.namespaced_hosts import Host

LINES = 30
"""How many of the last lines of a log are shown."""
LOOKED_INTO = ("agent start", "agents.joined", "ray start")
"""What is looked into: the programs that bring a host into a farm."""
SPY_S = 30.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        hosts = {host.name: host for value in item.funcargs.values() for host in _hosts_in(value)}
        report.sections += [(f"host {name}", _state(host)) for name, host in hosts.items()]
    return report


def _hosts_in(value: object) -> Iterator[Host]:
    if isinstance(value, Host):
        yield value
    elif isinstance(value, Fleet):
        yield value.head
    elif isinstance(value, tuple):
        for each in value:
            yield from _hosts_in(each)


def _state(host: Host) -> str:
    logs = [*sorted(host.path(HOME / "logs").glob("*.log"))]
    logs += sorted(host.folder.glob(f"{host.name}-*.log"))
    return "\n".join([*map(_process, host.processes()), *map(_end_of, logs)])


def _process(process: psutil.Process) -> str:
    try:
        words = " ".join(process.cmdline())
        line = f"{process.pid} {process.status()} {words[:200]}"
    except psutil.NoSuchProcess:
        return f"{process.pid} has ended"
    looked_into = any(word in words for word in LOOKED_INTO)
    return f"{line}\n{_stacks(process.pid)}" if looked_into else line


def _stacks(pid: int) -> str:
    spy = str(Path(sys.executable).with_name("py-spy"))
    command = [spy, "dump", f"--pid={pid}", "--nonblocking"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SPY_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"    {error}"
    return "".join(f"    {line}\n" for line in (done.stdout or done.stderr).splitlines())


def _end_of(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-LINES:]
    except OSError as error:
        lines = [f"{error}"]
    return "\n".join([f"--- {log.name}", *lines])
