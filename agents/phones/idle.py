"""Reads the conditions of idle phones, rarely and never beside a measurement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agents.host.cores import free_cores
from agents.phones.condition_reading import read_conditions
from agents.phones.discovery import Phones
from agents.remotes.remote import RemoteFault
from controller.contracts.base import Scalar
from controller.contracts.device import Device

log = logging.getLogger(__name__)
PERIOD_S = 60.0
ASK_S = 2.0
"""Seconds before a slow phone is skipped, since a run may wait for the cores meanwhile."""


@dataclass(frozen=True, slots=True)
class IdleReading:
    """Reads the conditions of one agent's idle phones."""

    phones: Phones
    host: Device
    present: Callable[[], Sequence[Device]]
    """Returns the connected phones; called in each round."""
    on_conditions: Callable[[str, Mapping[str, Scalar]], None]
    period_s: float = PERIOD_S

    async def go_on(self) -> None:
        """Read all phones again and again, until cancelled."""
        while True:
            await asyncio.sleep(self.period_s)
            for phone in self.present():
                await self.read(phone)

    async def read(self, phone: Device) -> None:
        """Read one phone, unless the phone or a core of this host is in use by a measurement."""
        alone = self.phones.present.alone(phone.id)
        if alone.locked():
            return
        async with alone:
            with free_cores(self.host.host_cores) as free:
                if not free:
                    return
                try:
                    facts = await read_conditions(self.phones.remote_of(phone), ASK_S)
                except RemoteFault as fault:
                    log.info("%s; read again in %g s", fault, self.period_s)
                else:
                    self.on_conditions(phone.id, facts)
