"""A Farm on a real store and a clock that waits, which can be restarted at any time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from controller.contracts.catalog import Catalog
from controller.contracts.result import Outcome
from controller.contracts.run import Run, RunChange
from controller.contracts.wire import (
    AttemptRef,
    Exchange,
    HeldUp,
    Orders,
    Progress,
    Report,
    RunEvent,
    RunProgress,
)
from controller.runtime.farm import Farm, FarmSettings
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.users import FarmOfUsers

TTL_S = FarmSettings().lease_ttl_s


class FarmBox(FarmOfUsers):
    """What a controller is made of, without Ray."""

    def __init__(
        self,
        path: Path,
        store: type[SqliteStore] = SqliteStore,
        settings: FarmSettings | None = None,
    ) -> None:
        self._path = path
        self._settings = settings or FarmSettings()
        self.clock = builders.FakeClock()
        self.events: list[RunEvent] = []
        self.on_event: Callable[[RunEvent], None] = self.events.append
        self.catalog: Catalog | None = None
        """What the controller reads at its next start; None: the tests' catalogue."""
        self.observe: Callable[[Run, RunChange], None] = lambda *_: None
        self.store = store.open(path)
        self.farm = self._build()

    def _build(self) -> Farm:
        catalog, version = self.catalog or builders.catalog(), builders.VERSION
        return Farm(
            *(self.store, catalog, version, self._settings, self.clock.both(), self._publish),
            lambda run, change: self.observe(run, change),
        )

    def _publish(self, event: RunEvent) -> None:
        self.on_event(event)

    def restart(self) -> None:
        """Let the controller die and come back."""
        self.store.close()
        self.store = type(self.store).open(self._path)
        self.farm = self._build()

    def close(self) -> None:
        self.store.close()

    def wait(self, seconds: float) -> None:
        """Let time pass, and the farm notice."""
        self.clock.now += seconds
        self.farm.tick()

    def ask(
        self,
        *held: AttemptRef,
        agent: str = "host-1",
        incarnation: str = "first",
        held_up: tuple[HeldUp, ...] = (),
        files: tuple[str, ...] | None = None,
    ) -> Orders:
        """Ask for orders as an agent does."""
        question = Exchange(
            agent_id=agent,
            incarnation=incarnation,
            held=held,
            asked_at=self.clock.now,
            held_up=held_up,
            files=files,
        )
        return self.farm.exchange(question)

    def report(
        self,
        of: AttemptRef,
        outcome: Outcome,
        agent: str = "host-1",
        incarnation: str = "first",
    ) -> None:
        """Hand in an outcome as an agent does."""
        self.farm.report(
            Report(
                ref=of,
                agent_id=agent,
                incarnation=incarnation,
                started_at=self.clock.now,
                outcome=outcome,
            )
        )

    def tell(
        self,
        of: AttemptRef,
        progress: Progress,
        agent: str = "host-1",
        incarnation: str = "first",
    ) -> None:
        """Tell of progress as an agent does."""
        self.farm.progress(
            RunProgress(ref=of, agent_id=agent, incarnation=incarnation, progress=progress)
        )

    def run(self, run_id: str) -> Run:
        """Return a run as it is stored."""
        run = self.store.run(run_id)
        assert run is not None
        return run
