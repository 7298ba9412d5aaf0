"""Priorities, and fair shares of device time between users."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.records import Spent
from controller.contracts.run import Run
from controller.scheduling.fair_share import HALF_LIFE_S, Claim, Claims, FairShare, Shares
from controller.scheduling.placement import place
from controller.scheduling.queued import QueuedRuns
from tests.support import builders

USERS = ("ann", "ben", "eve")


def queued(user: str, count: int, priority: int = 0) -> list[Run]:
    """Return runs of one user's sweep; `claims` reads whose it is from the sweep's id."""
    return [
        builders.run(f"{user}-{priority}-{n}").model_copy(update={"sweep_id": f"{user}-{priority}"})
        for n in range(count)
    ]


def claims(
    spent: dict[str, float] | None = None, kept: dict[str, str | None] | None = None
) -> Claims:
    of = {f"{u}-{p}": Claim(u, p) for u in USERS for p in (-1, 0, 1)}
    return Claims(of, spent or {}, kept or {})


def order(runs: list[Run], by: Claims) -> list[str]:
    """Return in which order runs are granted if each gets a device."""
    fair_share, found = FairShare(QueuedRuns.of(runs, by.of_sweep).lines(), by.spent_s), []
    while run := fair_share.take():
        fair_share.granted()
        found.append(run.run_id)
    return found


def servers(count: int) -> list[str]:
    return [f"cpu-{n}" for n in range(count)]


def placed(runs: list[Run], devices: list[str], by: Claims) -> dict[str, str]:
    """Return device → user of what is placed."""
    free = [builders.cpu(name, cores=frozenset({n})) for n, name in enumerate(devices)]
    found = place(
        QueuedRuns.of(runs, by.of_sweep),
        free,
        {},
        dict.fromkeys(devices, "host"),
        builders.catalog(),
        by,
    )
    return {device.id: run.sweep_id.partition("-")[0] for run, device in found}


QUEUES = st.lists(
    st.tuples(st.sampled_from(USERS), st.integers(1, 6), st.sampled_from((-1, 0, 1))),
    max_size=6,
    unique_by=lambda one: (one[0], one[2]),
).map(
    lambda given: [run for user, count, priority in given for run in queued(user, count, priority)]
)


@given(QUEUES)
def test_every_run_gets_its_turn_once(runs: list[Run]) -> None:
    assert Counter(order(runs, claims())) == Counter(run.run_id for run in runs)


@given(QUEUES)
def test_a_higher_priority_goes_first_whoever_asks(runs: list[Run]) -> None:
    by = claims()
    fair_share, found = FairShare(QueuedRuns.of(runs, by.of_sweep).lines(), by.spent_s), []
    while run := fair_share.take():
        fair_share.granted()
        found.append(by.of(run).priority)
    assert found == sorted(found, reverse=True)


@given(st.lists(st.integers(4, 20), min_size=2, max_size=3))
def test_while_all_wait_no_user_gets_two_more_than_another(counts: list[int]) -> None:
    runs = [run for user, n in zip(USERS, counts, strict=False) for run in queued(user, n)]
    got: Counter[str] = Counter()
    for run_id in order(runs, claims())[: min(counts) * len(counts)]:
        got[run_id.partition("-")[0]] += 1
        assert max(got.values()) - min(got[u] for u in USERS[: len(counts)]) <= 1


def test_a_user_who_has_had_much_waits_for_who_has_had_little() -> None:
    runs = [*queued("ann", 3), *queued("ben", 3)]
    assert [r[:3] for r in order(runs, claims({"ann": 150.0}))] == ["ben"] * 3 + ["ann"] * 3


def test_a_reserved_device_takes_its_user_s_runs_only_and_one_in_maintenance_none() -> None:
    runs = [*queued("ann", 3), *queued("ben", 3)]
    kept: dict[str, str | None] = {"cpu-0": "ben", "cpu-1": None}
    assert placed(runs, servers(3), claims(kept=kept)) == {"cpu-0": "ben", "cpu-2": "ann"}


def test_device_time_counts_half_after_a_half_life() -> None:
    shares = Shares([Spent(user="ann", ended_at=100.0, seconds=80.0)])
    shares.add(Spent(user="ann", ended_at=100.0 + HALF_LIFE_S, seconds=10.0))
    assert shares.of("ann", 100.0 + HALF_LIFE_S) == 50.0
    assert shares.of("ann", 100.0 + 2 * HALF_LIFE_S) == 25.0
    now = shares.now(100.0 + HALF_LIFE_S, [("ben", 0.0, 1), ("ben", 100.0 + HALF_LIFE_S, 2)])
    assert now == {"ann": 50.0, "ben": 100.0 + HALF_LIFE_S + 2 * 60.0}
