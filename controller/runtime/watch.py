"""Following a sweep to its end, through restarts of the controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from controller.contracts.administration import SweepStatus
from controller.contracts.errors import FarmUnavailable, NotFound
from controller.contracts.run import Run, RunState
from controller.contracts.wire import RunEvent
from controller.runtime.client import FarmClient
from controller.runtime.home import Home
from controller.store.protocol import FarmReader
from controller.store.sqlite import SqliteStore


@dataclass(slots=True)
class SweepView:
    """The current states of a sweep's runs."""

    sweep_id: str
    states: dict[str, RunState]
    last: RunEvent | None = None

    def take(self, event: RunEvent) -> None:
        """Apply an event."""
        self.last = event
        self.states[event.run_id] = event.state

    @property
    def ended(self) -> int:
        """The number of runs in a terminal state."""
        return sum(state.terminal for state in self.states.values())

    @property
    def done(self) -> bool:
        """Whether every run is in a terminal state."""
        return self.ended == len(self.states)


def follow(
    home: Home, client: FarmClient, sweep_id: str, stored: Callable[[], Sequence[Run]]
) -> Iterator[SweepView]:
    """Yield a sweep's view now and after each event, until every run has ended.

    stored: returns the sweep's runs as they are stored. Raises NotFound, and FarmUnavailable if
    the controller stays away or `benchfarm down` ends the farm.
    """
    patience, wanted = client.patience(), home.wanted.exists()
    while True:
        try:
            with client.events(sweep_id) as events:
                # Listening comes first, so that nothing falls between the store and the events.
                view = SweepView(sweep_id, {run.run_id: run.state for run in stored()})
                yield view
                for event in () if view.done else events:
                    view.take(event)
                    yield view
                    if view.done:
                        return
                if view.done:
                    return
            patience = client.patience()  # it has answered until now
            time.sleep(client.timings.retry_s)
        except FarmUnavailable as error:
            if wanted and not home.wanted.exists():
                seen = "`benchfarm down` has ended the farm; the sweep is kept"
                remedy = f"Run `benchfarm up`, then `benchfarm sweep watch {sweep_id}`."
                raise FarmUnavailable(f"follow sweep {sweep_id}", seen, remedy) from error
            patience.wait(error)


def follow_from_elsewhere(client: FarmClient, sweep_id: str) -> Iterator[SweepStatus]:
    """Yield a sweep's status now and when it has changed, until every run has ended.

    For users with a token and without the store. It is asked for at each change of a run, and now
    and then without one: what runs wait for depends on other sweeps. Raises NotFound, NotAllowed,
    FarmUnavailable.
    """
    patience, last = client.patience(), None
    while True:
        try:
            with client.beats(sweep_id) as beats:
                changes = (beat for beat in beats if beat is None or beat.progress is None)
                for _ in chain([None], changes):
                    sweep_status = client.sweep_status(sweep_id)
                    patience = client.patience()  # it has answered until now
                    if sweep_status != last:
                        yield sweep_status
                    last = sweep_status
                    if _is_over(sweep_status):
                        return
            time.sleep(client.timings.retry_s)
        except FarmUnavailable as error:
            patience.wait(error)


def _is_over(sweep_status: SweepStatus) -> bool:
    return all(RunState(state).terminal for state, runs in sweep_status.runs.items() if runs)


def runs_of(home: Home, sweep_id: str) -> list[Run]:
    """Return a sweep's runs from the store of a home; raises NotFound."""
    with closing(SqliteStore.open_reader(home.store)) as store:
        return stored_runs(store, sweep_id)


def stored_runs(store: FarmReader, sweep_id: str) -> list[Run]:
    """Return a sweep's runs; raises NotFound."""
    runs = store.runs(sweep_id)
    if runs:
        return runs
    known = [record.sweep_id for record in store.sweeps()]
    raise NotFound(
        f"find sweep {sweep_id}",
        "there is no such sweep",
        f"Choose one of {', '.join(known[-5:])}." if known else "Submit one first.",
    )
