from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from controller.contracts.device import Admission, RefusedDevice
from controller.contracts.errors import (
    NoMatchingDevice,
    NotFound,
    StoreUnavailable,
    UnknownAgent,
    UnknownAttempt,
    VersionMismatch,
)
from controller.contracts.result import Blame
from controller.contracts.run import AttemptState, RunChange, RunState
from controller.contracts.wire import COOL_DOWN, AttemptRef, Orders, Progress, TrainingProgram
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox

TWO_RUNS = builders.sweep(repeats=2)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


def lease(box: FarmBox) -> AttemptRef:
    """Register a server, submit a sweep of one run and take the order."""
    box.farm.register(builders.registration())
    box.submit(builders.sweep())
    (job,) = box.ask().run
    return job.ref


def test_from_submission_to_result(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    submission = box.submit(builders.sweep(knobs={"batch_size": 4}, deadline_s=7))
    (job,) = box.ask().run

    assert (submission.new_runs, submission.known_runs) == (1, 0)
    assert job.device_id == "cpu-1"
    assert job.program == TrainingProgram(
        builder="models.resnet:Build",
        arguments={"batch_size": 4, "rate": 0.5},
        backend="agents.torch:Backend",
    )
    assert job.knobs["steps"] == 10
    assert job.deadline_s == 7.0

    box.report(job.ref, builders.result(0.125))

    (stored,) = box.store.results(submission.sweep_id)
    assert stored.metrics["step_time"].value == 0.125
    assert (stored.counted, stored.device, stored.attempt) == (True, "cpu-1", 1)
    assert box.run(job.ref.run_id).state is RunState.DONE
    assert box.ask() == Orders()
    assert [e.state for e in box.events] == [RunState.LEASED, RunState.DONE]


def test_progress_goes_to_watchers_while_its_attempt_holds_the_lease(box: FarmBox) -> None:
    ref = lease(box)
    progress = Progress(phase="training", done=1, total=9)
    box.events.clear()

    box.tell(ref, progress)
    box.tell(builders.ref(ref.run_id, 2), progress)
    box.tell(builders.ref("nobodys"), progress)
    box.report(ref, builders.result())
    box.tell(ref, progress)

    assert [e.progress for e in box.events] == [progress, None]


@pytest.mark.parametrize(
    ("agent", "incarnation"),
    [("host-2", "first"), ("host-1", "second"), ("nobody", "first")],
    ids=["another agent", "another start of the agent", "an unknown agent"],
)
def test_nobody_else_tells_of_a_runs_progress(box: FarmBox, agent: str, incarnation: str) -> None:
    ref = lease(box)
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu("cpu-2")))
    box.events.clear()

    box.tell(ref, Progress(phase=COOL_DOWN, done=0, total=9), agent, incarnation)

    assert box.events == []
    assert box.run(ref.run_id).attempts[0].cooling is None


def test_a_former_self_tells_no_more_of_the_run_that_its_successor_has(box: FarmBox) -> None:
    ref = lease(box)
    box.farm.register(builders.registration(builders.agent(incarnation="second")))
    progress = Progress(phase="training", done=1, total=9)
    again = builders.ref(ref.run_id, 2)
    box.events.clear()

    box.tell(ref, progress)
    box.tell(again, progress)
    assert box.events == []
    box.tell(again, progress, incarnation="second")
    assert [e.progress for e in box.events] == [progress]


def test_an_order_is_repeated_until_the_agent_holds_it(box: FarmBox) -> None:
    ref = lease(box)
    again = box.ask()
    assert [job.ref for job in again.run] == [ref]
    assert box.ask(ref) == Orders()


def test_holding_an_attempt_keeps_its_lease_alive(box: FarmBox) -> None:
    ref = lease(box)
    for _ in range(10):
        box.wait(TTL_S / 2)
        assert box.ask(ref) == Orders()
    assert box.run(ref.run_id).state is RunState.LEASED


@pytest.mark.parametrize("kind", ["workloads", "stacks", "scenarios"])
def test_a_lease_whose_manifest_is_gone_runs_out_and_waits(kind: str, box: FarmBox) -> None:
    """As after a restart without the plugin that brought it."""
    ref = lease(box)
    axes = {"workloads": "resnet", "stacks": "torch", "scenarios": "training"}
    known = builders.catalog()
    left = {n: one for n, one in getattr(known, kind).items() if n != axes[kind]}
    box.catalog = known.model_copy(update={kind: left})
    box.restart()
    box.farm.register(builders.registration())
    for _ in range(2):
        assert box.ask() == Orders()
        box.wait(TTL_S / 2)
    run = box.run(ref.run_id)
    assert [a.state for a in run.attempts] == [AttemptState.LOST]
    assert run.state is RunState.QUEUED
    assert box.ask() == Orders()


