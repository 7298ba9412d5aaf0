"""How it is shown what runs wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from controller.cli.common import reading
from controller.cli.meant import where
from controller.contracts.catalog import load_catalog
from controller.contracts.run import Run
from controller.contracts.waiting import Waiting, WaitingRuns, WaitReason
from controller.contracts.wire import WAIT_FOR_CORE, RunEvent
from controller.runtime.waiting import waiting_now
from controller.runtime.watch import SweepView
from controller.scheduling.waiting import grouped
from controller.store.protocol import FarmReader

LEAST_S: Final = 5.0
"""Least seconds between two looks into the store while a sweep is watched."""
Ask = Callable[[], Sequence[WaitingRuns]]


def all_waits(store: FarmReader) -> dict[str, Waiting]:
    """Return what each run of the farm waits for."""
    return waiting_now(where(), store, store.runs(open_only=True), load_catalog)


def waits_of(waits: Mapping[str, Waiting], runs: Iterable[Run]) -> tuple[WaitingRuns, ...]:
    """Return what the runs of a sweep wait for, those that can't start soon first."""
    order = list(WaitReason)
    groups = grouped(waits, runs)
    return tuple(sorted(groups, key=lambda group: -order.index(group.first.reason)))


def waits_in_store(sweep_id: str) -> tuple[WaitingRuns, ...]:
    """Return what the runs of a sweep wait for now."""
    with reading() as store:
        return waits_of(all_waits(store), store.runs(sweep_id))


class WaitNotes:
    """Tells what the runs of a watched sweep wait for, each reason once while it lasts.

    Runs that only wait for others of the same sweep are no news.
    """

    def __init__(
        self,
        ask: Ask,
        clock: Callable[[], float] = time.monotonic,
        named: Callable[[str], str] = str,
    ) -> None:
        """named: the name of a device, by its id."""
        self._ask = ask
        self._named = named
        self._clock = clock
        self._asked_at: float | None = None
        self._told: set[tuple[object, ...]] = set()

    def after(self, view: SweepView) -> list[str]:
        """Return the lines to print after an event."""
        if view.last and view.last.progress is not None:
            return self._held_up(view.last)
        now = self._clock()
        if view.done or (self._asked_at is not None and now < self._asked_at + LEAST_S):
            return []
        self._asked_at = now
        groups = [group for group in self._ask() if _is_news(group.first, view)]
        before, self._told = self._told, {_key(group.first) for group in groups}
        return [group.line for group in groups if _key(group.first) not in before]

    def _held_up(self, event: RunEvent) -> list[str]:
        """Return who holds the cores of a run that waits for them; its agent says so once."""
        phase = event.progress.phase if event.progress else ""
        device = self._named(event.device_id or "")
        return [f"{device}: {phase}"] if phase.startswith(WAIT_FOR_CORE) else []


def _is_news(found: Waiting, view: SweepView) -> bool:
    return found.reason is not WaitReason.STARTS and found.run_id not in view.states


def _key(found: Waiting) -> tuple[object, ...]:
    return found.reason, found.user, found.until, found.why
