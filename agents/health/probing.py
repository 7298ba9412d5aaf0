"""The probes that an agent was ordered to make; each is reported until acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.health.prober import Prober, ProbeResult
from controller.contracts.device import Device, DeviceKind
from controller.contracts.wire import ProbeOrder, ProbeReport

log = logging.getLogger(__name__)
WHY_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Probing:
    """The probes of one agent."""

    probers: Mapping[DeviceKind, Prober]
    _tasks: dict[ProbeOrder, asyncio.Task[ProbeReport]] = field(default_factory=dict)

    def begin(self, orders: Sequence[ProbeOrder], devices: Mapping[str, Device]) -> bool:
        """Start the probes that are new; return whether there were any."""
        new = [order for order in orders if order not in self._tasks]
        for order in new:
            task = asyncio.create_task(self._probe(order, devices.get(order.device_id)))
            self._tasks[order] = task
        return bool(new)

    def under_way(self) -> tuple[ProbeOrder, ...]:
        """Return the probes that have not ended."""
        return tuple(order for order, task in self._tasks.items() if not task.done())

    def ended(self) -> tuple[ProbeReport, ...]:
        """Return the reports of ended probes until they are acknowledged."""
        return tuple(task.result() for task in self._tasks.values() if task.done())

    def heard(self, reports: Sequence[ProbeReport]) -> None:
        """Forget the reports that the controller has acknowledged."""
        for report in reports:
            self._tasks.pop(report.of, None)

    async def stop(self) -> None:
        """Stop all probes without a report."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _probe(self, order: ProbeOrder, device: Device | None) -> ProbeReport:
        try:
            found = await self._look(device)
        except Exception as error:
            log.exception("the probe of %s broke the agent", order.device_id)
            found = ProbeResult(
                False, f"the agent failed to probe it: {type(error).__name__}: {error}"
            )
        why = " ".join(found.why.split())[:WHY_CHARACTERS]
        printable = "".join(c if c.isprintable() else "?" for c in why)
        return ProbeReport(of=order, passed=found.passed, why=printable)

    async def _look(self, device: Device | None) -> ProbeResult:
        if device is None:
            return ProbeResult(False, "it is not connected now")
        prober = self.probers.get(device.kind)
        if prober is None:
            return ProbeResult(False, f"this agent can't probe devices of kind {device.kind}")
        return await prober.probe(device)
