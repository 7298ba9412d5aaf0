"""The interface from the agent to the controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from controller.contracts.artefacts import ArtefactFile, ArtefactPart, ArtefactReceipt
from controller.contracts.device import Admission, Registration
from controller.contracts.errors import (
    BenchfarmError,
    SharedMachineId,
    StoreConflict,
    StoreUnavailable,
)
from controller.contracts.wire import Exchange, Orders, Report, RunProgress

log = logging.getLogger(__name__)


class ControllerAway(BenchfarmError):
    """The controller can't be reached now; it will return, or the agent will be ended."""


class ControllerFailed(Exception):
    """The controller was asked, and failed to answer in a way that nobody has foreseen."""


TROUBLES: Final = (ControllerAway, ControllerFailed, StoreUnavailable, StoreConflict)
"""Errors of the controller, not of what an agent asks: it asks again, and its runs go on."""


class ControllerLink(Protocol):
    """Requests of an agent to the controller; every call may raise TROUBLES and AgentRevoked."""

    async def register(self, registration: Registration) -> Admission:
        """Register the agent and its devices; called at the start and when devices have changed.

        Also called when the controller doesn't know the agent, and repeatedly, at the interval it
        gives, while it refuses a device. Raises VersionMismatch, SharedMachineId.
        """
        ...

    async def exchange(self, question: Exchange) -> Orders:
        """Send the held runs and return orders; called again as soon as it returns. Raises
        UnknownAgent."""
        ...

    async def report(self, report: Report) -> None:
        """Hand in an outcome; called until it returns.

        Raises UnknownAttempt, PartnersAwaited; StoreConflict: another outcome is stored.
        """
        ...

    async def progress(self, progress: RunProgress) -> None:
        """Send a run's progress; called at most once a second a run."""
        ...

    async def offer_artefact(self, file: ArtefactFile) -> ArtefactReceipt:
        """Tell of a file and return what the head has of it; called before it is sent.

        Raises UnknownAttempt.
        """
        ...

    async def add_artefact(self, part: ArtefactPart, frames: Sequence[bytes]) -> ArtefactReceipt:
        """Send the part of a file that follows on what the head has; called again and again, with
        what the last answer says. Raises as `offer_artefact`."""
        ...


async def admitted(link: ControllerLink, registration: Registration) -> Admission:
    """Register; on SharedMachineId, which this host's previous boot may have caused, wait and retry
    once.

    Raises SharedMachineId if the other host is still there then.
    """
    try:
        return await link.register(registration)
    except SharedMachineId as refusal:
        log.warning("asking once more in %.0f s: %s", refusal.again_in_s, refusal)
        await asyncio.sleep(refusal.again_in_s)
        return await link.register(registration)
