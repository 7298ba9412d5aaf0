"""What users ask of sweeps, so that whatever one of them asks, the others are answered.

Each user's requests are answered one after another. What takes long is done in threads (to expand
a sweep, to store it, to read its runs) or batch by batch, and others' requests come in between.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from controller.contracts.administration import SweepStanding
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Submission
from controller.runtime.sweeps import Sweeps

THREADS: Final = 4
"""So many users' sweeps are expanded at once."""
LONGEST_PAUSE_S: Final = 0.1
SWITCH_S: Final = 0.0005
"""How long a thread may compute while the event loop waits for it: SQLite's driver gives the
interpreter away at each row, and has to wait so long each time."""
Answer = TypeVar("Answer")
Given = ParamSpec("Given")


class Desk:
    """Stands before the sweeps of one farm."""

    def __init__(self, sweeps: Sweeps) -> None:
        sys.setswitchinterval(SWITCH_S)
        self._sweeps = sweeps
        self._threads = ThreadPoolExecutor(THREADS, "sweeps")
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._resuming = asyncio.Lock()
        """Held from when the runs are read until they are queued."""

    async def submit(self, sweep: Sweep, user: str, *, again: bool) -> Submission:
        """See Sweeps.submit."""
        return await self._in_turn(user, partial(self._submit, sweep, user, again))

    async def standing(self, sweep_id: str, user: str) -> SweepStanding:
        """See Sweeps.standing."""
        return await self._in_turn(user, partial(self._standing, sweep_id, user))

    async def cancel(self, sweep_id: str, user: str) -> int:
        """See Sweeps.cancel."""
        return await self._in_turn(user, partial(self._cancel, sweep_id, user))

    async def resume(self, sweep_id: str, user: str) -> int:
        """See Sweeps.resume."""
        return await self._in_turn(user, partial(self._resume, sweep_id, user))

    async def _submit(self, sweep: Sweep, user: str, again: bool) -> Submission:
        if known := self._sweeps.known(sweep, user, again=again):
            return known
        cells = await self._in_thread(self._sweeps.expansion(sweep, user))
        record = self._sweeps.record(sweep, cells, user, again=again)
        with self._sweeps.taken(record):
            new = await self._in_thread(self._sweeps.keep, record, cells)
        return self._sweeps.queue(record, cells, new)

    async def _standing(self, sweep_id: str, user: str) -> SweepStanding:
        return self._sweeps.standing(sweep_id, user)

    async def _cancel(self, sweep_id: str, user: str) -> int:
        return await _in_batches(self._sweeps.cancelling(sweep_id, user))

    async def _resume(self, sweep_id: str, user: str) -> int:
        self._sweeps.require(sweep_id, user)
        async with self._resuming:
            ended = await self._in_thread(self._sweeps.resumable, sweep_id)
            return await _in_batches(self._sweeps.resuming(sweep_id, ended, user))

    async def _in_thread(
        self, work: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(work, *args, **kwargs))

    async def _in_turn(self, user: str, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do one thing at a time for a user; what has begun comes to its end, whoever leaves."""
        async with self._turns[user]:
            task = asyncio.ensure_future(work())
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait([task])
                raise


async def _in_batches(batches: Iterator[int]) -> int:
    """Add up what batches come to; others have as long as each of them took."""
    count = 0
    loop = asyncio.get_running_loop()
    began = loop.time()
    for done in batches:
        count += done
        await asyncio.sleep(min(loop.time() - began, LONGEST_PAUSE_S))
        began = loop.time()
    return count
