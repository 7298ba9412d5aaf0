"""The Linux calls that Python 3.11 lacks: namespaces and mounts. Each raises OSError."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_MNT_DETACH = 0x2
_PR_SET_PDEATHSIG = 1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_SYS_MOUNT_SETATTR = 442  # the same number on every architecture; Linux 5.12


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    function: Callable[..., int] = getattr(_libc(), name)
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (its children, for a PID namespace) into new namespaces."""
    _call("unshare", flags)


def mount(source: str | Path, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    """Attach a file system, or change one that is attached (MS_REMOUNT)."""
    texts = (os.fsencode(source), os.fsencode(target), kind.encode())
    _call("mount", *texts, ctypes.c_ulong(flags), data.encode())


def bind(source: Path, target: Path) -> None:
    """Show a directory or file, with all that is mounted below, at a second place."""
    mount(source, target, "", MS_BIND | MS_REC)


def set_read_only(path: Path, read_only: bool, *, recursive: bool = False) -> None:
    """Forbid or allow writing through a mount; EBUSY if files are open for writing."""
    flag = _MOUNT_ATTR_RDONLY
    change = _MountAttr(attr_set=flag) if read_only else _MountAttr(attr_clr=flag)
    _call(
        "syscall",
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(path),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(change),
        ctypes.c_size_t(ctypes.sizeof(change)),
    )


def change_root(root: Path) -> None:
    """Make a mounted directory the root of this mount namespace and let go of the old one."""
    os.chdir(root)
    # With both arguments the same, the old root comes to lie on top of the new (pivot_root(2)).
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def die_with_parent() -> None:
    """Let the kernel kill this process when the process that forked it ends."""
    _call("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
