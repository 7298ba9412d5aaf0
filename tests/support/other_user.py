"""Another user of this machine, for tests of what is kept from others: uid 65534, no groups."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
CAPABILITY_VERSION_3, PR_CAPBSET_DROP = 0x20080522, 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
OVERRIDES = 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH
OTHER_UID = 65534
"""`nobody` of Debian; a process of it may read what everybody may, and nothing of ours."""


@functools.cache
def why_no_other_user() -> str:
    """Return why this process can't become another user; "" if it can."""
    if os.geteuid() != 0:
        return "becoming a second user needs root"
    done = subprocess.run(["true"], user=OTHER_UID, group=OTHER_UID, extra_groups=[], check=False)
    return "" if done.returncode == 0 else f"`true` as uid {OTHER_UID} ended with {done.returncode}"


needs_other_user = pytest.mark.skipif(bool(why_no_other_user()), reason=why_no_other_user() or "-")


def run_as_other_user(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the system (not of our environment, which it may not reach) as them."""
    return subprocess.run(
        command,
        user=OTHER_UID,
        group=OTHER_UID,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def call_as_other_user(call: Callable[[], T]) -> T:
    """Call a function in a child process of theirs; return what it does, raise what it raises.

    What it returns is pickled. What it needs must be imported before: they can't read our modules,
    nor any other of our files.
    """
    return _in_child(_become_them, call)


def call_without_override(call: Callable[[], T]) -> T:
    """Call a function in a child process of ours that files' modes hold for, although it is root's.

    So it reads our files, wherever they are, and not what is another user's alone.
    """
    return _in_child(_give_up_override, call)


def _in_child(become: Callable[[], None], call: Callable[[], T]) -> T:
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(said, become, call)
    os.close(said)
    with os.fdopen(heard, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not answer:
        raise RuntimeError(f"the stranger said nothing and ended with status {status}")
    outcome: tuple[Any, BaseException | None] = pickle.loads(answer)
    value, error = outcome
    if error is not None:
        raise error
    result: T = value
    return result


def _become_them() -> None:
    os.setgroups([])
    os.setresgid(OTHER_UID, OTHER_UID, OTHER_UID)
    os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
    os.chdir("/")


def _give_up_override() -> None:
    """Give up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (capabilities(7)), here and in programs."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # twice effective, permitted, inheritable: low and high halves
    _succeed(libc.capget(header, sets))
    for number in range(3):
        sets[number] &= ~OVERRIDES
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        _succeed(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
    _succeed(libc.capset(header, sets))


def _succeed(returned: int) -> None:
    if returned:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _answer(said: int, become: Callable[[], None], call: Callable[[], T]) -> None:
    try:
        become()
        try:
            answer = pickle.dumps((call(), None))
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            answer = pickle.dumps((None, error))
        with os.fdopen(said, "wb") as pipe:
            pipe.write(answer)
    except BaseException:  # noqa: BLE001 - a forked child must not go on as pytest
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(0)
