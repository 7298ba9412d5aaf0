"""Starts a phone: sockets, namespaces, process 1 and the daemon; then watches over them.

Three processes: this one outside, which owns the folder; process 1 of the phone's namespaces, which
reaps; the daemon. When this process ends, for any reason, the kernel ends the others.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import socket
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from agents.virtual_phone import cgroup, control, namespaces
from agents.virtual_phone.daemon import PhoneSetup
from agents.virtual_phone.errors import PhoneNotRunning, PhoneOptionsInvalid
from agents.virtual_phone.first import Ends, be_first
from agents.virtual_phone.namespaces import Confinement
from controller.contracts.virtual_phone import PhoneFacts
from controller.platform.helper_main import Replies
from controller.platform.locks import lock_while_alive
from controller.platform.terminal import say

LOG = "phone.log"
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Place:
    """A phone's folder and address."""

    folder: Path
    temporary: bool
    """Whether the folder is removed with the phone."""
    port: int
    adb: socket.socket
    owner: socket.socket

    @classmethod
    def make(cls, folder: Path | None, port: int) -> Place:
        """Listen on 127.0.0.1 and create the folder; raises PhoneOptionsInvalid."""
        try:
            adb = socket.create_server(("127.0.0.1", port))
            # Accepted connections inherit it; asyncio sets it only on sockets that it created.
            adb.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, OverflowError) as error:
            remedy = "Choose another port, or 0 for a free one."
            raise PhoneOptionsInvalid(f"listen on port {port}", str(error), remedy) from error
        kept = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="virtual-phone-"))
        try:
            kept.mkdir(parents=True, exist_ok=True)
            _refuse_others(kept)
            lock_while_alive(kept)
            owner = control.listen(kept)
        except OSError as error:
            remedy = "Choose a folder that this user may write to and no running phone uses."
            raise PhoneOptionsInvalid(
                f"keep a virtual phone in {kept}", str(error), remedy
            ) from error
        return cls(kept, folder is None, adb.getsockname()[1], adb, owner)


def _refuse_others(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "other users may change it")


def run(setup: PhoneSetup, folder: Path | None, port: int, *, until_stdin_closes: bool) -> int:
    """Run a phone until a signal (or the end of standard input) comes; return the exit status.

    Prints one JSON line when adb can connect. Without a folder it creates one, and removes it at
    its end. Raises PhoneOptionsInvalid, PhoneUnconfined or PhoneNotRunning.
    """
    os.umask(0o077)
    way = namespaces.choose(setup.emulator)
    place = Place.make(folder, port)
    os.sched_setaffinity(0, setup.cores)
    quota = _quota(setup)
    namespaces.enter(way)
    first, heard = _fork_first(setup, way, place)
    for number in _STOP:
        signal.signal(number, _stop)
    try:
        _wait_until_ready(heard, place)
        _announce(_facts(setup, place, quota), until_stdin_closes=until_stdin_closes)
        return _watch(first, until_stdin_closes=until_stdin_closes)
    finally:
        _clear_up(first, place, quota)


def _quota(setup: PhoneSetup) -> cgroup.Quota:
    share = setup.profile.cpu.quota
    if share >= 1:
        return cgroup.Quota(False, "the profile asks for whole cores")
    proc = Path("/proc/self")
    parents = cgroup.candidates((proc / "mountinfo").read_text(), (proc / "cgroup").read_text())
    return cgroup.limit(f"benchfarm-phone-{setup.serial}", share * len(setup.cores), parents)


def _fork_first(setup: PhoneSetup, way: Confinement, place: Place) -> tuple[int, int]:
    """Fork process 1 of the phone; return its id, and the descriptor on which it reports that it is
    ready."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        be_first(setup, way, Ends(place.adb, place.owner, place.folder / LOG, said))
    os.close(said)
    place.adb.close()
    place.owner.close()
    return pid, heard


def _wait_until_ready(heard: int, place: Place) -> None:
    with os.fdopen(heard, errors="replace") as pipe:
        said = pipe.read()
    if said != "ready":
        log = place.folder / LOG
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        seen = said or (lines[-1] if lines else "it ended at once")
        raise PhoneNotRunning("start the virtual phone", seen, f"Read {log}.")


def _announce(facts: PhoneFacts, *, until_stdin_closes: bool) -> None:
    if until_stdin_closes:
        Replies(sys.stdout).answer(facts)
    else:
        say(facts.model_dump_json())


def _facts(setup: PhoneSetup, place: Place, quota: cgroup.Quota) -> PhoneFacts:
    return PhoneFacts(
        serial=setup.serial,
        model=setup.profile.model,
        address=f"127.0.0.1:{place.port}",
        port=place.port,
        folder=str(place.folder),
        pid=os.getpid(),
        cores=tuple(setup.cores),
        cpu_quota=setup.profile.cpu.quota if quota.enforced else None,
        cpu_quota_reason=quota.reason,
    )


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise SystemExit(0)


def _watch(first: int, *, until_stdin_closes: bool) -> int:
    """Wait until the phone has died by itself (1) or standard input has closed (0)."""
    death = os.pidfd_open(first)
    watched = [death, sys.stdin.fileno()] if until_stdin_closes else [death]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if death in ready:
            return 1
        if not os.read(sys.stdin.fileno(), 1024):
            return 0


def _clear_up(first: int, place: Place, quota: cgroup.Quota) -> None:
    for number in _STOP:
        signal.signal(number, signal.SIG_IGN)
    os.kill(first, signal.SIGKILL)  # the kernel then kills its whole namespace
    os.waitpid(first, 0)
    (place.folder / control.SOCKET).unlink(missing_ok=True)
    if place.temporary:
        shutil.rmtree(place.folder)
    if quota.cgroup:
        quota.cgroup.rmdir()
