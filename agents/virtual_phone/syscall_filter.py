"""A seccomp filter (seccomp(2)) that refuses calls which namespaces don't isolate.

Keys belong to a user, sockets of some families to the machine (AF_VSOCK reaches its hypervisor),
and io_uring creates sockets without the call `socket`. The refused calls fail as on a kernel
without them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions of classic BPF: load a word of seccomp_data, compare equal, compare at least,
return."""
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_X32 = 0x40000000
_SET_FILTER, _KEEP_SPECULATION = 1, 4
_PR_SET_NO_NEW_PRIVS = 38


@dataclass(frozen=True, slots=True)
class _Machine:
    architecture: int
    seccomp: int
    socket: int
    refused: tuple[int, ...]
    """add_key, request_key, keyctl, io_uring_setup."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, 41, (248, 249, 250, 425)),
    "aarch64": _Machine(0xC00000B7, 277, 198, (217, 218, 219, 425)),
}


def apply() -> None:
    """Filter the calls of this process and of its children; raises OSError.

    Sets no_new_privs, without which the filter would need a capability.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"no system call numbers of {platform.machine()} are known")
    text = b"".join(_program(machine))
    code = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("@HxxxxxxP", len(text) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    longs = map(ctypes.c_ulong, (1, 0, 0, 0))
    # Without the flag, older kernels slow down all computing as protection against Spectre.
    call = (ctypes.c_long(n) for n in (machine.seccomp, _SET_FILTER, _KEEP_SPECULATION))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, *longs) or libc.syscall(*call, program):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(machine: _Machine) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCHITECTURE)
    yield from _unless_equal(machine.architecture, _REFUSE | errno.ENOSYS)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, jump_if_not=1)
    yield _step(_RETURN, _REFUSE | errno.ENOSYS)
    for number in machine.refused:
        yield from _if_equal(number, _REFUSE | errno.ENOSYS)
    yield from _unless_equal(machine.socket, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    for family in _FAMILIES:
        yield from _if_equal(family, _ALLOW)
    yield _step(_RETURN, _REFUSE | errno.EAFNOSUPPORT)


def _if_equal(value: int, answer: int) -> Iterator[bytes]:
    yield _step(_EQUAL, value, jump_if_not=1)
    yield _step(_RETURN, answer)


def _unless_equal(value: int, answer: int) -> Iterator[bytes]:
    yield _step(_EQUAL, value, jump_if=1)
    yield _step(_RETURN, answer)


def _step(code: int, value: int, *, jump_if: int = 0, jump_if_not: int = 0) -> bytes:
    return struct.pack("@HBBI", code, jump_if, jump_if_not, value)
