"""Process 1 of a phone: confines itself, starts the daemon, keeps its log and storage, and reaps.

The daemon answers requests from outside. From the host it has only two sockets and a link to this
process for log and storage, and no privilege.
"""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401 - nothing can be imported where the daemon lives
import logging
import os
import resource
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from agents.virtual_phone import (
    cores,
    filesystem,
    memory,
    namespaces,
    sensors,
    storage,
    syscall_filter,
    syscalls,
)
from agents.virtual_phone.commands import scripts
from agents.virtual_phone.daemon import Daemon, PhoneSetup
from agents.virtual_phone.namespaces import Confinement
from controller.platform.terminal import log_visibly

MAX_TASKS = 4096
"""Most processes and threads of a phone."""
LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True)
class Ends:
    """The phone's connections to the host, and where it reports that it is ready."""

    adb: socket.socket
    owner: socket.socket
    log: Path
    said: int


def be_first(setup: PhoneSetup, way: Confinement, ends: Ends) -> NoReturn:
    """Build the phone's tree, start the daemon, and reap until it ends."""
    status = 1
    try:
        os.setsid()  # Ctrl-C is for the process outside
        log = os.open(ends.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        cpus = cores.sysfs_of(setup.cores)
        _settle(setup, way)
        for path, text in cpus.items():
            sensors.replace(filesystem.SYSFS / "cpu" / path, text)
        said, heard = socket.socketpair()
        _send_output_to(said)
        asked, answers = storage.pair()
        daemon = os.fork()
        if daemon == 0:
            _be_daemon(setup, ends, storage.Storage(answers))
        for end in (said, answers, ends.adb, ends.owner):
            end.close()
        os.close(ends.said)
        threading.Thread(target=storage.serve, args=(asked,), daemon=True).start()
        if setup.profile.memory_mib:
            most = setup.profile.memory_mib << 20
            threading.Thread(target=memory.keep_below, args=(most, daemon), daemon=True).start()
        logger = threading.Thread(target=_keep_log, args=(heard, log), daemon=True)
        logger.start()
        status = _reap_until(daemon)
        logger.join(LAST_WORDS_S)
    except OSError as error:
        os.write(ends.said, str(error).encode())
    except BaseException:
        logging.exception("process 1 has failed")
    finally:
        os._exit(status)


def _settle(setup: PhoneSetup, way: Confinement) -> None:
    namespaces.settle(way)
    syscalls.forget_start()
    socket.sethostname(setup.serial)
    os.umask(0o022)
    profile = setup.profile
    commands = scripts(old=profile.old_daemon, programs=profile.programs)
    size, hosts = profile.storage_mib << 20, sorted({*profile.programs} - {*commands})
    cpuinfo = setup.emulator.cpuinfo(len(setup.cores)) if setup.emulator else None
    meminfo = memory.meminfo(profile.memory_mib) if profile.memory_mib else None
    tree = filesystem.Tree(commands, hosts, size, profile.api_level, cpuinfo, meminfo)
    filesystem.build(namespaces.STAGE, tree)
    namespaces.forbid_more(way)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    tasks = MAX_TASKS if most == resource.RLIM_INFINITY else min(MAX_TASKS, most)
    resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))


def _be_daemon(setup: PhoneSetup, ends: Ends, kept: storage.Storage) -> NoReturn:
    log_visibly()
    try:
        syscalls.drop_capabilities()
        syscall_filter.apply()
        files = {ends.adb.fileno(), ends.owner.fileno(), kept.link.fileno(), ends.said}
        _close_all_but({0, 1, 2, *files})
        asyncio.run(_serve(setup, ends, kept))
    except BaseException:
        logging.exception("the daemon has failed")
        os._exit(1)
    os._exit(0)


async def _serve(setup: PhoneSetup, ends: Ends, kept: storage.Storage) -> None:
    ends.adb.setblocking(False)
    ends.owner.setblocking(False)
    await Daemon.of(setup, kept).run(ends.adb, ends.owner, ends.said)


def _reap_until(daemon: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == daemon:
            return abs(os.waitstatus_to_exitcode(status))


def _send_output_to(log: socket.socket) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


def _keep_log(heard: socket.socket, log: int) -> None:
    # A file of the host would be reachable by the daemon's sync service, through /proc/self/fd.
    while said := heard.recv(1 << 16):
        os.write(log, said)


def _close_all_but(kept: set[int]) -> None:
    edges = sorted(kept)
    for low, high in zip(edges, [*edges[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)
