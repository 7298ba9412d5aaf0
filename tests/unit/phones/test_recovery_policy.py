"""Which remedy comes next for a phone that can't be reached."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agents.phones.recovery.policy import (
    CURABLE,
    CYCLES_AN_HOUR,
    IN_USE,
    PROBES,
    RESTARTS_AN_HOUR,
    Means,
    Remedy,
    Step,
    next_step,
)
from agents.remotes.remote import FaultKind

ALL = Means(own_server=True, in_use=False, restarts=0, command=True, cycles=0)
R, A, P = Remedy.RECONNECT, Remedy.RESTART_ADB, Remedy.POWER_CYCLE
MEANS = st.builds(
    Means,
    own_server=st.booleans(),
    in_use=st.booleans(),
    restarts=st.integers(0, RESTARTS_AN_HOUR),
    command=st.booleans(),
    cycles=st.integers(0, CYCLES_AN_HOUR),
)


def climbed(means: Means, kind: FaultKind = FaultKind.OFFLINE) -> list[Remedy]:
    """Return all that is done for a phone that never comes back."""
    done = [R]
    while remedy := next_step(done, kind, means).remedy:
        done.append(remedy)
    return done


def test_reconnecting_then_adb_then_the_user_s_command() -> None:
    assert climbed(ALL) == [R, R, R, A, P, R, P, R, R, R, R]


def test_without_a_command_adb_is_restarted_once() -> None:
    assert climbed(replace(ALL, command=False)) == [R, R, R, A, *[R] * 7]


def test_what_a_restart_can_not_cure_is_only_probed() -> None:
    for kind in set(FaultKind) - CURABLE - {FaultKind.UNAUTHORIZED}:
        assert climbed(ALL, kind) == [R] * PROBES
    assert climbed(ALL, FaultKind.UNAUTHORIZED) == [R]


def test_a_restart_waits_for_other_phones_and_says_so() -> None:
    busy = replace(ALL, in_use=True)
    assert next_step([R, R, R], FaultKind.OFFLINE, busy) == Step(P, (IN_USE,))
    assert next_step([R, R, R, P], FaultKind.OFFLINE, ALL) == Step(A), "once they are idle"


def test_the_limit_of_an_hour_is_told() -> None:
    worn = replace(ALL, restarts=RESTARTS_AN_HOUR, cycles=CYCLES_AN_HOUR)
    step = next_step([R, R, R], FaultKind.OFFLINE, worn)
    assert step.remedy is R
    assert [why.partition(" more than")[0] for why in step.left_out] == [
        *("adb is not restarted", "its power is not cycled"),
    ]


@given(st.lists(MEANS, min_size=PROBES, max_size=PROBES), st.sampled_from(FaultKind))
def test_whatever_changes_meanwhile_no_phone_in_use_is_disturbed_and_it_ends(
    means: list[Means], kind: FaultKind
) -> None:
    done = [R]
    for now in means:
        step = next_step(done, kind, now)
        if step.remedy is A:
            assert now.own_server
            assert not now.in_use
            assert now.restarts < RESTARTS_AN_HOUR
        if step.remedy is P:
            assert now.command
            assert now.cycles < CYCLES_AN_HOUR
            assert P is not done[-1]
        if step.remedy is None:
            break
        done.append(step.remedy)
    assert step.remedy is None, "it is given up"
    assert len(done) <= PROBES
    assert done.count(A) <= 1
    assert done.count(P) <= 2
