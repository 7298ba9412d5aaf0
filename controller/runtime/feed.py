"""Events for those who wait: watchers of a sweep, and agents with nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from controller.contracts.wire import RunEvent

MAX_WAITING: Final = 2000
"""Unread events of a watcher; with one more it gets no further events."""


class Watcher(asyncio.Queue[RunEvent]):
    """The queue of a sweep's events for one watcher."""

    behind = False
    """Whether it has missed events, because too many were unread."""

    async def batch(self, timeout_s: float) -> list[RunEvent]:
        """Wait for an event; return it and all others that are queued, or none in time."""
        try:
            events = [await asyncio.wait_for(self.get(), timeout_s)]
        except TimeoutError:
            return []
        while not self.empty():
            events.append(self.get_nowait())
        return events


class Feed:
    """The distribution of events; waiting for one costs nothing."""

    def __init__(self) -> None:
        self._watchers: dict[Watcher, str] = {}
        self._changed = asyncio.Event()

    def publish(self, event: RunEvent) -> None:
        """Queue an event for its sweep's watchers; a change of state also wakes the agents."""
        for queue, sweep_id in self._watchers.items():
            if sweep_id == event.sweep_id and not queue.behind:
                queue.behind = queue.qsize() >= MAX_WAITING
                if not queue.behind:
                    queue.put_nowait(event)
        if event.progress is None:
            self._changed.set()
            self._changed = asyncio.Event()

    async def change(self, timeout_s: float) -> bool:
        """Wait for the next change of any run's state; return False if none came in time."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def watch(self, sweep_id: str) -> AsyncGenerator[Watcher]:
        """Yield a queue of the sweep's events from now on."""
        queue = Watcher()
        self._watchers[queue] = sweep_id
        try:
            yield queue
        finally:
            del self._watchers[queue]
