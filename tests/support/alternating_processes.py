"""Two programs on one core, a second each in turn: what disturbs the core disturbs both alike."""

from __future__ import annotations

import asyncio
import signal
from itertools import cycle

import psutil

SLICE_S = 1.0
_ENDED = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})


async def alternate(first: psutil.Process, second: psutil.Process) -> None:
    """Let one run while the other is stopped, until one of them has ended; then the other goes on.

    The programs don't notice, but for what was under way at the end of a turn.
    """
    pair = (first, second)
    try:
        for now in cycle((0, 1)):
            pair[1 - now].send_signal(signal.SIGSTOP)
            pair[now].send_signal(signal.SIGCONT)
            await asyncio.sleep(SLICE_S)
            if not all(map(_lives, pair)):
                return
    except psutil.NoSuchProcess:
        return
    finally:
        for process in filter(_lives, pair):
            process.send_signal(signal.SIGCONT)


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() not in _ENDED
