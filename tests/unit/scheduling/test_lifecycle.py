from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.contracts.errors import UnknownAttempt
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.run import Attempt, AttemptState, OutcomeRecord, Run, RunState
from controller.scheduling.lifecycle import (
    Cancelled,
    Cooled,
    Event,
    Granted,
    LeaseLost,
    Reported,
    Resumed,
    advance,
)
from controller.scheduling.policy import RetryPolicy
from tests.support import builders

POLICY = RetryPolicy(max_failures=3, max_lost=3)
GRANT = Granted("cpu-1", "host-1", "first")
RESULT = Reported(1, builders.result(), started_at=1001.0)


def after(*events: Event) -> Run:
    """Return a run that has seen some events, at second 1000 all."""
    run = builders.run()
    for event in events:
        run = advance(run, event, 1000.0, POLICY).run
    return run


def fails(blame: Blame, attempt: int = 1) -> Reported:
    return Reported(attempt, builders.failure(blame), started_at=1001.0)


QUEUED, LEASED = after(), after(GRANT)
RETRIED = after(GRANT, fails(Blame.DEVICE))
LOST = after(GRANT, LeaseLost())
DONE = after(GRANT, RESULT)
FAILED = after(GRANT, fails(Blame.USER))
CANCELLED = after(GRANT, Cancelled())


def test_a_grant_makes_an_attempt_with_owner_and_expiry() -> None:
    lease = after(GRANT).lease

    assert lease is not None
    assert lease == Attempt(
        number=1,
        device_id="cpu-1",
        agent_id="host-1",
        incarnation="first",
        state=AttemptState.LEASED,
        leased_at=1000.0,
    )


@pytest.mark.parametrize("run", [LEASED, DONE, FAILED, CANCELLED])
def test_only_a_queued_run_is_granted(run: Run) -> None:
    assert advance(run, GRANT, 1001.0, POLICY).run == run


@pytest.mark.parametrize("run", [RETRIED, LOST])
def test_a_retry_is_a_new_attempt_beside_the_old(run: Run) -> None:
    again = advance(run, GRANT, 1005.0, POLICY).run

    assert again.attempts[:1] == run.attempts
    assert again.lease is not None
    assert again.lease.number == 2


def test_a_result_ends_the_run_and_counts() -> None:
    change = advance(LEASED, RESULT, 1002.0, POLICY)

    assert change.run.state is RunState.DONE
    assert change.run.attempts[0].state is AttemptState.SUCCEEDED
    assert change.run.attempts[0].ended_at == 1002.0
    assert change.record == OutcomeRecord(
        run_id="run-1",
        attempt=1,
        outcome=RESULT.outcome,
        counted=True,
        started_at=1001.0,
        recorded_at=1002.0,
    )


@pytest.mark.parametrize(
    ("blame", "state"),
    [
        (Blame.USER, RunState.FAILED),
        (Blame.WORKLOAD, RunState.FAILED),
        (Blame.DEVICE, RunState.QUEUED),
        (Blame.HARNESS, RunState.QUEUED),
    ],
)
def test_blame_decides_whether_a_failure_is_tried_again(blame: Blame, state: RunState) -> None:
    change = advance(LEASED, fails(blame), 1002.0, POLICY)

    assert change.run.state is state
    assert change.run.attempts[0].state is AttemptState.FAILED
    assert change.record is not None
    assert change.record.counted


def test_retries_end() -> None:
    run = after(GRANT, fails(Blame.DEVICE, 1), GRANT, fails(Blame.HARNESS, 2), GRANT)
    assert advance(run, fails(Blame.DEVICE, 3), 1002.0, POLICY).run.state is RunState.FAILED


@pytest.mark.parametrize("other", [GRANT, replace(GRANT, agent_id="host-2")])
def test_losses_are_not_failures_but_end_too(other: Granted) -> None:
    """Whichever agent it was: a run may be what ends its hosts."""
    run = after(GRANT, fails(Blame.DEVICE), GRANT, LeaseLost(), other, LeaseLost(), GRANT)
    change = advance(run, LeaseLost(), 1002.0, POLICY)

    assert run.state is RunState.LEASED
    assert change.run.state is RunState.FAILED
    assert change.record is not None
    message = "3 attempts lost their agent, the same one or others"
    assert change.record.outcome == Failure(blame=Blame.HARNESS, kind="lost", message=message)


@pytest.mark.parametrize("run", [QUEUED, RETRIED, LOST, DONE, FAILED, CANCELLED])
def test_only_a_lease_can_be_lost(run: Run) -> None:
    change = advance(run, LeaseLost(), 1002.0, POLICY)
    assert (change.run, change.record) == (run, None)


