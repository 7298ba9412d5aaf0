"""The namespaces a phone lives in: mounts, processes and, where they can be had, users.

In a user namespace no privilege is needed, and commands have none either, whoever starts the phone.
Where user namespaces are forbidden, root can do without; commands are root's then.
"""

from __future__ import annotations

import os
from pathlib import Path

from agents.android.virtual import syscalls
from agents.android.virtual.errors import PhoneUnconfined

SHELL_ID = 2000
"""User and group of `adb shell` on Android."""
_PLAIN = syscalls.CLONE_NEWPID
_UNPRIVILEGED = _PLAIN | syscalls.CLONE_NEWUSER
_PROC_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


def choose() -> int:
    """Return the flags for `enter` that work here; raises PhoneUnconfined."""
    seen = _try(_UNPRIVILEGED)
    if not seen:
        return _UNPRIVILEGED
    if os.geteuid() == 0:
        seen = _try(_PLAIN)
        if not seen:
            return _PLAIN
    raise PhoneUnconfined(
        "make namespaces to keep a virtual phone in",
        seen,
        "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone,"
        " kernel.apparmor_restrict_unprivileged_userns=0), or run in a privileged container;"
        " needs Linux 5.12",
    )


def enter(flags: int) -> None:
    """Move into new namespaces; the next fork is process 1 of them, and has its own mounts to make.

    Raises OSError.
    """
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(flags)
    if flags & syscalls.CLONE_NEWUSER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{SHELL_ID} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{SHELL_ID} {group} 1")


def leave_mounts() -> None:
    """Give this process mounts of its own, whose changes nobody outside sees; raises OSError."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", Path("/"), "", syscalls.MS_REC | syscalls.MS_PRIVATE)


def mount_proc(target: Path) -> None:
    """Show the processes of this namespace; called by its process 1 or a child."""
    syscalls.mount("proc", target, "proc", _PROC_FLAGS)


def _try(flags: int) -> str:
    """Make the namespaces in a process of their own; return what failed, "" if nothing did."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        _report(said, flags)
    os.close(said)
    with os.fdopen(heard, errors="replace") as answer:
        seen = answer.read()
    _, status = os.waitpid(pid, 0)
    return seen or ("" if status == 0 else f"the trial ended with status {status}")


def _report(said: int, flags: int) -> None:
    status = 1
    try:
        enter(flags)
        first = os.fork()
        if first == 0:
            leave_mounts()
            mount_proc(Path("/proc"))
            syscalls.set_read_only(Path("/"), read_only=True, recursive=True)
            status = 0
        else:
            status = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    except OSError as error:
        os.write(said, str(error).encode())
    finally:
        os._exit(status)
