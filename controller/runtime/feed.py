"""Who waits for what happens on the farm: watchers of a sweep, and agents with nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from controller.contracts.wire import RunEvent


class Feed:
    """Passes events on; waiting on it costs nothing."""

    def __init__(self) -> None:
        self._watchers: dict[asyncio.Queue[RunEvent], str] = {}
        self._changed = asyncio.Event()

    def publish(self, event: RunEvent) -> None:
        """Hand an event to its sweep's watchers; a change of state also wakes the agents."""
        for queue, sweep_id in self._watchers.items():
            if sweep_id == event.sweep_id:
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
    async def watch(self, sweep_id: str) -> AsyncGenerator[asyncio.Queue[RunEvent]]:
        """Give a queue that fills with a sweep's events while the context lasts."""
        queue: asyncio.Queue[RunEvent] = asyncio.Queue()
        self._watchers[queue] = sweep_id
        try:
            yield queue
        finally:
            del self._watchers[queue]
