"""Users' requests about sweeps, scheduled so that no user's request delays another user's.

Each user's requests are answered one after another. Slow steps (expanding a sweep, storing it,
reading and changing its runs) run in threads or batch by batch, with other requests in between.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from controller.contracts.administration import SweepStatus
from controller.contracts.annotations import SweepAnnotations, TagRequest
from controller.contracts.run import RunState
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Submission
from controller.runtime.sweeps import Sweeps, never_leased
from controller.scheduling.lifecycle import Cancelled, Resumed

THREADS: Final = 4
"""Sweeps that are expanded or stored at once."""
LONGEST_PAUSE_S: Final = 0.1
SWITCH_S: Final = 0.0005
"""How long a thread may compute while the event loop waits for the interpreter. SQLite's driver
releases the interpreter at each row, and then waits this long each time."""
Answer = TypeVar("Answer")
Given = ParamSpec("Given")


class Desk:
    """The asynchronous front of a farm's Sweeps."""

    def __init__(self, sweeps: Sweeps) -> None:
        sys.setswitchinterval(SWITCH_S)
        self._sweeps = sweeps
        self._threads = ThreadPoolExecutor(THREADS, "sweeps")
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._of_sweeps: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._resuming = asyncio.Lock()
        """Held from reading the runs until they are queued."""

    async def submit(self, sweep: Sweep, user: str, *, again: bool) -> Submission:
        """Queue a sweep's runs, except those that it already has.

        again: submit it as a new generation, measured anew; another user's sweep always is. Raises
        SweepInvalid, NoMatchingDevice, NotAllowed, OverQuota.
        """
        return await self._in_turn(user, partial(self._submit, sweep, user, again))

    async def sweep_status(self, sweep_id: str, user: str) -> SweepStatus:
        """See Sweeps.sweep_status; with what its runs wait for."""
        return await self._in_turn(user, partial(self._standing, sweep_id, user))

    async def cancel(self, sweep_id: str, user: str) -> int:
        """Cancel a sweep's open runs; return their number.

        Raises NotFound, NotAllowed, and UserError if the store cannot keep all changes.
        """
        return await self._in_turn(user, partial(self._cancel, sweep_id, user))

    async def resume(self, sweep_id: str, user: str) -> int:
        """Queue a sweep's failed and cancelled runs again; return their number.

        Raises NotFound, NotAllowed, OverQuota.
        """
        return await self._in_turn(user, partial(self._resume, sweep_id, user))

    async def tag(self, sweep_id: str, user: str, request: TagRequest) -> SweepAnnotations:
        """See Annotator.tag; raises NotFound, NotAllowed."""
        change = partial(self._sweeps.annotator.tag, sweep_id, request)
        return await self._in_turn(user, partial(self._annotate, sweep_id, user, change))

    async def add_note(self, sweep_id: str, user: str, text: str) -> SweepAnnotations:
        """See Annotator.add_note; raises NotFound, NotAllowed."""
        change = partial(self._sweeps.annotator.add_note, sweep_id, text, user)
        return await self._in_turn(user, partial(self._annotate, sweep_id, user, change))

    async def remove_note(self, sweep_id: str, user: str, number: int) -> SweepAnnotations:
        """See Annotator.remove_note; raises NotFound, NotAllowed."""
        change = partial(self._sweeps.annotator.remove_note, sweep_id, number)
        return await self._in_turn(user, partial(self._annotate, sweep_id, user, change))

    async def _submit(self, sweep: Sweep, user: str, again: bool) -> Submission:
        if known := self._sweeps.known(sweep, user, again=again):
            return known
        cells = await self._in_thread(self._sweeps.expansion(sweep, user))
        record = self._sweeps.record(sweep, user, again=again)
        with self._sweeps.taken(record):
            new_runs = await self._in_thread(self._sweeps.new_runs, record, cells)
            self._sweeps.require_quota(record, cells, new_runs)
            new = await self._in_thread(self._sweeps.keep, record, cells)
        return self._sweeps.queue(record, cells, new)

    async def _annotate(
        self, sweep_id: str, user: str, change: Callable[[], SweepAnnotations]
    ) -> SweepAnnotations:
        self._sweeps.require(sweep_id, user)
        async with self._changing(sweep_id):
            return await self._in_thread(change)

    async def _standing(self, sweep_id: str, user: str) -> SweepStatus:
        said = self._sweeps.sweep_status(sweep_id, user)
        people = await self._in_thread(self._sweeps.annotator.of, sweep_id)
        status = said.model_copy(update={"tags": people.tags, "notes": people.notes})
        if not status.runs.get(RunState.QUEUED) and not status.runs.get(RunState.LEASED):
            return status
        waits = await self._in_thread(self._sweeps.waits(sweep_id))
        return status.model_copy(update={"waiting": waits})

    async def _cancel(self, sweep_id: str, user: str) -> int:
        sweeps = self._sweeps
        async with self._changing(sweep_id):
            with sweeps.withheld(sweep_id, user):
                waiting = sweeps.waiting(sweep_id)
                changed = await self._in_thread(sweeps.changed, waiting, Cancelled())
                count = await _in_batches(sweeps.telling(changed))
                count += await _in_batches(sweeps.cancelling(sweep_id))
            sweeps.require_kept(sweep_id)
            return count

    async def _resume(self, sweep_id: str, user: str) -> int:
        sweeps = self._sweeps
        async with self._changing(sweep_id), self._resuming:
            with sweeps.withheld(sweep_id, user):
                ended = await self._in_thread(sweeps.resumable, sweep_id)
                sweeps.require_room(sweep_id, ended, user)
                waited = never_leased(ended)
                changed = await self._in_thread(sweeps.changed, waited, Resumed())
                count = await _in_batches(sweeps.telling(changed))
                return count + await _in_batches(sweeps.resuming(ended, changed))

    @asynccontextmanager
    async def _changing(self, sweep_id: str) -> AsyncIterator[None]:
        """Let one request at a time change a sweep's runs, its owner's or the administrator's."""
        lock = self._of_sweeps.setdefault(sweep_id, asyncio.Lock())
        async with lock:
            yield

    async def _in_thread(
        self, work: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(work, *args, **kwargs))

    async def _in_turn(self, user: str, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do one request of a user at a time; a request that has begun ends even if cancelled."""
        async with self._turns[user]:
            task = asyncio.ensure_future(work())
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait([task])
                raise


async def _in_batches(batches: Iterator[int]) -> int:
    """Return the sum of batches, pausing after each for as long as it took."""
    count = 0
    loop = asyncio.get_running_loop()
    began = loop.time()
    for done in batches:
        count += done
        await asyncio.sleep(min(loop.time() - began, LONGEST_PAUSE_S))
        began = loop.time()
    return count
