"""The ControllerLink over Ray: calls on the controller's named actor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import ray
from ray.exceptions import RayError, RayTaskError

from agents.link import ControllerAway, ControllerFailed
from controller.contracts.artefacts import ArtefactFile, ArtefactPart, ArtefactReceipt
from controller.contracts.device import Admission, Registration
from controller.contracts.errors import (
    AgentRefused,
    PartnersAwaited,
    StoreConflict,
    StoreUnavailable,
    UnknownAttempt,
)
from controller.contracts.ray_names import CONTROLLER, NAMESPACE
from controller.contracts.wire import Exchange, Orders, Report, RunProgress

FORESEEN: Final = (AgentRefused, UnknownAttempt, PartnersAwaited, StoreUnavailable, StoreConflict)
"""The errors that ControllerLink names; any other of the controller is a failure to answer."""


class RayLink:
    """Finds the controller by name; Ray's retries are off, since only we know what may be
    repeated."""

    def __init__(self, connect: Callable[[], Awaitable[None]] | None = None) -> None:
        """connect: awaited before the first call if Ray is not connected yet."""
        self._connect = connect
        self._actor: Any = None
        self._looking = asyncio.Lock()

    async def register(self, registration: Registration) -> Admission:
        """See ControllerLink.register."""
        admission: Admission = await self._call("register", registration)
        return admission

    async def exchange(self, question: Exchange) -> Orders:
        """See ControllerLink.exchange."""
        orders: Orders = await self._call("exchange", question)
        return orders

    async def report(self, report: Report) -> None:
        """See ControllerLink.report."""
        await self._call("report", report)

    async def progress(self, progress: RunProgress) -> None:
        """See ControllerLink.progress."""
        await self._call("progress", progress)

    async def offer_artefact(self, file: ArtefactFile) -> ArtefactReceipt:
        """See ControllerLink.offer_artefact."""
        receipt: ArtefactReceipt = await self._call("offer_artefact", file)
        return receipt

    async def add_artefact(self, part: ArtefactPart, frames: Sequence[bytes]) -> ArtefactReceipt:
        """See ControllerLink.add_artefact; each frame is small enough to go with the call."""
        receipt: ArtefactReceipt = await self._call("add_artefact", part, *frames)
        return receipt

    async def _call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - as the method
        try:
            if self._connect:
                await self._connect()
                self._connect = None
            return await getattr(await self._controller(), method).remote(*arguments)
        except RayTaskError as error:
            if isinstance(error.cause, FORESEEN):
                raise error.cause from None
            cause = error.cause or error
            raise ControllerFailed(f"{type(cause).__name__}: {cause}") from error
        except (ValueError, RayError) as error:
            self._actor = None
            raise ControllerAway from error

    async def _controller(self) -> Any:  # noqa: ANN401 - Ray's handle has the actor's methods
        async with self._looking:
            if self._actor is None:
                # In a thread, since it waits for a lost head; in a single one, so that threads
                # don't pile up.
                find = partial(ray.get_actor, CONTROLLER, namespace=NAMESPACE)
                self._actor = await asyncio.to_thread(find)
            return self._actor