def test_an_order_that_nobody_takes_runs_out(box: FarmBox) -> None:
    ref = lease(box)
    box.wait(TTL_S / 2)
    box.ask()
    box.wait(TTL_S / 2)

    run = box.run(ref.run_id)
    assert [a.state for a in run.attempts] == [AttemptState.LOST, AttemptState.LEASED]
    orders = box.ask(ref)
    assert [job.ref.attempt for job in orders.run] == [2]
    assert orders.stop == (ref,)


def test_a_restarted_agent_loses_what_its_former_self_held(box: FarmBox) -> None:
    ref = lease(box)
    box.farm.register(builders.registration(builders.agent(incarnation="second")))

    run = box.run(ref.run_id)
    assert [a.state for a in run.attempts] == [AttemptState.LOST, AttemptState.LEASED]
    assert [a.incarnation for a in run.attempts] == ["first", "second"]
    with pytest.raises(UnknownAgent):
        box.ask(ref)
    (job,) = box.ask(incarnation="second").run
    assert job.ref == builders.ref(ref.run_id, 2)


def test_an_agent_that_registers_again_keeps_what_it_holds(box: FarmBox) -> None:
    ref = lease(box)
    box.farm.register(builders.registration())
    assert box.ask(ref) == Orders()


def test_a_silent_agent_goes_offline_and_its_runs_go_elsewhere(box: FarmBox) -> None:
    ref = lease(box)
    box.clock.now += 4
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu("cpu-2")))
    box.wait(TTL_S - 4)

    agents, devices = box.store.fleet()
    assert [(a.agent.id, a.online) for a in agents] == [("host-1", False), ("host-2", True)]
    assert [(d.device.id, d.online) for d in devices] == [("cpu-1", False), ("cpu-2", True)]
    assert agents[0].since == devices[0].since == box.clock.now
    assert [job.ref for job in box.ask(agent="host-2").run] == [builders.ref(ref.run_id, 2)]
    with pytest.raises(UnknownAgent):
        box.ask(ref)


def test_an_agent_that_was_silent_is_told_to_stop_what_it_lost(box: FarmBox) -> None:
    ref = lease(box)
    box.wait(TTL_S)
    assert box.run(ref.run_id).state is RunState.QUEUED

    box.farm.register(builders.registration())
    orders = box.ask(ref)
    assert orders.stop == (ref,)
    assert [job.ref.attempt for job in orders.run] == [2]


