"""Starts a phone: sockets and namespaces, its process 1, the daemon; then watches over them.

Three processes: this one outside, which owns the folder; process 1 of the phone's namespaces, which
reaps; the daemon. When the first ends, however it ends, the kernel ends all others.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from agents.android.virtual import (
    cgroup,
    control,
    cores,
    filesystem,
    namespaces,
    sensors,
    syscalls,
)
from agents.android.virtual.commands import scripts
from agents.android.virtual.daemon import Daemon, PhoneSetup
from agents.android.virtual.errors import PhoneNotRunning, PhoneOptionsInvalid

LOG = "phone.log"
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ROOT = "root"
"""The empty directory that the phone's tree is mounted on, in its own namespace."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a phone is kept and reached."""

    folder: Path
    temporary: bool
    """Whether the folder goes with the phone."""
    port: int
    adb: socket.socket
    owner: socket.socket

    @classmethod
    def make(cls, folder: Path | None, port: int) -> Place:
        """Listen on 127.0.0.1 and make the folder; raises PhoneOptionsInvalid."""
        try:
            adb = socket.create_server(("127.0.0.1", port))
            # Accepted connections inherit it; asyncio sets it only on sockets it has made.
            adb.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, OverflowError) as error:
            remedy = "choose another port, or 0 for a free one"
            raise PhoneOptionsInvalid(f"listen on port {port}", str(error), remedy) from error
        kept = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="virtual-phone-"))
        try:
            (kept / ROOT).mkdir(parents=True, exist_ok=True)
            _lock(kept)
            owner = control.listen(kept)
        except OSError as error:
            remedy = "choose a folder that can be written and holds no running phone"
            raise PhoneOptionsInvalid(f"keep a phone in {kept}", str(error), remedy) from error
        return cls(kept, folder is None, adb.getsockname()[1], adb, owner)


def _lock(folder: Path) -> None:
    # Held by the open descriptor, so until the last of the phone's processes has ended.
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def run(setup: PhoneSetup, folder: Path | None, port: int, *, until_stdin_closes: bool) -> int:
    """Be a phone until a signal (or the end of standard input) comes; return the exit status.

    Prints one JSON line when adb can connect. Without a folder it makes one, and removes it at its
    end. Raises PhoneOptionsInvalid, PhoneUnconfined or PhoneNotRunning.
    """
    kinds = namespaces.choose()
    place = Place.make(folder, port)
    os.sched_setaffinity(0, setup.cores)
    quota = _quota(setup)
    namespaces.enter(kinds)
    first, heard = _fork_first(setup, place)
    for number in _STOP:
        signal.signal(number, _stop)
    try:
        _wait_until_ready(heard, place)
        _announce(setup, place, quota)
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


def _fork_first(setup: PhoneSetup, place: Place) -> tuple[int, int]:
    """Fork process 1 of the phone; return its id, and where it says that it is ready."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        _be_first(setup, place, said)
    os.close(said)
    place.adb.close()
    place.owner.close()
    return pid, heard


def _be_first(setup: PhoneSetup, place: Place, said: int) -> NoReturn:
    """Build the phone's tree, start the daemon, and reap until it ends."""
    status = 1
    try:
        syscalls.die_with_parent()
        namespaces.leave_mounts()
        os.setsid()  # a Ctrl-C is for the process outside
        _send_output_to(place.folder / LOG)
        cpus = cores.sysfs_of(setup.cores)
        commands = scripts(old=setup.profile.old_daemon)
        filesystem.build(place.folder / ROOT, commands, setup.profile.storage_mib << 20)
        for path, text in cpus.items():
            sensors.replace(filesystem.SYSFS / "cpu" / path, text)
        daemon = os.fork()
        if daemon == 0:
            _be_daemon(setup, place, said)
        os.close(said)
        status = _reap_until(daemon)
    except OSError as error:
        os.write(said, str(error).encode())
    except BaseException:
        logging.exception("process 1 has failed")
    finally:
        os._exit(status)


def _be_daemon(setup: PhoneSetup, place: Place, said: int) -> NoReturn:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        os.umask(0o022)
        asyncio.run(_serve(setup, place, said))
    except BaseException:
        logging.exception("the daemon has failed")
        os._exit(1)
    os._exit(0)


async def _serve(setup: PhoneSetup, place: Place, said: int) -> None:
    place.adb.setblocking(False)
    place.owner.setblocking(False)
    await Daemon.of(setup).run(place.adb, place.owner, said)


def _reap_until(daemon: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == daemon:
            return abs(os.waitstatus_to_exitcode(status))


def _send_output_to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _wait_until_ready(heard: int, place: Place) -> None:
    with os.fdopen(heard, errors="replace") as pipe:
        said = pipe.read()
    if said != "ready":
        log = place.folder / LOG
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        seen = said or (lines[-1] if lines else "it ended at once")
        raise PhoneNotRunning("start the virtual phone", seen, f"see {log}")


def _announce(setup: PhoneSetup, place: Place, quota: cgroup.Quota) -> None:
    said = {
        "serial": setup.serial,
        "model": setup.profile.model,
        "virtual": True,
        "address": f"127.0.0.1:{place.port}",
        "port": place.port,
        "folder": str(place.folder),
        "pid": os.getpid(),
        "cores": list(setup.cores),
        "cpu_quota": setup.profile.cpu.quota if quota.enforced else None,
        "cpu_quota_reason": quota.reason,
    }
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


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
    os.kill(first, signal.SIGKILL)  # the kernel kills its whole namespace with it
    os.waitpid(first, 0)
    (place.folder / control.SOCKET).unlink(missing_ok=True)
    (place.folder / ROOT).rmdir()
    if place.temporary:
        shutil.rmtree(place.folder)
    if quota.cgroup:
        quota.cgroup.rmdir()
