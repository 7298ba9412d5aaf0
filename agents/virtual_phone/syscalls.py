"""Linux calls that Python 3.11 lacks: namespaces, mounts, privileges. Each raises OSError."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_MNT_DETACH = 0x2
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_CAPABILITY_VERSION = 0x20080522
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 0x1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
READ_ONLY = 0x1
"""Restrictions of a mount (MOUNT_ATTR_…)."""
NO_SETUID = 0x2
NO_DEVICES = 0x4
NO_PROGRAMS = 0x8
_SYS_MOUNT_SETATTR = 442  # on every architecture; Linux 5.12


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _Capabilities(ctypes.Structure):
    _fields_ = tuple(
        (f"{name}{word}", ctypes.c_uint32)
        for word in (0, 1)
        for name in ("effective", "permitted", "inheritable")
    )


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    function: Callable[..., int] = getattr(_libc(), name)
    if function(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (for a PID namespace: its children) into new namespaces."""
    _call("unshare", flags)


def mount(source: str | Path, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    """Attach a file system, or change one that is attached (MS_REMOUNT)."""
    texts = (os.fsencode(source), os.fsencode(target), kind.encode())
    _call("mount", *texts, ctypes.c_ulong(flags), data.encode())


def bind(source: Path, target: Path) -> None:
    """Show a directory or file, with all mounts below, at a second place."""
    mount(source, target, "", MS_BIND | MS_REC)


def set_restrictions(path: Path, forbidden: int, allowed: int = 0) -> None:
    """Change the restrictions of a mount; READ_ONLY gives EBUSY if files are open for writing."""
    _set_attributes(path, forbidden, allowed, 0)


def restrict(path: Path, restrictions: int) -> None:
    """Restrict a mount and all mounts below."""
    _set_attributes(path, restrictions, 0, _AT_RECURSIVE)


def _set_attributes(path: Path, given: int, taken: int, flags: int) -> None:
    change = _MountAttr(attr_set=given, attr_clr=taken)
    _call(
        "syscall",
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(path),
        ctypes.c_uint(flags),
        ctypes.byref(change),
        ctypes.c_size_t(ctypes.sizeof(change)),
    )


def change_root(root: Path) -> None:
    """Make a mounted directory the root of this mount namespace and detach the old one."""
    os.chdir(root)
    # With equal arguments, the old root is stacked on top of the new one (pivot_root(2)).
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends; a change of ids resets that."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_memory() -> None:
    """Hide this process's data in /proc from processes of the same user, and from debuggers."""
    _control(_PR_SET_DUMPABLE, 0)


def keep_capabilities() -> None:
    """Make the next change of the user id keep capabilities permitted."""
    _control(_PR_SET_KEEPCAPS, 1)


def regain_capabilities() -> None:
    """Make all permitted capabilities effective again."""
    header, held = _header(), _Capabilities()
    _call("capget", header, ctypes.byref(held))
    held.effective0, held.effective1 = held.permitted0, held.permitted1
    _call("capset", header, ctypes.byref(held))


def drop_capabilities() -> None:
    """Drop all capabilities."""
    _call("capset", _header(), ctypes.byref(_Capabilities()))


def start_loopback() -> None:
    """Start the only interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as interface:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        (flags,) = struct.unpack_from("h", fcntl.ioctl(interface, _SIOCGIFFLAGS, request), 16)
        request = struct.pack("16sh", b"lo", flags | _IFF_UP).ljust(40, b"\0")
        fcntl.ioctl(interface, _SIOCSIFFLAGS, request)


def forget_start() -> None:
    """Erase the command line and environment that this process was started with.

    /proc shows this memory (proc(5), cmdline); Python has its own copies.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for first, last in (fields[45:47], fields[47:49]):
        ctypes.memset(int(first), 0, int(last) - int(first))


def _control(what: int, value: int) -> None:
    _call("prctl", what, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0)))


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
