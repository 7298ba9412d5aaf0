"""Who waits for what happens on the farm: watchers of a sweep, and agents with nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from controller.contracts.wire import RunEvent

MAX_WAITING: Final = 2000
"""Events for a watcher who does not take them; with one more it hears nothing further."""


class Watcher(asyncio.Queue[RunEvent]):
    """The events of a sweep, for one who listens."""

    behind = False
    """Whether it has missed any: it had too many that it did not take."""

    async def batch(self) -> list[RunEvent]:
        """Wait for an event; return it with all that are there by then."""
        events = [await self.get()]
        while not self.empty():
            events.append(self.get_nowait())
        return events


class Feed:
    """Passes events on; waiting on it costs nothing."""

    def __init__(self) -> None:
        self._watchers: dict[Watcher, str] = {}
        self._changed = asyncio.Event()

    def publish(self, event: RunEvent) -> None:
        """Hand an event to its sweep's watchers; a change of state also wakes the agents."""
        for queue, sweep_id in self._watchers.items():
            if sweep_id == event.sweep_id and not queue.behind:
                queue.behind = queue.qsize() >= MAX_WAITING
                if not queue.behind:
                    queue.put_nowait(event)
        if event.progress is None:
            self._changed.set()
            self._changed = asyncio.Event()

    async def change(self, timeout_s: float) -> bool:
        """Wait for the next change of any run's state; False if none came in time."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def watch(self, sweep_id: str) -> AsyncGenerator[Watcher]:
        """Give a queue that fills with a sweep's events while the context lasts."""
        queue = Watcher()
        self._watchers[queue] = sweep_id
        try:
            yield queue
        finally:
            del self._watchers[queue]
