"""Takes the artefacts that agents send, and removes what retention keeps no longer.

Everything that takes a while is done in one thread, so the controller answers agents meanwhile.
Nothing is taken while a run measures on this host.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from controller.contracts.artefacts import (
    ArtefactFile,
    ArtefactPart,
    ArtefactReceipt,
)
from controller.contracts.errors import BenchfarmError, StoreUnavailable
from controller.contracts.retention import PINNED, Retention
from controller.contracts.wire import AttemptRef
from controller.runtime.clock import Clock
from controller.runtime.farm import Farm
from controller.scheduling.retention import LOOK_S, expired, is_due
from controller.store.artefacts.protocol import ArtefactWriter
from controller.store.protocol import FarmReader

log = logging.getLogger(__name__)
LATER: Final = ArtefactReceipt(later_s=2.0)
"""The answer while a run measures on this host."""
HOUR_S: Final = 3600.0
"""A wall clock that is ahead by more is told of."""
MOST_ADMITTED: Final = 1000
"""Attempts that are remembered as their agents'."""
_AHEAD: Final = (
    "the date was set %.0f h ahead since the controller started, or this host slept: until it"
    " starts again, artefacts expire that much later. See before that the date is right, and tag"
    f" sweeps `{PINNED}` whose artefacts came while it was behind."
)
Answer = TypeVar("Answer")


class ArtefactDesk:
    """The controller's side of the sending of artefacts."""

    def __init__(
        self,
        farm: Farm,
        store: ArtefactWriter,
        pinned: Callable[[], Collection[str] | None],
        retention: Retention,
        host: str,
        clock: Clock,
    ) -> None:
        """pinned: returns the ids of pinned sweeps, None if they can't be read. host: the name of
        this host. clock: the farm's."""
        self._farm = farm
        self._store = store
        self._pinned = pinned
        self._retention = retention
        self._host = host
        self._clock = clock
        self._looked_at = clock.steady()
        self._began = clock.steady()
        self._steady_began = clock.wall() - self._began
        """The date at which the steady clock began."""
        self._is_ahead = False
        self._thread = ThreadPoolExecutor(1, "artefacts")
        self._admitted: dict[tuple[str, AttemptRef], str] = {}
        """Agent and attempt → the attempt's sweep."""
        self._trouble = ""

    async def offer(self, file: ArtefactFile) -> ArtefactReceipt:
        """Answer an agent that announces a file: what is held of it.

        Raises UnknownAttempt for an attempt this agent did not lead, AgentRevoked,
        StoreUnavailable.
        """
        sweep_id = self._sweep_of(file)
        if self._farm.measures_on(self._host):
            return LATER
        return await self._stored(lambda now: self._store.offer(file, sweep_id, now))

    async def add(self, part: ArtefactPart, frames: Sequence[bytes]) -> ArtefactReceipt:
        """Take a part of a file; raises as `offer` does."""
        file = part.file
        self._sweep_of(file)
        if self._farm.measures_on(self._host):
            return LATER
        return await self._stored(lambda now: self._store.add(file, part.offset, frames, now))

    async def keep_to_retention(self, look_s: float = LOOK_S) -> None:
        """Look for what has expired, again and again, forever.

        Not at once: a clock that is wrong after a host's start is set soon after.
        """
        while True:
            await asyncio.sleep(look_s)
            if not self._farm.measures_on(self._host):
                await self.expire()

    async def expire(self) -> None:
        """Remove what retention keeps no longer; nothing while the pinned sweeps are unknown."""
        await self._in_thread(self._expire)

    def _sweep_of(self, file: ArtefactFile) -> str:
        key = file.agent_id, file.ref
        self._farm.require_admitted(file.agent_id)
        if key not in self._admitted:
            if len(self._admitted) >= MOST_ADMITTED:
                self._admitted.clear()
            self._admitted[key] = self._farm.run_led_by(*key).sweep_id
        return self._admitted[key]

    async def _stored(self, work: Callable[[float], ArtefactReceipt]) -> ArtefactReceipt:
        try:
            receipt = await self._in_thread(self._take, work, self._clock.wall())
        except StoreUnavailable as error:
            if str(error) != self._trouble:
                log.error("artefacts stay with their agents until they can be stored: %s", error)
            self._trouble = str(error)
            raise
        self._trouble = ""
        return receipt

    def _take(self, work: Callable[[float], ArtefactReceipt], now: float) -> ArtefactReceipt:
        receipt = work(now)
        if receipt.whole:
            kept_bytes, looked_at = self._store.kept_bytes(), self._looked_at
            if is_due(kept_bytes, looked_at, self._retention, self._clock.steady()):
                self._expire()
        return receipt

    def _expire(self) -> None:
        self._looked_at = self._clock.steady()
        now = self._age_date()
        # The date may be wrong after a host's start, until it is set: then nothing is old by it.
        is_believed = self._looked_at - self._began >= LOOK_S
        try:
            pinned = self._pinned()
            if pinned is None:
                log.error("no artefact expires: which sweeps are pinned can't be read")
                return
            age_date = now if is_believed else -math.inf
            gone = expired(self._store.kept(pinned), self._retention, age_date)
            if gone:
                said = sum(one.kept_bytes for one in gone)
                log.info("%d artefacts expire, %d bytes", len(gone), said)
            self._store.remove([one.sha256 for one in gone], now)
        except BenchfarmError as error:  # who has sent an artefact has nothing to do with it
            log.error("no artefact can expire now: %s", error)

    def _age_date(self) -> float:
        """Return the date up to which ages are counted: that of the wall clock, but no later than
        the steady clock has come since the start.

        So a wall clock that is set ahead makes nothing old; nor does one that was behind before,
        what was dated meanwhile.
        """
        date, steady_date = self._clock.wall(), self._steady_began + self._clock.steady()
        is_ahead = date - steady_date > HOUR_S
        if is_ahead and not self._is_ahead:
            log.error(_AHEAD, (date - steady_date) / HOUR_S)
        self._is_ahead = is_ahead
        return min(date, steady_date)

    async def _in_thread(self, work: Callable[..., Answer], *given: object) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)


def pinned_sweeps(store: FarmReader) -> frozenset[str] | None:
    """Return the ids of sweeps with the tag PINNED; None if tags can't all be read."""
    found = store.annotations()
    if any("tags and notes" in line for line in store.damage()):
        return None
    return frozenset(id_ for id_, said in found.items() if PINNED in said.tags)
