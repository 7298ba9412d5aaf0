"""Why each open run waits: a row for each state that it can be in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.device import (
    CONTROLLER,
    Booking,
    Device,
    DeviceLife,
    DeviceState,
    DeviceStatus,
    Hold,
    RegisteredDevice,
)
from controller.contracts.run import AttemptState, Run, RunState
from controller.contracts.sweep import Cell
from controller.contracts.waiting import WaitReason
from controller.scheduling.device_life import may_run, reserved_for
from controller.scheduling.fair_share import Claim, Claims
from controller.scheduling.placement import cores_in_use, place
from controller.scheduling.queued import QueuedRuns
from controller.scheduling.waiting import Queue, grouped, waiting
from tests.support import builders
from tests.support.builders import attempt

NOW = 86_400.0
HOUR_S = 3600.0
CATALOG = builders.catalog()
FREE = DeviceLife()
ANN, BOB = Claim("ann"), Claim("bob")
CLAIMS = Claims({"demo-1": ANN, "bobs-1": BOB})


def known(
    device: Device | None = None, life: DeviceLife = FREE, *, online: bool = True
) -> RegisteredDevice:
    return RegisteredDevice(
        device=device or builders.cpu(), agent_id="host", online=online, since=1.0, life=life
    )


def leased(run_id: str, device: str = "cpu-1", *, cooling: bool = False, at: float = NOW) -> Run:
    held = attempt(device, 1, AttemptState.LEASED)
    held = held.model_copy(update={"cooling": cooling, "leased_at": at})
    run = builders.run(run_id, attempts=(held,))
    return run.model_copy(update={"state": RunState.LEASED})


def of_bob(run: Run) -> Run:
    return run.model_copy(update={"sweep_id": "bobs-1"})


def away(state: DeviceState, why: str) -> RegisteredDevice:
    gone = DeviceStatus(state=state, since=1.0, who="host", why=why)
    return known(life=DeviceLife(away=gone), online=False)


def booked(user: str | None) -> RegisteredDevice:
    booking = Booking(begins=NOW - 1, ends=NOW + 2 * HOUR_S, user=user, who="admin", why="a paper")
    return known(life=DeviceLife(bookings=(booking,)))


def held(who: str, probe_at: float | None = None) -> RegisteredDevice:
    hold = Hold(since=1.0, who=who, why="it is loud")
    return known(life=DeviceLife(quarantine=hold, probe_at=probe_at))


def drained(device: RegisteredDevice) -> RegisteredDevice:
    drain = Hold(since=NOW, who="admin", why="new fans")
    return device.model_copy(update={"draining": drain})


DRAINED = "cpu-1 takes no runs: its host is draining since 1970-01-02 00:00 UTC, by admin: new fans"
MINE = builders.run("mine")


@dataclass(frozen=True)
class Case:
    """A run `mine` that waits in a fleet, and what it is told."""

    reason: WaitReason
    said: str
    devices: Sequence[RegisteredDevice] = (known(),)
    others: Sequence[Run] = ()
    mine: Run = MINE
    claims: Claims = CLAIMS
    withheld: frozenset[str] = frozenset()
    held_up: tuple[str, ...] = ()


WHY = "waiting for core 3, which process 7 of user eve holds"
SMALL = builders.cpu("cpu-2", cores=frozenset({1}))
CASES = {
    "nothing keeps it": Case(WaitReason.STARTS, "cpu-1 is free, and it is next"),
    "its device measures": Case(
        WaitReason.BUSY,
        "cpu-1 measures run first of bob; it is next",
        others=[of_bob(leased("first"))],
    ),
    "its device cools down": Case(
        WaitReason.COOLING,
        "cpu-1 cools down for run first of ann",
        others=[leased("first", cooling=True)],
    ),
    "it cools down itself": Case(
        WaitReason.COOLING,
        "cpu-1 cools down for run mine of ann",
        mine=leased("mine", cooling=True),
    ),
    "another farm holds its cores": Case(
        WaitReason.LOCKED,
        f"cpu-1, with run mine of ann, is {WHY}",
        mine=leased("mine"),
        held_up=("mine",),
    ),
    "another farm holds the cores of the run before it": Case(
        WaitReason.LOCKED,
        f"cpu-1, with run first of bob, is {WHY}",
        others=[of_bob(leased("first"))],
        held_up=("first",),
    ),
    "another device measures on its cores": Case(
        WaitReason.CORES,
        "run first of ann measures on the cores of cpu-1; it is next",
        devices=[known(), known(SMALL)],
        others=[leased("first", "cpu-2")],
        mine=builders.run("mine", of=builders.cell('device == "cpu-1"')),
    ),
    "a user with less device time goes first": Case(
        WaitReason.TURN,
        "1 run goes first on cpu-1, next run second of bob",
        others=[leased("first"), of_bob(builders.run("second", position=1))],
        claims=replace(CLAIMS, spent_s={"ann": 100.0}),
    ),
    "own runs go first": Case(
        WaitReason.TURN,
        "2 runs go first on cpu-1, next run second of ann",
        others=[leased("first"), builders.run("second"), builders.run("third")],
    ),
    "a sweep of higher priority goes first": Case(
        WaitReason.TURN,
        "1 run goes first on cpu-1, next run second of bob",
        others=[leased("first"), of_bob(builders.run("second", position=1))],
        claims=Claims({"demo-1": ANN, "bobs-1": Claim("bob", 5)}, {"bob": 100.0}),
    ),
    "another user has it reserved": Case(
        WaitReason.RESERVED,
        "cpu-1 is reserved for bob until 1970-01-02 02:00 UTC: a paper",
        devices=[booked("bob")],
    ),
    "it is in maintenance": Case(
        WaitReason.MAINTENANCE,
        "cpu-1 is in maintenance until 1970-01-02 02:00 UTC: a paper",
        devices=[booked(None)],
    ),
    "its agent is drained": Case(
        WaitReason.DRAINING,
        DRAINED,
        devices=[drained(known())],
    ),
    "its agent is drained, and another user has it reserved": Case(
        WaitReason.DRAINING,
        DRAINED,
        devices=[drained(booked("bob"))],
    ),
    "its agent is drained, and the user has it reserved": Case(
        WaitReason.DRAINING,
        DRAINED,
        devices=[drained(booked("ann"))],
    ),
    "its agent is drained, and it is offline": Case(
        WaitReason.AWAY,
        "no device that fits is online: cpu-1 is offline since 1970-01-01 00:00 UTC (unplugged)",
        devices=[drained(away(DeviceState.OFFLINE, "unplugged"))],
    ),
    "its agent is drained, and another user's run measures on it": Case(
        WaitReason.DRAINING,
        DRAINED,
        devices=[drained(known())],
        others=[of_bob(leased("first"))],
    ),
    "failures put it in quarantine": Case(
        WaitReason.QUARANTINED,
        "cpu-1 is in quarantine until a probe passes; the next is at "
        "1970-01-02 01:00 UTC: it is loud",
        devices=[held(CONTROLLER, NOW + HOUR_S)],
    ),
    "a person put it in quarantine": Case(
        WaitReason.QUARANTINED,
        "cpu-1 is in quarantine until a person releases it: it is loud",
        devices=[held("admin")],
    ),
    "it is offline": Case(
        WaitReason.AWAY,
        "no device that fits is online: cpu-1 is offline since 1970-01-01 00:00 UTC (unplugged)",
        devices=[away(DeviceState.OFFLINE, "unplugged")],
    ),
    "it is unauthorized": Case(
        WaitReason.AWAY,
        "no device that fits is online: cpu-1 is unauthorized since "
        "1970-01-01 00:00 UTC (tap Allow)",
        devices=[away(DeviceState.UNAUTHORIZED, "tap Allow")],
    ),
    "its agent is silent": Case(
        WaitReason.AWAY,
        "no device that fits is online: cpu-1 is lost since "
        "1970-01-01 00:00 UTC (agent host is silent)",
        devices=[away(DeviceState.LOST, "agent host is silent")],
    ),
    "no device fits": Case(
        WaitReason.NO_MATCH,
        'no device fits: cpu-1 is excluded by rack == "b" (it has no rack)',
        mine=builders.run("mine", of=builders.cell("rack == b")),
    ),
    "this release lacks its stack": Case(
        WaitReason.NO_MATCH,
        "no device fits: cpu-1 is excluded by this release, "
        "which has no resnet on stack tensorflow",
        mine=builders.run("mine", of=builders.cell(stack="tensorflow")),
    ),
    "its only device was removed": Case(
        WaitReason.GONE,
        "the farm no longer knows cpu-9, the only device that it is for",
        mine=builders.run("mine", of=builders.cell('device == "cpu-9"')),
    ),
    "there is no device": Case(WaitReason.NO_DEVICE, "the farm has no device", devices=[]),
    "its sweep is being changed": Case(
        WaitReason.CHANGING,
        "its sweep is being cancelled or resumed",
        withheld=frozenset({"demo-1"}),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_state_of_a_waiting_run_has_its_reason(case: Case) -> None:
    claims = replace(case.claims, reserved_for=reserved_for(case.devices, NOW))
    runs = [*case.others, case.mine]
    held_up = dict.fromkeys(case.held_up, WHY)
    queue = Queue(NOW, runs, case.devices, claims, case.withheld, held_up)

    found = waiting(queue, CATALOG)["mine"]

    assert (found.reason, found.words) == (case.reason, case.said)


def test_every_reason_has_a_case() -> None:
    assert {case.reason for case in CASES.values()} == set(WaitReason)


def test_a_run_that_measures_waits_for_nothing() -> None:
    assert waiting(Queue(NOW, [leased("mine")], [known()]), CATALOG) == {}


def test_the_device_that_is_free_soonest_is_the_one_waited_for() -> None:
    there = known(builders.cpu("cpu-2", cores=frozenset({7})))
    away_ = away(DeviceState.OFFLINE, "unplugged")
    queue = Queue(NOW, [leased("first", "cpu-2"), builders.run("mine")], [away_, there], CLAIMS)

    found = waiting(queue, CATALOG)["mine"]

    assert (found.reason, found.device, found.more_devices) == (WaitReason.BUSY, "cpu-2", 1)
    assert found.words.endswith("it is next (1 more fit)")


def test_a_lease_on_a_device_that_is_not_known_stops_nobody() -> None:
    queue = Queue(NOW, [leased("first", "gone"), builders.run("mine")], [known()], CLAIMS)
    assert waiting(queue, CATALOG)["mine"].reason is WaitReason.STARTS


def minute(_cell: Cell, _device: Device) -> float:
    return 60.0


def test_a_start_is_estimated_from_the_runs_before_it() -> None:
    queued = [builders.run(f"run-{n}") for n in range(3)]
    queue = Queue(NOW, [leased("first", at=NOW - 20), *queued], [known()], CLAIMS)

    found = waiting(queue, CATALOG, minute)

    starts = [found[run.run_id].starts_at for run in queued]
    assert starts == [NOW + 40, NOW + 100, NOW + 160]


def test_a_run_that_is_overdue_is_expected_to_end_now() -> None:
    queue = Queue(NOW, [leased("first", at=NOW - 900), builders.run("mine")], [known()], CLAIMS)
    assert waiting(queue, CATALOG, minute)["mine"].starts_at == NOW


def test_nobody_knows_when_a_run_starts_behind_one_without_history() -> None:
    queue = Queue(NOW, [leased("first"), builders.run("mine")], [known()], CLAIMS)
    assert waiting(queue, CATALOG)["mine"].starts_at is None


def test_a_run_starts_after_a_booking_of_another_and_in_its_user_s_own() -> None:
    for user, starts_at in ((None, NOW + 2 * HOUR_S), ("bob", NOW + 2 * HOUR_S), ("ann", NOW)):
        device = booked(user)
        claims = replace(CLAIMS, reserved_for=reserved_for([device], NOW))
        queue = Queue(NOW, [builders.run("mine")], [device], claims)
        assert waiting(queue, CATALOG, minute)["mine"].starts_at == starts_at


def test_a_booking_that_begins_before_the_line_has_ended_delays_the_rest() -> None:
    later = Booking(begins=NOW + 90, ends=NOW + HOUR_S, user=None, who="admin", why="battery")
    device = known(life=DeviceLife(bookings=(later,)))
    queued = [builders.run(f"run-{n}") for n in range(2)]
    queue = Queue(NOW, [leased("first"), *queued], [device], CLAIMS)

    found = waiting(queue, CATALOG, minute)

    assert [found[r.run_id].starts_at for r in queued] == [NOW + 60, NOW + HOUR_S]


@pytest.mark.parametrize("who", [CONTROLLER, "admin"])
def test_nobody_knows_when_a_device_leaves_quarantine(who: str) -> None:
    queue = Queue(NOW, [builders.run("mine")], [held(who, NOW + 1)], CLAIMS)
    assert waiting(queue, CATALOG, minute)["mine"].starts_at is None


def test_runs_that_wait_for_the_same_are_told_once() -> None:
    queued = [builders.run(f"run-{n}") for n in range(4)]
    nowhere = builders.run("nowhere", of=builders.cell("rack == b"))
    runs = [leased("first"), *queued, nowhere]

    told = grouped(waiting(Queue(NOW, runs, [known()], CLAIMS), CATALOG), runs)

    assert [(group.runs, group.said) for group in told] == [
        (1, "1 run waits: cpu-1 measures run first of ann; it is next"),
        (3, "3 runs wait: 1 run goes first on cpu-1, next run run-0 of ann"),
        (1, f"1 run waits: {told[2].first.words}"),
    ]


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    lives = [FREE, booked("ann").life, booked("bob").life, booked(None).life, held("admin").life]
    devices = [
        known(
            builders.cpu(f"cpu-{n}", cores=draw(st.frozensets(st.integers(0, 3), min_size=1))),
            draw(st.sampled_from(lives)),
            online=draw(st.booleans()),
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    busy = draw(st.lists(st.sampled_from(devices), unique_by=id)) if devices else []
    runs = [leased(f"busy-{d.device.id}", d.device.id) for d in busy]
    for n in range(draw(st.integers(0, 6))):
        cell = builders.cell(draw(st.sampled_from(("any", "device == cpu-1", "nowhere == 1"))))
        run = builders.run(f"run-{n}", of=cell, position=n)
        runs.append(of_bob(run) if draw(st.booleans()) else run)
    booked_for = reserved_for(devices, NOW)
    spent = {"ann": draw(st.floats(0, 200)), "bob": draw(st.floats(0, 200))}
    return Queue(NOW, runs, devices, replace(CLAIMS, spent_s=spent, reserved_for=booked_for))


@given(queues())
def test_a_run_starts_exactly_if_placement_would_lease_it(queue: Queue) -> None:
    held_ = {run.lease.device_id for run in queue.runs if run.lease}
    devices = {d.device.id: d for d in queue.devices}
    free = [d.device for id_, d in devices.items() if may_run(d) and id_ not in held_]
    cores = cores_in_use(devices[id_] for id_ in held_)
    queued = [run for run in queue.runs if run.lease is None]
    hosts = {id_: d.agent_id for id_, d in devices.items()}
    in_lines = QueuedRuns.of(queued, queue.claims.of_sweep)
    placed = {r.run_id for r, _ in place(in_lines, free, cores, hosts, CATALOG, queue.claims)}

    found = waiting(queue, CATALOG)

    assert {run_id for run_id, w in found.items() if w.reason is WaitReason.STARTS} == placed
    assert found.keys() == {run.run_id for run in queued}, "no run waits without a reason"