@pytest.mark.parametrize("run", [LOST, CANCELLED])
def test_a_late_outcome_is_kept_and_does_not_count(run: Run) -> None:
    change = advance(run, RESULT, 1002.0, POLICY)

    assert change.run.state is run.state
    assert change.run.attempts[0] == run.attempts[0].model_copy(update={"late": True})
    assert change.record is not None
    assert not change.record.counted


@pytest.mark.parametrize("event", [RESULT, fails(Blame.DEVICE)])
@pytest.mark.parametrize("run", [RETRIED, DONE, FAILED, after(GRANT, LeaseLost(), RESULT)])
def test_a_report_that_comes_twice_changes_nothing(run: Run, event: Reported) -> None:
    change = advance(run, event, 1003.0, POLICY)
    assert (change.run, change.record) == (run, None)


@pytest.mark.parametrize("run", [QUEUED, LEASED, LOST, DONE, CANCELLED])
@pytest.mark.parametrize("attempt", [-1, 0, 2])
def test_a_report_about_an_attempt_never_granted_is_refused(run: Run, attempt: int) -> None:
    with pytest.raises(UnknownAttempt) as caught:
        advance(run, Reported(attempt, builders.result(), 1.0), 1002.0, POLICY)
    assert (caught.value.run_id, caught.value.attempt) == ("run-1", attempt)


@pytest.mark.parametrize("run", [QUEUED, LEASED, RETRIED, LOST])
def test_an_open_run_can_be_cancelled(run: Run) -> None:
    change = advance(run, Cancelled(), 1002.0, POLICY)

    assert change.run.state is RunState.CANCELLED
    assert change.record is None
    assert all(a.state is not AttemptState.LEASED for a in change.run.attempts)


@pytest.mark.parametrize("run", [DONE, FAILED, CANCELLED])
def test_an_ended_run_can_not_be_cancelled(run: Run) -> None:
    assert advance(run, Cancelled(), 1002.0, POLICY).run == run


@pytest.mark.parametrize("run", [FAILED, CANCELLED])
def test_a_resumed_run_is_queued_with_all_its_tries(run: Run) -> None:
    again = advance(run, Resumed(), 1002.0, POLICY).run

    assert again.state is RunState.QUEUED
    assert again.attempts == run.attempts
    for number in range(2, 2 + POLICY.max_failures):
        assert again.state is RunState.QUEUED
        again = advance(again, GRANT, 1003.0, POLICY).run
        again = advance(again, fails(Blame.DEVICE, number), 1004.0, POLICY).run
    assert again.state is RunState.FAILED


@pytest.mark.parametrize("run", [QUEUED, LEASED, RETRIED, LOST, DONE])
def test_what_is_open_or_done_is_not_resumed(run: Run) -> None:
    assert advance(run, Resumed(), 1002.0, POLICY).run == run


def test_an_attempt_says_whether_it_waits_and_its_end_ends_that() -> None:
    waits = advance(LEASED, Cooled(1, waits=True), 1002.0, POLICY).run
    assert waits.lease
    assert waits.lease.cooling
    assert advance(waits, Cooled(1, waits=True), 1003.0, POLICY).run is waits
    assert advance(waits, Cooled(2, waits=False), 1003.0, POLICY).run is waits
    goes_on = advance(waits, Cooled(1, waits=False), 1003.0, POLICY).run
    assert goes_on.lease
    assert not goes_on.lease.cooling
    assert advance(DONE, Cooled(1, waits=True), 1003.0, POLICY).run is DONE


def test_a_resumed_run_waits_since_then() -> None:
    again = advance(CANCELLED, Resumed(), 5000.0, POLICY).run
    assert again.waits_since == 5000.0
    failed = advance(advance(again, GRANT, 5001.0, POLICY).run, LeaseLost(), 5002.0, POLICY).run
    assert failed.waits_since == 5002.0


def test_a_late_result_of_before_does_not_count_after_resuming() -> None:
    again = advance(CANCELLED, Resumed(), 1002.0, POLICY).run
    change = advance(again, RESULT, 1003.0, POLICY)

    assert change.run.state is RunState.QUEUED
    assert change.record is not None
    assert not change.record.counted


RUNS = st.integers(0, 2)
NUMBERS = st.integers(0, 12)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(builders.result()), st.sampled_from([builders.failure(blame) for blame in Blame])
)


