"""The processes that benchfarm started, found by a marker in their environment.

A marker outlasts process groups and sessions, which children of Ray or of a workload may leave.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

FARM_MARKER = "BENCHFARM_FARM"
"""Environment variable of a farm's processes; its value is the farm's instance."""
WORKER_MARKER = "BENCHFARM_WORKER_OF"
"""Environment variable of every worker; its value names the agent that started it."""
ATTEMPT_MARKER = "BENCHFARM_ATTEMPT"
"""Environment variable of every worker; its value is `agent/run id/attempt`.

The agent is in it because farms that were given the same sweep have runs of the same id."""
UNKILLABLE_S = 20.0
Expendable = Callable[[psutil.Process], bool]
LOOK_S = 0.05
"""Interval of looks at what is ending."""
EXEC_LOOKS = 10
EXEC_LOOK_S = 0.0005
_PR_SET_CHILD_SUBREAPER = 36
"""<linux/prctl.h>"""


def _nobody(_: psutil.Process) -> bool:
    return False


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGKILL."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def marked_processes(marker: str, value: str) -> Iterator[psutil.Process]:
    """Yield every other live process of this user that carries the marker."""
    wanted = f"{marker}={value}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in environment_of(entry).split(b"\0"):
                yield psutil.Process(int(entry.name))
        except (OSError, psutil.NoSuchProcess):  # ended meanwhile, or someone else's
            continue


def environment_of(entry: Path) -> bytes:
    """Return a process's environment from its folder in /proc; raises OSError.

    Once its first thread has ended, only the others have it.
    """
    try:
        return _environment_of_thread(entry)
    except OSError:
        if entry.stat().st_uid != os.geteuid():
            raise
        for thread in (entry / "task").iterdir():
            if thread.name != entry.name:
                with suppress(OSError):
                    return _environment_of_thread(thread)
        raise


def _environment_of_thread(entry: Path) -> bytes:
    """Return a thread's environment; raises OSError.

    It is empty for microseconds while the process becomes another program (execve); this waits.
    """
    for _ in range(EXEC_LOOKS):
        if found := (entry / "environ").read_bytes():
            return found
        (entry / "exe").readlink()  # which a kernel thread doesn't have, nor one that has ended
        time.sleep(EXEC_LOOK_S)
    return b""


def end_marked(marker: str, value: str, grace_s: float, expendable: Expendable = _nobody) -> int:
    """End all marked processes and their descendants; see `end_all`."""
    return end_all(partial(marked_processes, marker, value), grace_s, expendable)


def end_all(
    find: Callable[[], Iterator[psutil.Process]], grace_s: float, expendable: Expendable = _nobody
) -> int:
    """End all found processes and their descendants, by SIGTERM and then by SIGKILL.

    expendable: tells which have nothing to put away; once only they are left, they are killed at
    once.
    Returns their number. Repeats until none is left, since a dying process may still start
    another. Raises TimeoutError if one survives SIGKILL for UNKILLABLE_S (stuck in the kernel).
    """
    ended: set[int] = set()
    deadline = time.monotonic() + grace_s
    family: dict[int, psutil.Process] = {}
    while alive := _live_family(find, family):
        ended.update(p.pid for p in alive)
        awaited = [p for p in alive if not expendable(p)]
        late = time.monotonic() >= deadline or not awaited
        if time.monotonic() >= deadline + UNKILLABLE_S:
            raise TimeoutError(f"processes survived SIGKILL: {[p.pid for p in alive]}")
        for process in alive:
            _signal(process, signal.SIGKILL if late else signal.SIGTERM)
        wait_s = 1.0 if late else max(0.1, deadline - time.monotonic())
        _await_ends(awaited or alive, wait_s)
    return len(ended)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that it can reap them.

    Where nothing else reaps (process 1 of many containers does not), zombies would stay.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _live_family(
    find: Callable[[], Iterator[psutil.Process]], known: dict[int, psutil.Process]
) -> list[psutil.Process]:
    """Return the live processes among the found, their descendants, and the known ones.

    Some of Ray's processes overwrite their environment when they set their title: they are found
    as children, and have to be remembered, since they lose their parent on the way.
    """
    for process in find():
        known[process.pid] = process
        try:
            known.update((child.pid, child) for child in process.children(recursive=True))
        except psutil.NoSuchProcess:
            continue
    known.pop(os.getpid(), None)
    return [process for process in known.values() if _is_live(process)]


def _is_live(process: psutil.Process) -> bool:
    """Return whether any thread lives: the others keep files and locks when the first has ended."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def _await_ends(processes: Sequence[psutil.Process], timeout_s: float) -> None:
    """Wait until processes have ended; a parent that is ending itself may reap none of them."""
    ends = time.monotonic() + timeout_s
    while any(map(_is_live, processes)) and (left_s := ends - time.monotonic()) > 0:
        psutil.wait_procs(processes, timeout=min(left_s, LOOK_S))
    psutil.wait_procs(processes, timeout=0)  # reaps those that are this process's children


def name_of(process: psutil.Process) -> str:
    """Return the name of a process's program, "" if it has ended."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
