"""Users' requests about sweeps, made as the API makes them: through the farm's desk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from controller.contracts.records import ADMIN
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Submission
from controller.runtime.desk import Desk
from controller.runtime.farm import Farm

Answer = TypeVar("Answer")


def answered(request: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the answer to a request, in tests with and without an event loop of their own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, request).result()


class FarmOfUsers:
    """A farm that is asked about sweeps."""

    farm: Farm

    def submit(self, sweep: Sweep, *, user: str = ADMIN, again: bool = False) -> Submission:
        """See Desk.submit."""
        return answered(self._desk().submit(sweep, user, again=again))

    def cancel(self, sweep_id: str, user: str = ADMIN) -> int:
        """See Desk.cancel."""
        return answered(self._desk().cancel(sweep_id, user))

    def resume(self, sweep_id: str, user: str = ADMIN) -> int:
        """See Desk.resume."""
        return answered(self._desk().resume(sweep_id, user))

    def _desk(self) -> Desk:
        return Desk(self.farm.sweeps)
