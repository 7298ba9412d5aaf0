"""Whether anything is measured on this host, for what must not disturb it."""

from __future__ import annotations

import asyncio


class Quiet:
    """Set while no run measures; what waits for it uses no CPU time meanwhile."""

    def __init__(self, settle_s: float) -> None:
        """settle_s: how long nothing must have been measured, so that work doesn't begin between
        two runs that follow each other."""
        self._settle_s = settle_s
        self._is = asyncio.Event()
        self._is.set()
        self._settled = False

    def say(self, *, measuring: bool) -> None:
        """Tell whether a run measures; called at each change."""
        if measuring:
            self._is.clear()
            self._settled = False
        else:
            self._is.set()

    async def wait(self) -> None:
        """Return once nothing measures, and has not for a while; at once if that was so before."""
        while not (self._is.is_set() and self._settled):
            await self._is.wait()
            self._settled = True
            await asyncio.sleep(self._settle_s)
