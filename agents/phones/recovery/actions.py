"""Recovery actions: restarting adb, and running the user's power-cycle command."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from agents.phones.recovery.policy import IN_USE, Means, Remedy
from agents.phones.recovery.power_cycle import PowerCycle
from agents.phones.registry import PhoneRegistry
from agents.remotes.adb.connections import is_tcp
from agents.remotes.adb.server import PrivateServer
from controller.contracts.device import ID
from controller.contracts.errors import AdbUnavailable

HOUR_S = 3600.0
Tell = Callable[[str], Awaitable[None]]
"""Reports an action in a few words."""


@dataclass(slots=True)
class RecoveryActions:
    """The recovery actions for one agent's phones; a started action runs on if the phone
    returns."""

    present: PhoneRegistry
    power_cycle: PowerCycle | None
    clock: Callable[[], float] = time.monotonic
    server: PrivateServer | None = None
    """The agent's own adb server, once started; it never restarts another's."""
    _restarting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _restarted: list[float] = field(default_factory=list)
    """Times of the restarts, by the clock."""
    _cycled: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Serial → times of the power cycles."""
    _begun: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Serial → the task of a power cycle."""

    def means(self, serial: str) -> Means:
        """Return the actions that are possible for a phone now."""
        return Means(
            own_server=self.server is not None,
            in_use=self.present.in_use,
            restarts=self._lately(self._restarted),
            # A serial that is a TCP address belongs to a phone that was never taken in: its power
            # is unknown.
            command=self.power_cycle is not None
            and re.fullmatch(ID, serial) is not None
            and not is_tcp(serial),
            cycles=self._lately(self._cycled[serial]),
        )

    async def settled(self) -> None:
        """Wait until no restart of adb is under way, since a phone isn't to blame for that."""
        async with self._restarting:
            return

    async def apply(self, remedy: Remedy, serial: str, tell: Tell) -> None:
        """Perform an action and report it; for RECONNECT, the caller reconnects."""
        if remedy is Remedy.RESTART_ADB and self.server:
            await self._to_its_end(serial, self._restart(self.server, tell))
        elif remedy is Remedy.POWER_CYCLE and self.power_cycle:
            await self._to_its_end(serial, self._cycle(self.power_cycle, serial, tell))

    async def _to_its_end(self, serial: str, work: Coroutine[Any, Any, None]) -> None:
        if before := self._begun.get(serial):
            await asyncio.wait({before})
        task = asyncio.create_task(work)
        self._begun[serial] = task
        await asyncio.shield(task)

    async def _restart(self, server: PrivateServer, tell: Tell) -> None:
        if self.present.in_use:  # since the policy was asked
            await tell(IN_USE)
            return
        self._restarted.append(self.clock())
        async with self.present.kept():
            await tell("adb restarted")
            try:
                async with self._restarting:
                    await server.restart()
            except AdbUnavailable as error:
                await tell(f"that failed: {error.seen}")

    async def _cycle(self, command: PowerCycle, serial: str, tell: Tell) -> None:
        self._cycled[serial].append(self.clock())
        times = self._lately(self._cycled[serial])
        await tell("power cycled" if times == 1 else f"power cycled ({times} times in an hour)")
        if serial in self.present.here:  # it returned meanwhile
            return
        if trouble := await command.run(serial):
            await tell(f"that failed: {trouble}")

    def _lately(self, times: list[float]) -> int:
        times[:] = [at for at in times if at > self.clock() - HOUR_S]
        return len(times)
