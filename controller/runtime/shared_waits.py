"""What open runs wait for, worked out once in a few seconds for all users and sweeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from controller.contracts.catalog import Catalog
from controller.contracts.run import Run
from controller.contracts.waiting import Waiting, WaitingRuns, WaitReason
from controller.runtime.clock import Clock
from controller.runtime.open_runs import OpenRuns
from controller.scheduling.waiting import Queue, grouped, waiting

KEEP_S: Final = 3.0
"""How long an answer is given again: who watches asks at every event of a sweep."""
_OF_LEASED: Final = (WaitReason.COOLING, WaitReason.LOCKED)
"""What runs wait for that are leased."""


class SharedWaits:
    """The last answer, and its age by the steady clock."""

    def __init__(self, runs: OpenRuns, catalog: Catalog, clock: Clock) -> None:
        self._runs = runs
        self._catalog = catalog
        self._clock = clock
        self._lock = threading.Lock()
        self._waits: Mapping[str, Waiting] = {}
        self._at: float | None = None

    def of(self, sweep_id: str) -> Callable[[], tuple[WaitingRuns, ...]]:
        """Return what works out the waits of a sweep's runs; may be called in any thread."""
        mine = [run for run in self._runs if run.sweep_id == sweep_id]
        now = self._clock.steady()
        # Changes after this leave the copy of the queue alone.
        queue = None if self._answers(mine, now) else self._runs.queue()
        return partial(self._told, mine, queue, now)

    def _answers(self, runs: Sequence[Run], now: float) -> bool:
        """Return whether the last answer is young enough, and knows all these queued runs."""
        if self._at is None or now >= self._at + KEEP_S:
            return False
        return all(run.lease or run.run_id in self._waits for run in runs)

    def _told(
        self, runs: Sequence[Run], queue: Queue | None, now: float
    ) -> tuple[WaitingRuns, ...]:
        with self._lock:
            if queue and not self._answers(runs, now):  # nobody was faster
                found = waiting(queue, self._catalog)
                self._waits, self._at = {i: _without_now(w) for i, w in found.items()}, now
            waits = self._waits
        still = {
            run.run_id: wait
            for run in runs
            if (wait := waits.get(run.run_id)) and (run.lease is None or wait.reason in _OF_LEASED)
        }
        return grouped(still, runs)


def _without_now(found: Waiting) -> Waiting:
    """Return a wait that is the same at the next look: a run that starts now has no estimate."""
    if found.reason is not WaitReason.STARTS:
        return found
    return found.model_copy(update={"starts_at": None})