def test_a_run_that_comes_back_keeps_its_place_in_the_queue(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    box.submit(builders.sweep(repeats=3))
    (job,) = box.ask().run
    box.report(job.ref, builders.failure(Blame.DEVICE))
    (again,) = box.ask().run
    assert again.ref == builders.ref(job.ref.run_id, 2)


def test_a_late_result_is_kept_and_does_not_count(box: FarmBox) -> None:
    first = lease(box)
    box.farm.register(builders.registration(builders.agent(incarnation="second")))
    box.report(first, builders.result(0.5))
    second = builders.ref(first.run_id, 2)
    box.report(second, builders.result(0.25), incarnation="second")

    assert [(r.counted, r.attempt) for r in box.store.results()] == [(True, 2), (False, 1)]
    run = box.run(first.run_id)
    assert run.state is RunState.DONE
    assert [a.late for a in run.attempts] == [True, False]


def test_a_late_result_of_an_ended_run_is_kept_too(box: FarmBox) -> None:
    ref = lease(box)
    box.cancel(box.run(ref.run_id).sweep_id)
    box.report(ref, builders.result())
    assert [r.counted for r in box.store.results()] == [False]
    assert box.run(ref.run_id).state is RunState.CANCELLED


def test_a_report_that_comes_twice_is_kept_once(box: FarmBox) -> None:
    ref = lease(box)
    box.report(ref, builders.result(0.5))
    box.report(ref, builders.result(0.25))
    box.restart()
    box.report(ref, builders.result(0.25))
    (stored,) = box.store.results()
    assert stored.metrics["step_time"].value == 0.5


@pytest.mark.parametrize(
    ("run_id", "attempt", "agent", "incarnation"),
    [
        (None, 1, "host-2", "first"),
        (None, 2, "host-1", "first"),
        (None, 0, "host-1", "first"),
        ("run-x", 1, "host-1", "first"),
        (None, 1, "host-1", "second"),
    ],
)
def test_a_report_about_what_the_agent_was_never_given_is_refused(
    box: FarmBox, run_id: str | None, attempt: int, agent: str, incarnation: str
) -> None:
    ref = lease(box)
    said = builders.ref(run_id or ref.run_id, attempt)
    with pytest.raises(UnknownAttempt):
        box.report(said, builders.result(), agent, incarnation)
    assert box.run(ref.run_id).state is RunState.LEASED
    assert box.store.results() == []


def test_a_sweep_submitted_twice_adds_nothing_and_again_adds_all(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    first, second = box.submit(TWO_RUNS), box.submit(TWO_RUNS)
    assert (first.new_runs, second.new_runs, second.known_runs) == (2, 0, 2)
    assert first.sweep_id == second.sweep_id

    again, third = box.submit(TWO_RUNS, again=True), box.submit(TWO_RUNS)
    assert (again.new_runs, third.new_runs) == (2, 0)
    assert again.sweep_id == third.sweep_id != first.sweep_id
    assert len(box.store.runs()) == 4


def test_a_sweep_that_ended_is_not_measured_anew_by_accident(box: FarmBox) -> None:
    ref = lease(box)
    box.report(ref, builders.result())
    box.restart()
    assert box.submit(builders.sweep()).known_runs == 1
    assert box.ask() == Orders()


def test_only_devices_that_are_there_count_at_submission(box: FarmBox) -> None:
    with pytest.raises(NoMatchingDevice):
        box.submit(builders.sweep())
    box.farm.register(builders.registration())
    box.wait(TTL_S)
    with pytest.raises(NoMatchingDevice):
        box.submit(builders.sweep())
    assert box.store.sweeps() == []


def test_cancelling_stops_what_runs_and_drops_what_waits(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    sweep_id = box.submit(TWO_RUNS).sweep_id
    other = box.submit(builders.sweep(name="other")).sweep_id
    (job,) = box.ask().run

    assert box.cancel(sweep_id) == 2
    assert box.cancel(sweep_id) == 0

    assert {run.state for run in box.store.runs(sweep_id)} == {RunState.CANCELLED}
    orders = box.ask(job.ref)
    assert orders.stop == (job.ref,)
    assert [box.run(j.ref.run_id).sweep_id for j in orders.run] == [other]


def test_cancelling_what_is_not_there(box: FarmBox) -> None:
    with pytest.raises(NotFound):
        box.cancel("demo-none")


def test_agent_and_controller_must_be_of_one_release(box: FarmBox) -> None:
    with pytest.raises(VersionMismatch) as caught:
        box.farm.register(builders.registration(builders.agent(version="9.9")))
    assert (caught.value.agent_version, caught.value.controller_version) == ("9.9", "0.2.0")
    assert box.store.fleet() == ([], [])


def test_who_never_registered_has_to(box: FarmBox) -> None:
    with pytest.raises(UnknownAgent):
        box.ask()


def test_a_device_its_agent_has_no_more_goes_offline(box: FarmBox) -> None:
    box.farm.register(builders.registration(None, builders.cpu(), builders.phone()))
    box.clock.now += 5
    box.farm.register(builders.registration())

    _, devices = box.store.fleet()
    assert [(d.device.id, d.online, d.since) for d in devices] == [
        ("cpu-1", True, 1000.0),
        ("phone-1", False, 1005.0),
    ]


MINE = builders.registration(builders.agent("host-1"), builders.phone(), builders.cpu())
YOURS = builders.registration(builders.agent("host-2"), builders.phone(), builders.cpu("cpu-2"))


def test_a_device_stays_with_the_agent_that_has_it(box: FarmBox) -> None:
    assert box.farm.register(MINE).refused == ()
    held = RefusedDevice(
        device_id="phone-1",
        seen="agent host-1 on host host-1 has it",
        remedy="Remove it there, or end that agent.",
    )
    expected = Admission(refused=(held,), again_in_s=TTL_S)
    assert box.farm.register(YOURS) == expected
    box.restart()
    assert box.farm.register(YOURS) == expected
    assert box.farm.register(MINE).refused == ()

    owners = {d.device.id: d.agent_id for d in box.store.fleet()[1] if d.online}
    assert owners == {"phone-1": "host-1", "cpu-1": "host-1", "cpu-2": "host-2"}
    box.submit(builders.sweep(stack="litert"))
    assert len(box.ask().run) == 1


def unplug(box: FarmBox) -> None:
    box.farm.register(builders.registration(MINE.agent, builders.cpu()))


def fall_silent(box: FarmBox) -> None:
    box.clock.now += TTL_S - 1
    box.farm.register(YOURS)
    box.wait(1)


@pytest.mark.parametrize("let_go", [unplug, fall_silent])
def test_a_device_moves_to_who_asks_once_it_is_free(
    box: FarmBox, let_go: Callable[[FarmBox], None]
) -> None:
    box.farm.register(MINE)
    box.farm.register(YOURS)
    let_go(box)
    assert box.farm.register(YOURS).refused == ()
    box.submit(builders.sweep(stack="litert"))
    assert [job.device_id for job in box.ask(agent="host-2").run] == ["phone-1"]


def test_two_devices_with_a_common_core_take_turns(box: FarmBox) -> None:
    one, two = (builders.cpu(name, cores=frozenset({0})) for name in ("cpu-1", "cpu-2"))
    box.farm.register(builders.registration(None, one, two))
    box.submit(TWO_RUNS)

    (job,) = box.ask().run
    assert box.ask(job.ref) == Orders()
    box.report(job.ref, builders.result())
    assert len(box.ask().run) == 1


def test_the_next_tick_is_when_something_may_run_out(box: FarmBox) -> None:
    assert box.farm.next_tick_in() == TTL_S
    box.farm.register(builders.registration())
    box.clock.now += 4
    assert box.farm.next_tick_in() == TTL_S - 4
    box.ask()
    assert box.farm.next_tick_in() == TTL_S
    box.clock.now += TTL_S + 1
    assert box.farm.next_tick_in() == 0.0
    box.farm.tick()
    assert box.farm.next_tick_in() == TTL_S


class _FullDisk(SqliteStore):
    full = False

    def save_runs(self, changes: Sequence[RunChange]) -> None:
        if self.full:
            raise StoreUnavailable("store.sqlite", "disk full")
        super().save_runs(changes)


def test_what_could_not_be_stored_did_not_happen(tmp_path: Path) -> None:
    box = FarmBox(tmp_path / "store.sqlite", _FullDisk)
    ref = lease(box)

    _FullDisk.full = True
    with pytest.raises(StoreUnavailable):
        box.report(ref, builders.result())
    assert [job.ref for job in box.ask().run] == [ref]

    _FullDisk.full = False
    box.report(ref, builders.result())
    assert box.run(ref.run_id).state is RunState.DONE
    box.close()


def test_a_former_selfs_lease_is_not_handed_to_the_new_one(box: FarmBox) -> None:
    ref = lease(box)
    (known,), devices = box.store.fleet()
    second = builders.agent(incarnation="second")
    box.store.save_agent(known.model_copy(update={"agent": second}), devices)
    box.restart()  # died between keeping the agent and ending its former self's leases

    assert box.ask(incarnation="second") == Orders()
    box.clock.now += TTL_S / 2
    box.ask(incarnation="second")
    box.wait(TTL_S / 2)
    assert [job.ref.attempt for job in box.ask(incarnation="second").run] == [2]
    assert box.run(ref.run_id).attempts[0].state is AttemptState.LOST


# --- a controller that dies after any step ------------------------------------------------------


def _take(box: FarmBox) -> AttemptRef:
    leases = [run for run in box.store.runs() if run.lease]
    return builders.ref(leases[0].run_id, len(leases[0].attempts))


Step = Callable[[FarmBox], object]
STORY: list[Step] = [
    lambda box: box.farm.register(builders.registration()),
    lambda box: box.submit(TWO_RUNS),
    lambda box: box.ask(),
    lambda box: box.ask(_take(box)),
    lambda box: box.report(_take(box), builders.failure(Blame.DEVICE)),
    lambda box: box.ask(_take(box)),
    lambda box: box.report(_take(box), builders.result(0.5)),
    lambda box: box.ask(_take(box)),
    lambda box: box.report(_take(box), builders.result(0.25)),
    lambda box: box.ask(),
]


@pytest.mark.parametrize("point", range(len(STORY)))
def test_a_controller_that_dies_loses_and_doubles_nothing(box: FarmBox, point: int) -> None:
    for number, step in enumerate(STORY):
        step(box)
        if number == point:
            box.restart()
            assert 0.0 < box.farm.next_tick_in() <= TTL_S

    assert [r.metrics["step_time"].value for r in box.store.results()] == [0.5, 0.25]
    assert all(r.counted for r in box.store.results())
    assert len(box.store.failures()) == 1
    runs = box.store.runs()
    assert [run.state for run in runs] == [RunState.DONE, RunState.DONE]
    assert [len(run.attempts) for run in runs] == [2, 1]


def test_a_controller_that_was_away_gives_every_lease_a_full_term(box: FarmBox) -> None:
    ref = lease(box)
    box.clock.now += 10 * TTL_S
    box.restart()
    box.farm.tick()

    assert box.ask(ref) == Orders()
    assert box.run(ref.run_id).state is RunState.LEASED
    box.wait(TTL_S)
    assert box.run(ref.run_id).state is RunState.QUEUED


def test_a_result_handed_in_to_the_next_controller_counts(box: FarmBox) -> None:
    ref = lease(box)
    box.restart()
    box.report(ref, builders.result())
    assert [r.counted for r in box.store.results()] == [True]


def test_a_restarted_controller_keeps_the_queues_order(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    ids = [box.submit(builders.sweep(name=name)).sweep_id for name in ("b", "a", "c")]
    box.restart()
    seen = []
    while orders := box.ask().run:
        seen.append(box.run(orders[0].ref.run_id).sweep_id)
        box.report(orders[0].ref, builders.result())
    assert seen == ids
