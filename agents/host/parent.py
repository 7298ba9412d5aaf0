"""A process that doesn't outlive the one that started it."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
"""<linux/prctl.h>"""


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even while stopped.

    Without effect if it has ended already. It outlasts exec, not fork.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
