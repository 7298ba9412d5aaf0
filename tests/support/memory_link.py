"""An agent's link to a Farm in the same process, on which things can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from controller.contracts.artefacts import ArtefactFile, ArtefactPart, ArtefactReceipt
from controller.contracts.device import Admission, Registration
from controller.contracts.wire import Exchange, Orders, Report, RunEvent, RunProgress
from controller.runtime.farm import Farm, FarmSettings


class Box(Protocol):
    """Has a Farm, and hears of its events."""

    farm: Farm
    on_event: Callable[[RunEvent], None]


class MemoryLink:
    """The controller without Ray; what goes wrong on the way is put into `faults`."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.said: list[str] = []
        self.faults: dict[str, list[Exception]] = {}
        self.after_report: list[Exception] = []
        self.reported: asyncio.Queue[Report] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Event()
        self.hold_s = FarmSettings().exchange_hold_s
        self._others = box.on_event
        box.on_event = self._hear

    def _hear(self, event: RunEvent) -> None:
        self._others(event)
        self.poke()

    async def changed(self) -> None:
        """Return when something has happened on the farm."""
        await self._changed.wait()

    def poke(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def register(self, registration: Registration) -> Admission:
        self._speak("register")
        return self.box.farm.register(registration)

    async def exchange(self, question: Exchange) -> Orders:
        while True:
            self._speak("exchange")
            orders = self.box.farm.exchange(question)
            if orders != Orders():
                return orders
            try:
                async with asyncio.timeout(self.hold_s):
                    await self.changed()
            except TimeoutError:
                return orders

    async def report(self, report: Report) -> None:
        self._speak("report")
        await self.gate.wait()
        self.box.farm.report(report)
        if self.after_report:
            raise self.after_report.pop()
        self.reported.put_nowait(report)

    async def progress(self, progress: RunProgress) -> None:
        self._speak("progress")
        self.box.farm.progress(progress)

    async def offer_artefact(self, file: ArtefactFile) -> ArtefactReceipt:
        self._speak("offer_artefact")
        return ArtefactReceipt(held=file.size, whole=True)

    async def add_artefact(self, part: ArtefactPart, frames: Sequence[bytes]) -> ArtefactReceipt:
        raise AssertionError("every file is there already")

    def _speak(self, what: str) -> None:
        self.said.append(what)
        if faults := self.faults.get(what):
            raise faults.pop()
