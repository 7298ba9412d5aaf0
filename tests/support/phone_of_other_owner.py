"""`python -m tests.support.phone_of_other_owner WAY OPTION…`: a virtual phone of another owner."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from agents.virtual_phone import __main__ as program
from agents.virtual_phone import launch, syscalls
from tests.support.other_user import OTHER_UID

KEY = "benchfarm-secret-key"
"""A key in the session keyring of the phone's owner."""
_ADD_KEY = {"x86_64": 248, "aarch64": 217}
_SESSION = -3
_PR_SET_DUMPABLE = 4


def _stay_root() -> None:
    return


def _become_unprivileged() -> None:
    os.setgroups([])
    os.setresgid(OTHER_UID, OTHER_UID, OTHER_UID)
    os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
    # As after the start of a program: a change of ids takes a process's own /proc away from it.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, *map(ctypes.c_ulong, (1, 0, 0, 0)))


def _forbid_user_namespaces() -> None:
    """Be root of a user namespace with all ids, in which no other can be made."""
    wait, go = os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.read(wait, 1)
        for kind in ("uid", "gid"):
            Path(f"/proc/{parent}/{kind}_map").write_text("0 0 4294967295")
        os._exit(0)
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    os.write(go, b"!")
    assert os.wait()[1] == 0
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


WAYS: Mapping[str, Callable[[], None]] = {
    "root": _stay_root,
    "unprivileged": _become_unprivileged,
    "no-user-namespaces": _forbid_user_namespaces,
}


def _plant_key() -> None:
    number = _ADD_KEY[os.uname().machine]
    arguments = (b"user", KEY.encode(), b"secret", ctypes.c_size_t(6), ctypes.c_int(_SESSION))
    ctypes.CDLL(None).syscall(ctypes.c_long(number), *arguments)


def main() -> int:
    become = WAYS[sys.argv.pop(1)]
    setup = program._setup(program._options())  # reads files that the other owner may not
    folder = program._options().folder
    become()
    _plant_key()
    return launch.run(setup, folder, 0, until_stdin_closes=True)


if __name__ == "__main__":
    sys.exit(main())
