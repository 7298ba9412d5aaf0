"""The life of a run: event → new run, and the outcome to store. Pure: no clock, store or Ray.

Invariants, held by property tests: a run leaves a terminal state only if a user resumes a failed or
cancelled one; at most one outcome of a run counts as its result; a LEASED run has exactly one open
attempt, which has an owner; any other run has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.errors import UnknownAttempt
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.run import (
    Attempt,
    AttemptState,
    OutcomeRecord,
    Partner,
    PartnerVerdict,
    Run,
    RunChange,
    RunState,
)
from controller.scheduling.policy import RetryPolicy, should_retry


@dataclass(frozen=True, slots=True)
class Granted:
    """Placement chose a device for a queued run."""

    device_id: str
    agent_id: str
    incarnation: str
    partners: tuple[Partner, ...] = ()
    """Of a run on several hosts, those beside the lead."""


@dataclass(frozen=True, slots=True)
class PartnerMeasured:
    """A partner reports that its share of the ranks has trained to the end."""

    attempt: int
    agent_id: str
    verdict: PartnerVerdict


@dataclass(frozen=True, slots=True)
class Reported:
    """An agent reports an attempt's outcome; may repeat, or come after the lease is gone."""

    attempt: int
    outcome: Outcome
    started_at: float


@dataclass(frozen=True, slots=True)
class Cooled:
    """The agent says whether the attempt waits for its device to come within its policy's
    limits."""

    attempt: int
    waits: bool


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The lease expired, or its agent is dead or was restarted."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A user cancels the run."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A user resumes a failed or cancelled run."""


Event = Granted | Cooled | PartnerMeasured | Reported | LeaseLost | Cancelled | Resumed


def advance(run: Run, event: Event, now: float, policy: RetryPolicy) -> RunChange:
    """Apply one event to a run; an event that no longer applies changes nothing.

    Raises UnknownAttempt for a report about an attempt that was never granted.
    """
    match event:
        case Granted():
            return _grant(run, event, now)
        case Cooled():
            return _cool(run, event)
        case PartnerMeasured():
            return _hear_partner(run, event)
        case Reported():
            return _report(run, event, now, policy)
        case LeaseLost():
            return _lose(run, now, policy)
        case Cancelled():
            return _cancel(run, now)
        case Resumed():
            return _resume(run, now)


def _grant(run: Run, event: Granted, now: float) -> RunChange:
    if run.state is not RunState.QUEUED:
        return RunChange(run)
    attempt = Attempt(
        number=len(run.attempts) + 1,
        device_id=event.device_id,
        agent_id=event.agent_id,
        incarnation=event.incarnation,
        state=AttemptState.LEASED,
        leased_at=now,
        partners=event.partners or None,
    )
    attempts = (*run.attempts, attempt)
    return RunChange(run.model_copy(update={"state": RunState.LEASED, "attempts": attempts}))


def _cool(run: Run, event: Cooled) -> RunChange:
    lease = run.lease
    if lease is None or lease.number != event.attempt or bool(lease.cooling) is event.waits:
        return RunChange(run)
    return RunChange(_with_attempt(run, lease.model_copy(update={"cooling": event.waits})))


def _hear_partner(run: Run, event: PartnerMeasured) -> RunChange:
    lease = run.lease
    if lease is None or lease.number != event.attempt or not lease.partners:
        return RunChange(run)
    partners = tuple(
        partner.model_copy(update={"verdict": event.verdict})
        if partner.agent_id == event.agent_id
        else partner
        for partner in lease.partners
    )
    return RunChange(_with_attempt(run, lease.model_copy(update={"partners": partners})))


def _report(run: Run, event: Reported, now: float, policy: RetryPolicy) -> RunChange:
    if not 1 <= event.attempt <= len(run.attempts):
        raise UnknownAttempt(run.run_id, event.attempt)
    attempt = run.attempts[event.attempt - 1]
    if attempt.state is AttemptState.LEASED:
        return _conclude(run, attempt, event, now, policy)
    if attempt.late or attempt.state in (AttemptState.SUCCEEDED, AttemptState.FAILED):
        return RunChange(run)
    late = _with_attempt(run, attempt.model_copy(update={"late": True}))
    return RunChange(late, _record(run, attempt, event, counted=False, now=now))


def _conclude(
    run: Run, attempt: Attempt, event: Reported, now: float, policy: RetryPolicy
) -> RunChange:
    record = _record(run, attempt, event, counted=True, now=now)
    if isinstance(event.outcome, Result):
        return RunChange(_ended(run, attempt, AttemptState.SUCCEEDED, RunState.DONE, now), record)
    retried = should_retry(run, event.outcome, policy)
    state = RunState.QUEUED if retried else RunState.FAILED
    return RunChange(_ended(run, attempt, AttemptState.FAILED, state, now), record)


def _lose(run: Run, now: float, policy: RetryPolicy) -> RunChange:
    lease = run.lease
    if lease is None:
        return RunChange(run)
    lost = sum(a.state is AttemptState.LOST for a in run.recent) + 1
    if lost < policy.max_lost:
        return RunChange(_ended(run, lease, AttemptState.LOST, RunState.QUEUED, now))
    failure = Failure(
        blame=Blame.HARNESS,
        kind="lost",
        message=f"{lost} attempts lost their agent, the same one or others",
    )
    report = Reported(lease.number, failure, started_at=lease.leased_at)
    record = _record(run, lease, report, counted=True, now=now)
    return RunChange(_ended(run, lease, AttemptState.LOST, RunState.FAILED, now), record)


def _cancel(run: Run, now: float) -> RunChange:
    if run.state.terminal:
        return RunChange(run)
    lease = run.lease
    if lease is None:
        return RunChange(run.model_copy(update={"state": RunState.CANCELLED}))
    return RunChange(_ended(run, lease, AttemptState.CANCELLED, RunState.CANCELLED, now))


def _resume(run: Run, now: float) -> RunChange:
    if run.state not in (RunState.FAILED, RunState.CANCELLED):
        return RunChange(run)
    again = {"state": RunState.QUEUED, "resumed_after": len(run.attempts), "queued_at": now}
    return RunChange(run.model_copy(update=again))


def _ended(run: Run, attempt: Attempt, ending: AttemptState, state: RunState, now: float) -> Run:
    # The wall clock may have been set back meanwhile.
    ended = attempt.model_copy(update={"state": ending, "ended_at": max(now, attempt.leased_at)})
    return _with_attempt(run, ended).model_copy(update={"state": state})


def _with_attempt(run: Run, attempt: Attempt) -> Run:
    before, after = run.attempts[: attempt.number - 1], run.attempts[attempt.number :]
    return run.model_copy(update={"attempts": (*before, attempt, *after)})


def _record(
    run: Run, attempt: Attempt, event: Reported, *, counted: bool, now: float
) -> OutcomeRecord:
    return OutcomeRecord(
        run_id=run.run_id,
        attempt=attempt.number,
        outcome=event.outcome,
        counted=counted,
        started_at=event.started_at,
        recorded_at=now,
    )
