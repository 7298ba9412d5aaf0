"""Runs and their attempts, which the lifecycle changes and the store keeps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from controller.contracts.base import Contract
from controller.contracts.result import Environment, Outcome, Validity
from controller.contracts.sweep import Cell

WAITING_S: Final = 86_400.0
"""Seconds of an attempt beside its deadline that are believed: it sends files, cools down, waits
for cores that another farm holds, and may start several workers."""


def lasted_s(leased_at: float, ended_at: float, deadline_s: float) -> float:
    """Return the seconds of an ended attempt.

    Both times are by the wall clock: where that was set meanwhile, no more counts than is believed,
    and no less than nothing. deadline_s: of its run.
    """
    return min(max(0.0, ended_at - leased_at), deadline_s + WAITING_S)


class RunState(StrEnum):
    """The state of a run; no run leaves a `terminal` state."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done", True
    FAILED = "failed", True
    CANCELLED = "cancelled", True

    terminal: bool

    def __new__(cls, value: str, terminal: bool = False) -> Self:  # noqa: D102
        member = str.__new__(cls, value)
        member._value_ = value
        member.terminal = terminal
        return member


class AttemptState(StrEnum):
    """The state of an attempt; only LEASED attempts can end in a result that counts."""

    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


class PartnerVerdict(Contract):
    """What a partner's own measurement says about an attempt."""

    validity: Validity
    reasons: tuple[str, ...] = ()
    software: Environment = {}
    """Versions of what it ran."""


class Partner(Contract):
    """A further host of an attempt, which runs a share of its ranks beside the attempt's own."""

    device_id: str
    agent_id: str
    incarnation: str
    verdict: PartnerVerdict | None = None
    """None until it has reported a result."""


class Attempt(Contract):
    """One try of a run; it belongs to one incarnation of one agent until its lease expires."""

    number: int
    device_id: str
    agent_id: str
    incarnation: str
    state: AttemptState
    leased_at: float
    ended_at: float | None = None
    late: bool = False
    """Whether an outcome came after the lease was gone; it is stored but doesn't count."""
    cooling: bool | None = None
    """Whether it waits until its device is within its policy's limits; None if never reported."""
    partners: tuple[Partner, ...] | None = None
    """The further hosts of a run on several; None of a run on one."""

    @property
    def places(self) -> tuple[Attempt | Partner, ...]:
        """Itself, which leads, and its partners."""
        return (self, *(self.partners or ()))

    @property
    def device_ids(self) -> frozenset[str]:
        """The devices of all its hosts."""
        return frozenset(place.device_id for place in self.places)

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The agents of all its hosts, its own first."""
        return tuple(place.agent_id for place in self.places)

    @property
    def under_way(self) -> tuple[Attempt | Partner, ...]:
        """Its places that have still to report."""
        return (self, *(p for p in self.partners or () if p.verdict is None))

    def place_of(self, agent_id: str, incarnation: str | None = None) -> Attempt | Partner | None:
        """Return the place that an agent has still to report of; None if it has none.

        incarnation: of the agent; None: any.
        """
        own = (place for place in self.under_way if _is_of(place, agent_id, incarnation))
        return next(own, None)

    def was_given_to(self, agent_id: str, incarnation: str | None = None) -> bool:
        """Return whether an agent has, or had, a place. incarnation: of the agent; None: any."""
        return any(_is_of(place, agent_id, incarnation) for place in self.places)


def _is_of(place: Attempt | Partner, agent_id: str, incarnation: str | None) -> bool:
    return place.agent_id == agent_id and incarnation in (None, place.incarnation)


class Run(Contract):
    """One repeat of a cell in a sweep; retries are further attempts and overwrite nothing."""

    run_id: str
    sweep_id: str
    position: int
    """Position in its sweep, and so in the queue."""
    repeat: int
    cell: Cell
    deadline_s: float
    created_at: float
    state: RunState
    attempts: tuple[Attempt, ...] = ()
    resumed_after: int | None = None
    """Number of attempts when a user last resumed the run; they count for no limit."""
    queued_at: float | None = None
    """When a user last resumed the run."""

    @property
    def recent(self) -> tuple[Attempt, ...]:
        """The attempts since the run was queued or last resumed."""
        return self.attempts[self.resumed_after or 0 :]

    @property
    def lease(self) -> Attempt | None:
        """The attempt that holds the run's lease, if one does."""
        last = self.attempts[-1] if self.attempts else None
        return last if last and last.state is AttemptState.LEASED else None

    @property
    def waits_since(self) -> float:
        """When it was last queued: created, returned by an attempt, or resumed."""
        ended = self.attempts[-1].ended_at if self.attempts else None
        return max(self.created_at, ended or 0.0, self.queued_at or 0.0)


class OutcomeRecord(Contract):
    """An outcome as the store keeps it; `counted` says whether its attempt held the lease."""

    run_id: str
    attempt: int
    outcome: Outcome
    counted: bool
    started_at: float
    recorded_at: float


@dataclass(frozen=True, slots=True)
class RunChange:
    """The effect of one event on a run: the new run, and an outcome to store."""

    run: Run
    record: OutcomeRecord | None = None
