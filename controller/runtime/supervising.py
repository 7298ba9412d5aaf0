"""Restarts of what has ended: a joined host's node and agent, or a farm's head."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

HEAD_SUPERVISOR = "controller.runtime.head_supervisor"
"""The module of a farm's supervisor; run as a program."""
IN_FOREGROUND = "--block"
"""Option of the supervisor: the farm ends with this process."""
SETTLED_S = 15.0
"""Lifetime after which a restart follows at once; after a shorter one, the pause grows."""
LONGEST_PAUSE_S = 60.0


def pause_s(short_lives: int, first_s: float) -> float:
    """Return the seconds before the next start, after so many short lives in a row."""
    doublings = min(max(short_lives - 1, 0), 16)
    return min(first_s * float(1 << doublings), LONGEST_PAUSE_S)


async def end_of_one(pids: Iterable[int]) -> None:
    """Wait until one of some processes ends; return at once if one has, never without any."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    opened: list[int] = []
    try:
        for pid in pids:
            try:
                opened.append(os.pidfd_open(pid))
            except ProcessLookupError:
                return
            loop.add_reader(opened[-1], ended.set)
        await ended.wait()
    finally:
        for descriptor in opened:
            loop.remove_reader(descriptor)
            os.close(descriptor)


@dataclass(slots=True)
class Supervision:
    """The signals to a supervisor, and its messages."""

    say: Callable[[str], None]
    """Called with a line for each event."""
    signals: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    stop: asyncio.Task[None] = field(init=False)
    """Done once the supervisor is to stop."""
    _trouble: str = ""

    def __post_init__(self) -> None:
        self.stop = asyncio.create_task(self.signals.get())

    def hear(self) -> None:
        """Make SIGTERM and SIGINT stop the supervisor."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.signals.put_nowait, None)

    def say_once(self, trouble: str) -> None:
        """Report a problem once, not at every retry; "" when it is over."""
        if trouble and trouble != self._trouble:
            self.say(trouble)
        self._trouble = trouble

    async def go_on(self, live_once: Callable[[], Awaitable[float]], first_s: float) -> None:
        """Repeat until told to stop; a crash loop slows down, and that is reported.

        live_once: returns the seconds for which all was well.
        """
        short_lives = 0
        try:
            while not self.stop.done():
                lived_s = await live_once()
                short_lives = 0 if lived_s >= SETTLED_S else short_lives + 1
                pause = pause_s(short_lives, first_s)
                if pause > 2 * first_s:
                    self.say(
                        f"it ended early {short_lives} times in a row; next start in {pause:g} s"
                    )
                await asyncio.wait({self.stop}, timeout=pause)
        finally:
            self.stop.cancel()
