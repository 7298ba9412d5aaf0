"""Checks whether a farm is whole, by its head's processes: immediate, without asking Ray."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

from controller.contracts.errors import UserError
from controller.platform.locks import is_locked
from controller.platform.peers import is_trusted, objection_to_peer, uid_of_peer
from controller.platform.processes import FARM_MARKER, marked_processes
from controller.runtime.home import Cluster, Home, Process

CONNECT_S = 2.0
ANSWER_S = 5.0
"""A healthy controller answers much sooner."""
FARM_DOWN = "the farm is down"
AUTOSCALER = "monitor"
"""The program that Ray's autoscaler runs in."""
_MODULE = re.compile(r"\w+(\.\w+)+")
CONTROLLER_AWAY = "the controller is away"
RESTARTED = "the farm is being started again"


def home_mark(home: Home, what: str) -> str:
    """Return a process marker that depends only on the home, so that any later process knows it."""
    return f"{what}-{hashlib.sha256(os.fsencode(home.path)).hexdigest()[:16]}"


def process_of(pid: int) -> Process:
    """Return a process's id, start and name; raises OSError.

    One that has just been started, or is a zombie, has no command line: its thread's name does.
    """
    _, started = _status(pid)
    words = [
        w.decode(errors="replace") for w in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]
    name = program_of(words) or Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return Process(pid=pid, started=started, name=name)


def program_of(words: Sequence[str]) -> str:
    """Return the program of a command line; for Python, its module or file."""
    first = Path(words[0]).name
    if not first.startswith("python"):
        return first
    named = (word for word in words[1:] if word.endswith(".py") or _MODULE.fullmatch(word))
    return Path(next(named, first)).name.removesuffix(".py")


def is_running(process: Process) -> bool:
    """Return whether a process is alive; a zombie is not."""
    try:
        state, started = _status(process.pid)
    except OSError:
        return False
    return started == process.started and state not in ("Z", "X")


def _status(pid: int) -> tuple[str, int]:
    """Return a process's state and start; <https://man7.org/linux/man-pages/man5/proc.5.html>."""
    after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return after_name[0], int(after_name[19])


def head_processes(instance: str) -> tuple[Process, ...]:
    """Return the processes of a head that `ray start` has just started."""
    found: list[Process] = []
    for marked in marked_processes(FARM_MARKER, instance):
        with suppress(OSError, psutil.Error):
            if not _is_of_autoscaler(marked):
                found.append(process_of(marked.pid))
    return tuple(found)


def _is_of_autoscaler(process: psutil.Process) -> bool:
    """Return whether a process is the autoscaler's, to set up another host: it soon ends."""
    lines = (parent.cmdline() for parent in process.parents())
    return any(line and program_of(line) == AUTOSCALER for line in lines)


def names_of_ended(processes: Iterable[Process]) -> str:
    """Return the names of ended processes; "" if none has ended."""
    return ", ".join(sorted({p.name or f"process {p.pid}" for p in processes if not is_running(p)}))


def why_away(home: Home) -> str:
    """Return why a home's farm cannot answer now; "" if it can, as far as is known."""
    cluster = home.cluster()
    if cluster is None:
        return FARM_DOWN
    gone = names_of_ended(cluster.head)
    runs = not gone and (cluster.head or _has_processes(cluster))
    if runs and home.endpoint_file.exists():
        return ""
    why = f": {gone} ended" if gone else ""
    if is_supervised(home):
        return f"{RESTARTED}{why}"
    return "" if runs else f"{FARM_DOWN}{why}"  # a farm without controller is being started


def is_hopeless(home: Home) -> bool:
    """Return whether a part of a home's farm has ended and nobody restarts it."""
    return home.cluster() is not None and why_away(home).startswith(FARM_DOWN)


def _has_processes(cluster: Cluster) -> bool:
    return next(marked_processes(FARM_MARKER, cluster.instance), None) is not None


def is_supervised(home: Home) -> bool:
    """Return whether a supervisor restarts a home's farm."""
    return home.wanted.exists() and is_locked(home.supervisor_lock)


def is_listening(address: str, owner: int | None = None) -> bool:
    """Return whether a program listens at HOST:PORT, or [IPv6]:PORT, and not another user's.

    owner: whose farm it is; None: this user's.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")  # of IPv6
    try:
        with socket.create_connection((host, int(port)), CONNECT_S) as connection:
            uid = uid_of_peer(connection)
    except OSError:
        return False
    return uid is None or uid == owner or is_trusted(uid)


def why_unanswered(home: Home, answer_s: float = ANSWER_S) -> str:
    """Return why the controller of a home's farm, which runs, does not answer, else ""."""
    try:
        address = home.endpoint().address
    except UserError:
        return f"{CONTROLLER_AWAY}: Ray starts it"
    if why := why_silent(home, answer_s):
        return why
    if not is_listening(address, home.owner):
        return f"{CONTROLLER_AWAY}: nothing listens at {address}; Ray starts it again"
    return ""


def why_silent(home: Home, answer_s: float = ANSWER_S) -> str:
    """Return a line if a home's controller listens but does not answer within answer_s, else "".

    The kernel still accepts connections for a controller that is stopped or stuck; further
    requests would wait. Also if another user's program has taken its port, which is sent nothing.
    """
    try:
        address, token = home.endpoint().address, home.read_token(home.api_token)
    except UserError:  # not up, or the token can't be trusted: don't ask
        return ""
    with closing(HTTPConnection(address, timeout=answer_s)) as connection:
        try:
            connection.connect()
            if objection := objection_to_peer(connection.sock):
                return objection
            connection.request("HEAD", "/", headers={"Authorization": f"Bearer {token}"})
            connection.getresponse()
        except TimeoutError:
            return f"the controller has not answered for {answer_s:g} s"
        except (OSError, HTTPException):  # it is away, or refused this: it isn't silent
            return ""
    return ""


def trouble_of(home: Home) -> str:
    """Return why a home's farm can't answer now and what to do, in a line; "" if it can.

    After `benchfarm down` there is no trouble.
    """
    why = why_away(home) or why_unanswered(home)
    if not (why and home.cluster()):
        return ""
    return why + ("; run: benchfarm up" if is_hopeless(home) else "")
