"""The confinement of a phone: namespaces, and a user id that nobody else has.

In a user namespace the phone's process 1 is privileged over the phone only. Where user namespaces
are forbidden, root can do without. Either way the daemon and its commands, which a host can reach,
have no capability and can't get one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from agents.virtual_phone import syscalls
from agents.virtual_phone.emulation import Emulator
from agents.virtual_phone.errors import PhoneUnconfined

SHELL_ID = 2000
"""User and group of `adb shell` on Android."""
ROOT_ID = 0
"""The user that may change a namespace's table of program formats."""
MAKER_ID = 1
STAGE = Path("/tmp")
"""Where a phone's tree is assembled, visible only in the phone's own mount namespace."""
_INSIDE = (
    syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWCGROUP
)
_PROC_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_UNUSED = (range(1_900_000_000, 1_905_000_000), range(60_000, 65_000))
"""Ids that systems assign to no user; the second for containers with only 65,536 ids."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """How phones are confined on this system."""

    users: bool
    """Whether it uses a user namespace."""
    user: int
    group: int
    """Ids of the phone on the host."""
    shared: bool
    """Whether the ids are those of its owner, who is not root; else nobody has them."""
    emulator: Emulator | None = None
    """The emulator of its programs, if this host's processor can't run them."""


def choose(emulator: Emulator | None = None) -> Confinement:
    """Return the confinement that works here; raises PhoneUnconfined.

    emulator: requires a user namespace.
    """
    seen = ""
    for way in _ways() if emulator is None else filter(_has_users, _ways()):
        way = replace(way, emulator=emulator)
        seen = _try(way)
        if not seen:
            return way
    raise PhoneUnconfined(
        "isolate a virtual phone",
        seen,
        "Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone,"
        " kernel.apparmor_restrict_unprivileged_userns=0), or run in a privileged container."
        f" It needs Linux {'6.7, to emulate a processor' if emulator else '5.12'}.",
    )


def unused_id(user_map: str, group_map: str, number: int) -> int | None:
    """Return an id that no user has, a different one for each number, or None.

    The maps are the texts of /proc/self/uid_map and gid_map, which list the ids that exist here.
    """
    for ids in _UNUSED:
        chosen = ids[number % len(ids)]
        if _has(user_map, chosen) and _has(group_map, chosen):
            return chosen
    return None


def enter(way: Confinement) -> None:
    """Move into new namespaces; the next fork is their process 1, which calls `settle`.

    Raises OSError.
    """
    if not way.users:
        syscalls.unshare(syscalls.CLONE_NEWPID)
        return
    if way.emulator:
        # The creator of the next namespace must have an id in this one.
        maker = () if way.shared else ((MAKER_ID, os.geteuid(), os.getegid()),)
        _enter_users(syscalls.CLONE_NEWNS, way, (ROOT_ID, way.user, way.group), *maker)
        syscalls.mount("none", Path("/"), "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        way.emulator.register()
        way = replace(way, user=ROOT_ID, group=ROOT_ID)  # their ids in the new namespace
    _enter_users(syscalls.CLONE_NEWPID, way, (SHELL_ID, way.user, way.group))


def _enter_users(more: int, way: Confinement, *ids: tuple[int, int, int]) -> None:
    """Move into a user namespace, and others; ids: of user and group inside, and user, group
    outside."""
    # Only a process outside the namespace may map another id.
    wait, go = os.pipe()
    parent = os.getpid()
    mapper = os.fork()
    if mapper == 0:
        os.close(go)
        _map_ids(wait, parent, way, ids)
    os.close(wait)
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER | more)
        os.write(go, b"!")
    finally:
        os.close(go)
        number = os.waitstatus_to_exitcode(os.waitpid(mapper, 0)[1])
    if number:
        raise OSError(number, f"map user {way.user}: {os.strerror(number)}")


def settle(way: Confinement) -> None:
    """Leave the host's mounts, network, IPC and ids; called first by process 1.

    Keeps the capabilities over the phone. Raises OSError.
    """
    syscalls.unshare(_INSIDE)
    syscalls.mount("none", Path("/"), "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.keep_capabilities()
    if not way.shared:
        os.setgroups([])
    user, group = (SHELL_ID, SHELL_ID) if way.users else (way.user, way.group)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    syscalls.regain_capabilities()
    syscalls.hide_memory()
    syscalls.die_with_parent()
    syscalls.start_loopback()


def forbid_more(way: Confinement) -> None:
    """Forbid commands to create user namespaces, which would expose more of the kernel; needs the
    phone's /proc.

    Without a user namespace the limit would be the host's. Raises OSError.
    """
    if way.users:
        Path("/proc/sys/user/max_user_namespaces").write_text("0")


def mount_proc(target: Path) -> None:
    """Mount /proc with the processes of this namespace; called by its process 1 or a child."""
    syscalls.mount("proc", target, "proc", _PROC_FLAGS)


def _ways() -> list[Confinement]:
    own = Confinement(users=True, user=os.geteuid(), group=os.getegid(), shared=True)
    if os.geteuid() != 0:
        return [own]
    users, groups = (Path(f"/proc/self/{kind}_map").read_text() for kind in ("uid", "gid"))
    other = unused_id(users, groups, os.getpid())
    if other is None:  # a container with a single user, its root
        return [own]
    return [Confinement(way, user=other, group=other, shared=False) for way in (True, False)]


def _has_users(way: Confinement) -> bool:
    return way.users


def _has(id_map: str, number: int) -> bool:
    lines = (line.split() for line in id_map.splitlines())
    return any(int(first) <= number < int(first) + int(count) for first, _, count in lines)


def _map_ids(
    wait: int, pid: int, way: Confinement, ids: Sequence[tuple[int, int, int]]
) -> NoReturn:
    number = 1
    try:
        if os.read(wait, 1):
            folder = Path(f"/proc/{pid}")
            if way.shared:  # required by Linux of those who may map only themselves
                (folder / "setgroups").write_text("deny")
            users, groups = [f"{i} {u} 1" for i, u, _ in ids], [f"{i} {g} 1" for i, _, g in ids]
            (folder / "uid_map").write_text("\n".join(users))
            (folder / "gid_map").write_text("\n".join(groups))
        number = 0
    except OSError as error:
        number = error.errno or 1
    finally:
        os._exit(number)


def _try(way: Confinement) -> str:
    """Try the namespaces in a separate process; return what failed, or ""."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        _report(said, way)
    os.close(said)
    with os.fdopen(heard, errors="replace") as answer:
        seen = answer.read()
    _, status = os.waitpid(pid, 0)
    return seen or ("" if status == 0 else f"the trial ended with status {status}")


def _report(said: int, way: Confinement) -> None:
    status = 1
    try:
        enter(way)
        first = os.fork()
        if first == 0:
            settle(way)
            mount_proc(Path("/proc"))
            syscalls.mount("trial", STAGE, "tmpfs")
            syscalls.restrict(Path("/"), syscalls.READ_ONLY)
            status = 0
        else:
            status = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    except OSError as error:
        os.write(said, str(error).encode())
    finally:
        os._exit(status)