class Lifecycle(RuleBasedStateMachine):
    """Several runs under any events in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.runs = [builders.run(f"run-{index}") for index in range(3)]
        self.before = list(self.runs)
        self.records: list[OutcomeRecord] = []

    @rule(seconds=st.sampled_from([-3600.0, -60.0, 60.0, 3600.0]))
    def step(self, seconds: float) -> None:
        """Set the clock."""
        self.now = max(0.0, self.now + seconds)

    def apply(self, index: int, event: Event) -> None:
        self.now += 1.0
        self.before = list(self.runs)
        change = advance(self.runs[index], event, self.now, POLICY)
        self.runs[index] = change.run
        if change.record:
            self.records.append(change.record)

    @rule(index=RUNS, device=st.sampled_from(["cpu-1", "cpu-2"]))
    def grant(self, index: int, device: str) -> None:
        self.apply(index, Granted(device, f"agent of {device}", "first"))

    @rule(index=RUNS, attempt=NUMBERS, outcome=OUTCOMES, twice=st.booleans())
    def report(self, index: int, attempt: int, outcome: Outcome, twice: bool) -> None:
        event = Reported(attempt, outcome, self.now)
        if not 1 <= attempt <= len(self.runs[index].attempts):
            with pytest.raises(UnknownAttempt):
                self.apply(index, event)
            return
        self.apply(index, event)
        if twice:
            told = len(self.records)
            self.apply(index, event)
            assert self.before == self.runs
            assert len(self.records) == told

    @rule(index=RUNS, outcome=OUTCOMES)
    def report_what_is_leased(self, index: int, outcome: Outcome) -> None:
        if lease := self.runs[index].lease:
            self.apply(index, Reported(lease.number, outcome, self.now))

    @rule(index=RUNS, attempt=NUMBERS, waits=st.booleans())
    def cool(self, index: int, attempt: int, waits: bool) -> None:
        self.apply(index, Cooled(attempt, waits))

    @rule(index=RUNS)
    def lose(self, index: int) -> None:
        self.apply(index, LeaseLost())

    @rule(index=RUNS, really=st.integers(0, 3))
    def cancel(self, index: int, really: int) -> None:
        if not really:
            self.apply(index, Cancelled())

    @rule(index=RUNS, really=st.integers(0, 3))
    def resume(self, index: int, really: int) -> None:
        if not really:
            self.apply(index, Resumed())

    @invariant()
    def a_terminal_state_is_left_by_resuming_only_and_done_never(self) -> None:
        for before, run in zip(self.before, self.runs, strict=True):
            assert run.run_id == before.run_id
            if before.state.terminal and run.state is not before.state:
                assert before.state is not RunState.DONE
                assert run.state is RunState.QUEUED
                assert run.resumed_after == len(run.attempts)

    @invariant()
    def attempts_grow_and_ended_ones_stay(self) -> None:
        for before, run in zip(self.before, self.runs, strict=True):
            assert [a.number for a in run.attempts] == list(range(1, len(run.attempts) + 1))
            for old, new in zip(before.attempts, run.attempts, strict=False):
                if old.state is not AttemptState.LEASED:
                    assert new.model_copy(update={"late": old.late}) == old
                    assert new.late or not old.late
            assert len(before.attempts) <= len(run.attempts) <= len(before.attempts) + 1

    @invariant()
    def a_leased_run_has_one_owned_attempt_and_no_other_has_any(self) -> None:
        for run in self.runs:
            live = [a for a in run.attempts if a.state is AttemptState.LEASED]
            assert len(live) == (run.state is RunState.LEASED)
            assert live in ([], [run.lease])
            assert all(a.agent_id and a.incarnation for a in live)
            assert all((a.ended_at is None) == (a in live) for a in run.attempts)
            assert all(a.ended_at is None or a.ended_at >= a.leased_at for a in run.attempts)

    @invariant()
    def a_done_run_has_one_result_that_counts_and_no_other_has_any(self) -> None:
        counted = Counter(r.run_id for r in self.records if r.counted and _is_result(r))
        for run in self.runs:
            assert counted[run.run_id] == (run.state is RunState.DONE)

    @invariant()
    def an_attempt_has_one_counted_and_one_late_outcome_at_most(self) -> None:
        kept = Counter((r.run_id, r.attempt, r.counted) for r in self.records)
        assert all(times == 1 for times in kept.values())
        for run in self.runs:
            for a in run.attempts:
                assert kept[run.run_id, a.number, False] == a.late

    @invariant()
    def a_failed_run_says_why(self) -> None:
        for run in self.runs:
            last = [r for r in self.records if r.run_id == run.run_id and r.counted][-1:]
            if run.state is RunState.FAILED:
                assert last
                assert last[0].attempt == len(run.attempts)
                assert isinstance(last[0].outcome, Failure)

    @invariant()
    def retries_are_bounded(self) -> None:
        for run in self.runs:
            states = Counter(a.state for a in run.recent)
            assert states[AttemptState.FAILED] <= POLICY.max_failures
            assert states[AttemptState.LOST] <= POLICY.max_lost
            assert len(run.recent) <= POLICY.max_failures + POLICY.max_lost + 1


def _is_result(record: OutcomeRecord) -> bool:
    return isinstance(record.outcome, Result)


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=150, stateful_step_count=40)
