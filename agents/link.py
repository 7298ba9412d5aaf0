"""The agent's line to the controller."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from controller.contracts.device import Admission, Registration
from controller.contracts.errors import BenchfarmError, SharedMachineId
from controller.contracts.wire import Exchange, Orders, Report, RunProgress

log = logging.getLogger(__name__)


class ControllerAway(BenchfarmError):
    """The controller can't be reached now; it will be back, or the agent will be ended."""


class ControllerLink(Protocol):
    """What an agent says to the controller; every call may raise ControllerAway."""

    async def register(self, registration: Registration) -> Admission:
        """Announce the agent and its devices; called at start and when they have changed.

        Also when the controller doesn't know the agent, and as often as it says while it refuses a
        device. Raises VersionMismatch, SharedMachineId.
        """
        ...

    async def exchange(self, question: Exchange) -> Orders:
        """Ask what to do; called again as soon as it has returned. Raises UnknownAgent."""
        ...

    async def report(self, report: Report) -> None:
        """Hand in an outcome; called until it returns. Raises UnknownAttempt."""
        ...

    async def progress(self, progress: RunProgress) -> None:
        """Tell how far a run is; called at most once a second a run."""
        ...


async def admitted(link: ControllerLink, registration: Registration) -> Admission:
    """Register; a refusal that this host's former boot may have brought about is outlasted once.

    Raises SharedMachineId if the other one is still there then.
    """
    try:
        return await link.register(registration)
    except SharedMachineId as refusal:
        log.warning("asking once more in %.0f s: %s", refusal.again_in_s, refusal)
        await asyncio.sleep(refusal.again_in_s)
        return await link.register(registration)
