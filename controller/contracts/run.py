"""Runs and their attempts: what the lifecycle moves and the store keeps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from controller.contracts.base import Contract
from controller.contracts.result import Outcome
from controller.contracts.sweep import Cell


class RunState(StrEnum):
    """Where a run stands; `terminal` marks the states nothing leaves."""

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
    """How an attempt stands; only LEASED attempts can end in a result that counts."""

    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


class Attempt(Contract):
    """One try at a run, owned by one incarnation of one agent until its lease expires."""

    number: int
    device_id: str
    agent_id: str
    incarnation: str
    state: AttemptState
    leased_at: float
    ended_at: float | None = None
    late: bool = False
    """An outcome came after the lease was gone; it is kept and doesn't count."""
    cooling: bool | None = None
    """Whether it waits until its device is within its policy's limits; None: nothing was said."""


class Run(Contract):
    """One repeat of a cell in a sweep; retries are further attempts and overwrite nothing."""

    run_id: str
    sweep_id: str
    position: int
    """Place in its sweep, and so in the queue."""
    repeat: int
    cell: Cell
    deadline_s: float
    created_at: float
    state: RunState
    attempts: tuple[Attempt, ...] = ()
    resumed_after: int | None = None
    """How many attempts it had when a user queued it again; those count for no limit."""
    queued_at: float | None = None
    """When that was."""

    @property
    def recent(self) -> tuple[Attempt, ...]:
        """The attempts since it was queued, or queued again."""
        return self.attempts[self.resumed_after or 0 :]

    @property
    def lease(self) -> Attempt | None:
        """The attempt that holds the run's lease, if one does."""
        last = self.attempts[-1] if self.attempts else None
        return last if last and last.state is AttemptState.LEASED else None

    @property
    def waits_since(self) -> float:
        """When it last began to wait for a device: made, given back by an attempt, or resumed."""
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
    """What one event did to a run: the run as it is now, and an outcome to keep with it."""

    run: Run
    record: OutcomeRecord | None = None
