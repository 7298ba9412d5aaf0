"""The open runs, and every change of them.

A change goes event → lifecycle → store → memory, in that order, so that a controller that dies at
any point resumes from a state that it has stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controller.contracts.catalog import Catalog
from controller.contracts.device import Device
from controller.contracts.errors import StoreConflict, StoreDamaged
from controller.contracts.records import Spent, SweepRecord
from controller.contracts.run import Attempt, Partner, Run, RunChange
from controller.contracts.wire import RunEvent
from controller.runtime.clock import Clock
from controller.runtime.held_up import HeldUpRuns
from controller.runtime.roster import Roster
from controller.scheduling.fair_share import REMEMBERED_S, Claim, Claims, Place, Shares
from controller.scheduling.held import HeldRuns
from controller.scheduling.leases import Leases
from controller.scheduling.lifecycle import Event, Granted, advance
from controller.scheduling.placement import cores_in_use, place
from controller.scheduling.policy import RetryPolicy
from controller.scheduling.queued import QueuedRuns
from controller.scheduling.waiting import Queue
from controller.store.protocol import Store

log = logging.getLogger(__name__)

Changed = tuple[Run, RunChange]
"""A run as it was, and its change."""

MOST_ROUNDS = 25
"""Most placements in a row, if runs that got a device cannot be stored."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The lease's length in seconds, and the policy of retries."""

    lease_ttl_s: float
    retry: RetryPolicy


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for changes that are stored."""

    publish: Callable[[RunEvent], None]
    observe: Callable[[Run, RunChange], None] = lambda *_: None
    """Called with a run as it was, and its change."""


class OpenRuns:
    """The open runs of one farm."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        roster: Roster,
        settings: RunSettings,
        clock: Clock,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._roster = roster
        self._settings = settings
        self._clock = clock
        self._listeners = listeners
        self._claims = {r.sweep_id: Claim.of(r) for r in store.sweeps()}
        self._shares = Shares(self._spent_before())
        self._numbers = {sweep_id: number for number, sweep_id in enumerate(self._claims)}
        """Sweep → its number, in the order in which they were submitted."""
        self._open: dict[str, Run] = {}
        self._held = HeldRuns()
        self._queued = QueuedRuns(self._claims)
        # A release that doesn't understand a sweep's record leaves its runs out, too.
        self._put(r for r in store.runs(open_only=True) if r.sweep_id in self._claims)
        self._set_aside: dict[str, tuple[Run, StoreDamaged | StoreConflict]] = {}
        """Runs before a change that the store could not keep, and why it could not."""
        self._leases = Leases(settings.lease_ttl_s)
        self._withheld: set[str] = set()
        """Sweeps whose waiting runs are being changed; none is leased meanwhile."""
        self.held_up = HeldUpRuns()
        self.told_late: set[str] = set()
        """Runs that have changed after their end since this was cleared."""
        self.is_placing = False
        """Whether there is more to place at once."""
        # Nobody could renew a lease while the controller was away: every owner gets a full term.
        now = clock.steady()
        for run_id, lease in [(r.run_id, r.lease) for r in self._held if r.lease]:
            self._leases.begin(run_id, _holders(lease), clock.steady_at(lease.leased_at), now)

    # --- queries -------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._open.values()))

    def open(self, run_id: str) -> Run | None:
        """Return a run; None if it is not open."""
        return self._open.get(run_id)

    def get(self, run_id: str) -> Run | None:
        """Return a run, from the store if it is not open; None if there is no such run."""
        if run_id in self._set_aside:
            return self._set_aside[run_id][0]
        return self._open.get(run_id) or self._store.run(run_id)

    def set_aside(self, sweep_id: str) -> list[Run]:
        """Return the runs of a sweep whose changes the store can't keep."""
        return [run for run, _ in self._set_aside.values() if run.sweep_id == sweep_id]

    def require_stored(self, run_id: str) -> None:
        """Raise StoreDamaged or StoreConflict if the store could not keep a run's last change."""
        if run_id in self._set_aside:
            raise self._set_aside[run_id][1]

    def leased(self, agent_id: str | None = None) -> list[Run]:
        """Return the leased runs: all, or those of which one agent has still to report."""
        return [*self._held] if agent_id is None else self._held.of_agent(agent_id)

    def on_device(self, device_id: str) -> Run | None:
        """Return the run that holds a device's lease, if any."""
        return self._held.on_device(device_id)

    def expired(self) -> list[tuple[Run, str]]:
        """Return the runs of which a lease has expired, with the agent that held it."""
        late = self._leases.expired(self._clock.steady())
        return [(self._open[run_id], agent_id) for run_id, agent_id in late]

    def next_expiry(self) -> float | None:
        """Return when the next lease expires, on the steady clock; None without leases."""
        return self._leases.next_end()

    def of_user(self, user: str) -> list[Run]:
        """Return the open runs of a user's sweeps."""
        return [r for r in self._open.values() if self._claims[r.sweep_id].user == user]

    def user_of(self, sweep_id: str) -> str | None:
        """Return the user of a sweep; None if there is no such sweep."""
        claim = self._claims.get(sweep_id)
        return claim.user if claim else None

    def queue(self) -> Queue:
        """Return the open runs with all that placement knows, which later changes leave alone."""
        claims = self._all_claims()
        return Queue(
            now=self._clock.wall(),
            runs=tuple(sorted(self._open.values(), key=self._place_of)),
            devices=tuple(self._roster.devices.values()),
            claims=replace(claims, of_sweep=dict(claims.of_sweep)),
            withheld=frozenset(self._withheld),
            held_up=self.held_up.among(self.leased()),
        )

    # --- changes -------------------------------------------------------------------------------

    def add(self, record: SweepRecord, new: Sequence[Run]) -> None:
        """Queue stored runs of a sweep."""
        self._claims[record.sweep_id] = Claim.of(record)
        self._numbers.setdefault(record.sweep_id, len(self._numbers))
        self._put(new)

    def renew(self, run: Run, agent_id: str) -> None:
        """Renew an agent's lease of a run; not stored, since a restart renews every lease."""
        self._leases.renew(run.run_id, agent_id, self._clock.steady())

    def release(self, run: Run, agent_id: str) -> None:
        """End the lease of an agent that has reported its share of a run; others still measure."""
        self._leases.release(run.run_id, agent_id)

    def apply(self, events: Iterable[tuple[Run, Event]], *, quietly: bool = False) -> None:
        """Apply an event to each run; quietly: without an event to watchers.

        A run that the store cannot keep, since it is damaged or has something else, is set aside,
        and holds no device. Raises StoreUnavailable if the store fails in another way.
        """
        self.take_over(self._stored(self.changes(events)), quietly=quietly)

    def changes(self, events: Iterable[tuple[Run, Event]]) -> list[Changed]:
        """Return the changes that events make; may be called in any thread."""
        now = self._clock.wall()
        pairs = [(run, advance(run, event, now, self._settings.retry)) for run, event in events]
        return [(run, change) for run, change in pairs if change.run != run or change.record]

    def keep(self, changed: Sequence[Changed]) -> None:
        """Store all changes or none; may be called in any thread."""
        if changed:
            self._store.save_runs([change for _, change in changed])

    def take_over(self, changed: Sequence[Changed], *, quietly: bool = False) -> None:
        """Apply stored changes to memory, and tell the listeners."""
        for run, change in changed:
            if run.run_id not in self._open:
                self.told_late.add(run.run_id)
            self._spend(run, change)
            self._remember(run, change.run)
            if not quietly:
                self._listeners.publish(RunEvent.of(change.run))
        for run, change in changed:
            self._listeners.observe(run, change)

    @contextmanager
    def withheld(self, sweep_id: str) -> Iterator[None]:
        """Lease no run of a sweep in this context."""
        self._withheld.add(sweep_id)
        try:
            yield
        finally:
            self._withheld.discard(sweep_id)

    def require_unlike(self, runs: Iterable[Run]) -> None:
        """Raise StoreConflict if an open run of another sweep has the id of one of these."""
        for run in runs:
            other = self._open.get(run.run_id)
            if other and other.sweep_id != run.sweep_id:
                raise StoreConflict(
                    f"sweep {run.sweep_id}", f"sweep {other.sweep_id} has runs of the same ids"
                )

    def place(self) -> None:
        """Lease queued runs to free devices; called when either may have changed."""
        for _ in range(MOST_ROUNDS):
            before = len(self._set_aside)
            self._place()
            self.is_placing = len(self._set_aside) > before
            if not self.is_placing:
                return

    # --- helpers -------------------------------------------------------------------------------

    def _stored(self, changed: Sequence[Changed]) -> list[Changed]:
        """Store changes and return them; if the store is damaged, only those that it could keep."""
        if not changed:
            return []
        try:
            self._store.save_runs([change for _, change in changed])
        except (StoreDamaged, StoreConflict) as error:  # of lost rows, references conflict
            if len(changed) > 1:
                return [stored for one in changed for stored in self._stored([one])]
            run, _ = changed[0]
            log.error("run %s is set aside until the next start: %s", run.run_id, error)
            self._set_aside[run.run_id] = (run, error)
            self._drop(run.run_id)
            self._leases.end(run.run_id)
            return []
        return list(changed)

    def _place(self) -> None:
        busy = self._held.devices
        free = [d for d in self._roster.placeable() if d.id not in busy]
        if not (self._queued and free):
            return
        devices = self._roster.devices
        cores = cores_in_use(devices[device_id] for device_id in busy)
        hosts = {d.device.id: d.agent_id for d in devices.values()}
        granted: dict[str, tuple[Run, list[Device]]] = {}
        known = (cores, hosts, self._catalog, self._all_claims(), self._withheld)
        for run, device in place(self._queued, free, *known):
            granted.setdefault(run.run_id, (run, []))[1].append(device)
        self.apply((run, self._grant(devices)) for run, devices in granted.values())

    def _all_claims(self) -> Claims:
        return Claims(self._claims, self._spent_s(), self._roster.reserved_for())

    def _grant(self, devices: Sequence[Device]) -> Granted:
        """Return the lease of all devices of a run, its lead's first."""
        owners = [(device.id, self._roster.agent_of(device.id)) for device in devices]
        (lead, agent), *others = owners
        partners = tuple(
            Partner(device_id=id_, agent_id=owner.id, incarnation=owner.incarnation)
            for id_, owner in others
        )
        return Granted(lead, agent.id, agent.incarnation, partners)

    def _spent_before(self) -> Iterator[Spent]:
        """Return the stored device time, with dates on the steady clock."""
        for spent in self._store.spent(self._clock.wall() - REMEMBERED_S):
            at = self._clock.steady_at(spent.ended_at)
            yield spent.model_copy(update={"ended_at": at})

    def _spent_s(self) -> dict[str, float]:
        leased = (
            (
                self._claims[run.sweep_id].user,
                self._leases.began(run.run_id),
                len(run.lease.places) if run.lease else 0,
            )
            for run in self._held
        )
        return self._shares.now(self._clock.steady(), leased)

    def _spend(self, before: Run, change: RunChange) -> None:
        """Count the time of a lease that a change has ended for its user."""
        lease = before.lease
        if lease is None or change.run.lease is not None or before.run_id in self._set_aside:
            return
        now, user = self._clock.steady(), self._claims[before.sweep_id].user
        seconds = (now - self._leases.began(before.run_id)) * len(lease.places)
        self._shares.add(Spent(user=user, ended_at=now, seconds=seconds))

    def _remember(self, before: Run, run: Run) -> None:
        self._set_aside.pop(run.run_id, None)
        if run.lease is None:
            self._leases.end(run.run_id)
        elif before.lease is None:
            now = self._clock.steady()
            self._leases.begin(run.run_id, _holders(run.lease), now, now)
        if run.state.terminal:
            self._drop(run.run_id)
        else:
            self._put([run])

    def _put(self, runs: Iterable[Run]) -> None:
        """Add or replace open runs."""
        runs = tuple(runs)
        for run in runs:
            self._open[run.run_id] = run
            self._held.put(run)
            if run.lease:
                self._queued.discard(run.run_id)
        self._queued.add((self._place_of(run), run) for run in runs if run.lease is None)

    def _drop(self, run_id: str) -> None:
        """Take a run out of the open ones."""
        self._open.pop(run_id, None)
        self._held.discard(run_id)
        self._queued.discard(run_id)

    def _place_of(self, run: Run) -> Place:
        """Return an open run's place in the queue: by submission, whatever happened since."""
        return (self._numbers[run.sweep_id], run.position)


def _holders(lease: Attempt) -> list[str]:
    """Return the agents that hold a lease and have still to report."""
    return [place.agent_id for place in lease.under_way]
