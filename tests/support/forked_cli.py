"""The command line without the second that its modules take to load: forks of a process that has
loaded them. Each call is a process of its own, with its own environment, folder and files.

Calls that are to show how the installed command starts do not come here, nor do those that start
their own program again: up, agent start.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

from controller.cli.main import main
from controller.contracts.catalog import load_catalog
from controller.platform.programs import python_module
from tests.support.waiting import COMMAND_S

LOADED = ("agent", "device", "models", "phone", "results", "sweep")
"""The modules of what is called most; others are loaded by the forks that need them."""
MOST = 1 << 20
"""Bytes of a call: its words and its environment."""
SPACES = ("net", "uts", "pid", "mnt")
"""What a host has of its own; setns(2)."""
LINE = 20
"""Bytes of each number that is told of a fork."""


def forked(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = COMMAND_S,
    host: int = 0,
) -> subprocess.CompletedProcess[bytes]:
    """Call the command line in this folder; return its status and what it printed.

    host: a process of a host of namespaced_hosts, on which it is called in its user's folder.
    Raises subprocess.TimeoutExpired; it has then been killed.
    """
    folder = environ["HOME"] if host else str(Path.cwd())
    call = json.dumps([list(arguments), dict(environ), folder, host]).encode()
    answer, answering = os.pipe()
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        try:
            files = [given.fileno(), out.fileno(), err.fileno(), answering]
            socket.send_fds(_forks(), [call], files)
        finally:
            os.close(answering)
        status = _status(answer, arguments, timeout_s)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), err.read())


def _status(answer: int, arguments: Sequence[str], timeout_s: float) -> int:
    """Return what a fork's parent tells: the fork's process id at once, its status at its end."""
    with open(answer, "rb", buffering=0) as told:
        began = told.read(LINE)
        assert began, "the process that forks has ended"
        pid = int(began)
        if not select.select([told], [], [], timeout_s)[0]:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), timeout_s)
        return int(told.read(LINE))


@cache
def _forks() -> socket.socket:
    """Start the process whose forks answer, and return the way to it; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = python_module("tests.support.forked_cli", str(theirs.fileno()))
    process = subprocess.Popen(
        command,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(calls: socket.socket) -> None:
    """Fork for each call until nobody can call any more; returns in a fork, too, after its call.

    Forks find the project's own manifests parsed, by their content.
    """
    for module in LOADED:
        import_module(f"controller.cli.{module}")
    os.environ["BENCHFARM_MODELS"] = os.devnull  # no user's
    load_catalog()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork has no other threads"
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are waited for by their own parents
    while True:
        call, files, _, _ = socket.recv_fds(calls, MOST, 4)
        if not call:
            return
        if os.fork() == 0:
            calls.close()
            _answer(call, files)
            return
        for file in files:
            os.close(file)


def _answer(call: bytes, files: Sequence[int]) -> None:
    """Run a call in a fork, which returns from here as at the end of a program, and tell of it."""
    *standard, answering = files
    arguments, environ, folder, host = json.loads(call)
    if host:
        _enter(host)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.write(answering, f"{pid:<{LINE}}".encode())
        _, status = os.waitpid(pid, 0)
        os.write(answering, f"{os.waitstatus_to_exitcode(status):<{LINE}}".encode())
        os._exit(0)
    for number, file in enumerate(standard):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["benchfarm", *arguments]
    main()


def _enter(host: int) -> None:
    """Move into a process's namespaces; into that of its process ids, the next fork does."""
    spaces = [os.open(f"/proc/{host}/ns/{name}", os.O_RDONLY) for name in SPACES]
    library = ctypes.CDLL(None, use_errno=True)
    for space in spaces:
        if library.setns(space, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        os.close(space)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
