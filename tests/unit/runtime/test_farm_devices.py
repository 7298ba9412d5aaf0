"""Quarantine, bookings, labels, revoked agents and users, as the controller's core keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.device import (
    AbsentDevice,
    Booking,
    DeviceState,
    DeviceStatus,
    Registration,
)
from controller.contracts.errors import (
    AgentRevoked,
    DeviceBooked,
    JoinedTwice,
    LabelOfAgent,
    NoMatchingDevice,
    NotAllowed,
    NotFound,
    NotProbed,
    SharedMachineId,
    UnknownAgent,
)
from controller.contracts.result import Blame
from controller.contracts.run import AttemptState, RunState
from controller.contracts.wire import (
    COOL_DOWN,
    Exchange,
    Orders,
    ProbeOrder,
    ProbeReport,
    Progress,
)
from controller.runtime import fleet
from controller.runtime.home import Home
from controller.scheduling.device_life import (
    Booked,
    Labelled,
    ProbeWanted,
    Quarantined,
    Released,
)
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox

HOUR_S = 3600.0


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    yield box
    box.close()


def now(box: FarmBox, device: str = "cpu-1") -> DeviceStatus:
    return box.farm.state().statuses[device]


def history(box: FarmBox, device: str = "cpu-1") -> list[tuple[str, str]]:
    return [(event.state.value, event.who) for event in box.store.history(device)]


def fail(box: FarmBox, times: int, blame: Blame = Blame.DEVICE) -> None:
    for _ in range(times):
        (job,) = box.ask().run
        box.clock.now += 1
        box.report(job.ref, builders.failure(blame))


def book(box: FarmBox, user: str | None, begins: float, ends: float) -> None:
    booking = Booking(begins=begins, ends=ends, user=user, who="admin", why="a paper")
    box.farm.apply_event("cpu-1", Booked(booking), "admin", "booked")


def test_a_device_that_fails_three_times_in_a_row_is_quarantined_and_says_why(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=2))
    fail(box, 2)
    assert now(box).state is DeviceState.BUSY
    fail(box, 1)
    stands = now(box)
    assert (stands.state, stands.who, stands.since) == (
        *(DeviceState.QUARANTINED, "controller", box.clock.now),
    )
    assert stands.why == "3 failures in a row, the last: exit: it ended"
    assert box.ask() == Orders(), "nothing is given to it"
    with pytest.raises(NoMatchingDevice, match=r"its state, quarantined \(3 failures in a row"):
        box.submit(builders.sweep(name="other"))


def test_failures_of_others_and_results_between_keep_a_device_in(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=9))
    fail(box, 2)
    (job,) = box.ask().run
    box.report(job.ref, builders.result())
    fail(box, 2)
    fail(box, 4, Blame.HARNESS)
    assert now(box).state is DeviceState.BUSY


def test_a_late_failure_is_not_held_against_the_device(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=3))
    for _ in range(4):
        (job,) = box.ask().run
        box.wait(TTL_S / 2)
        box.ask()
        box.wait(TTL_S / 2)
        box.report(job.ref, builders.failure())
        box.ask()
    assert now(box).state is not DeviceState.QUARANTINED


def test_quarantine_and_reservation_survive_a_restart_of_the_controller(box: FarmBox) -> None:
    box.farm.apply_event("cpu-1", Quarantined("admin", "it is loud"), "admin", "it is loud")
    book(box, "ann", box.clock.now, box.clock.now + HOUR_S)
    before = now(box)
    box.clock.now += 2
    box.restart()
    assert now(box) == before
    assert (before.state, before.who, before.why) == (
        *(DeviceState.QUARANTINED, "admin", "it is loud"),
    )
    box.farm.register(builders.registration(builders.agent(incarnation="second")))
    assert now(box).state is DeviceState.QUARANTINED, "nor does a restarted agent end it"
    box.farm.apply_event("cpu-1", Released(), "admin", "mended")
    assert now(box).state is DeviceState.READY
    assert history(box) == [
        *(("ready", "host-1"), ("quarantined", "admin"), ("quarantined", "admin")),
        ("ready", "admin"),
    ]


def probe(box: FarmBox, order: ProbeOrder, *, passed: bool) -> Orders:
    report = ProbeReport(of=order, passed=passed, why="4 MiB written and read")
    said = {"agent_id": "host-1", "incarnation": "first", "held": (), "asked_at": box.clock.now}
    return box.farm.exchange(Exchange(**said, probed=(report,)))


def wait(box: FarmBox, seconds: float) -> None:
    """Let time pass in which the agent does not fall silent."""
    until = box.clock.now + seconds
    while box.clock.now < until:
        box.wait(min(TTL_S / 2, until - box.clock.now))
        box.ask()


def test_a_device_that_failures_have_put_in_quarantine_is_let_out_by_a_probe(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=9))
    fail(box, 3)
    wait(box, 590)
    assert box.ask() == Orders()
    box.restart()
    box.farm.register(builders.registration())
    wait(box, 10)
    (first,) = box.ask().probe
    assert box.ask().probe == (first,), "as long as nobody says that it is under way"
    said = {"agent_id": "host-1", "incarnation": "first", "held": (), "asked_at": box.clock.now}
    assert box.farm.exchange(Exchange(**said, probing=(first,))) == Orders()
    assert probe(box, first, passed=False) == Orders()
    assert now(box).state is DeviceState.QUARANTINED
    wait(box, 1190)
    assert box.ask() == Orders(), "the next comes after twice the time"
    wait(box, 10)
    (second,) = box.ask().probe
    assert probe(box, first, passed=True) == Orders(probe=(second,)), "what came late says nothing"
    assert len(probe(box, second, passed=True).run) == 1
    assert now(box).state is DeviceState.BUSY
    whys = [event.why for event in box.store.history("cpu-1")]
    for verdict in ("failed", "passed"):
        assert f"probe {verdict}: 4 MiB written and read" in whys
    fail(box, 3)
    wait(box, 2390)
    assert box.ask() == Orders(), "it failed again at once: the times grow on"
    wait(box, 10)
    assert len(box.ask().probe) == 1


def test_a_person_s_quarantine_is_not_probed_and_a_probe_can_be_asked_for(box: FarmBox) -> None:
    with pytest.raises(NotProbed, match="cpu-1: it is not in quarantine"):
        box.farm.require_probed("cpu-1")
    box.submit(builders.sweep(repeats=3))
    fail(box, 3)
    box.farm.require_probed("cpu-1")
    box.farm.apply_event("cpu-1", ProbeWanted(), "admin", "to be probed: by hand")
    assert len(box.ask().probe) == 1
    box.farm.apply_event("cpu-1", Quarantined("admin", "it smells"), "admin", "it smells")
    assert box.ask() == Orders()
    with pytest.raises(
        NotProbed, match=r"admin put it in quarantine \(it smells\)\. Run `benchfarm device release"
    ):
        box.farm.require_probed("cpu-1")


def test_an_agent_speaks_for_its_own_devices_only(box: FarmBox) -> None:
    box.submit(builders.sweep(repeats=3))
    fail(box, 3)
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu("cpu-2")))
    of = ProbeOrder(device_id="cpu-1", number=0)
    lie = ProbeReport(of=of, passed=True, why="well")
    unknown = ProbeReport(of=ProbeOrder(device_id="nobody", number=0), passed=True, why="well")
    said = {"agent_id": "host-2", "incarnation": "first", "held": (), "asked_at": box.clock.now}
    box.farm.exchange(Exchange(**said, probed=(lie, unknown)))
    assert now(box).state is DeviceState.QUARANTINED


def test_a_reserved_device_runs_its_user_s_sweeps_only_until_the_time_is_over(box: FarmBox) -> None:
    book(box, "ann", box.clock.now, box.clock.now + HOUR_S)
    assert (now(box).state, now(box).why) == (DeviceState.RESERVED, "for ann: a paper")
    box.submit(builders.sweep(name="bens"), user="ben")
    assert box.ask() == Orders()
    box.restart()
    assert box.ask() == Orders()
    mine = box.submit(builders.sweep(name="anns"), user="ann")
    (job,) = box.ask().run
    assert box.run(job.ref.run_id).sweep_id == mine.sweep_id
    box.report(job.ref, builders.result())
    assert box.farm.next_tick_in() <= TTL_S
    for _ in range(int(HOUR_S / TTL_S) * 2):
        box.wait(TTL_S / 2)
        box.ask()
    (job,) = box.ask().run
    assert box.run(job.ref.run_id).sweep_id.startswith("bens")
    assert now(box).state is DeviceState.BUSY
    assert history(box)[-2][0] == "ready", "the booking's end is told, then the run"


def test_a_maintenance_window_lets_what_runs_end_and_nothing_begin(box: FarmBox) -> None:
    book(box, None, box.clock.now + 5, box.clock.now + HOUR_S)
    box.submit(builders.sweep(repeats=2))
    (job,) = box.ask().run
    box.clock.now += 6
    box.report(job.ref, builders.result())
    assert box.ask() == Orders()
    assert now(box).why == "maintenance: a paper"


def test_reservations_of_two_users_may_not_overlap(box: FarmBox) -> None:
    begins = box.clock.now + HOUR_S
    book(box, "ann", begins, begins + HOUR_S)
    seen = r"it is booked for ann from 1970-01-01 01:16 UTC to .* 02:16 UTC: a paper\. Choose"
    with pytest.raises(DeviceBooked, match=seen):
        book(box, "ben", begins + HOUR_S - 1, begins + 2 * HOUR_S)
    book(box, "ben", begins + HOUR_S, begins + 2 * HOUR_S)
    book(box, "ann", begins - 60, begins + 60)
    book(box, None, begins, begins + 3 * HOUR_S)
    assert len(box.store.fleet()[1][0].life.bookings) == 4


def test_labels_of_a_person_are_what_selectors_see(box: FarmBox) -> None:
    sweep = builders.sweep(devices="rack == b")
    with pytest.raises(NoMatchingDevice):
        box.submit(sweep)
    box.farm.apply_event("cpu-1", Labelled({"rack": "b"}), "admin", "labelled: rack=b")
    box.restart()
    box.farm.register(builders.registration())
    box.submit(sweep)
    assert len(box.ask().run) == 1


def test_a_label_of_the_agent_is_not_taken_away(box: FarmBox) -> None:
    box.farm.register(builders.registration(None, builders.cpu(labels={"rack": "a"})))
    words = "cpu-1: its agent host-1 sets it. Run `benchfarm device label cpu-1"
    for _ in range(2):
        with pytest.raises(
            LabelOfAgent, match=f"cannot remove label rack from device {words} rack="
        ):
            box.farm.apply_event("cpu-1", Labelled({"rack": None, "desk": "2"}), "admin", "rack-")
        box.farm.apply_event("cpu-1", Labelled({"rack": "b"}), "admin", "rack=b")
        box.farm.apply_event("cpu-1", Labelled({"rack": None}), "admin", "rack-")
    (known,) = box.farm.state().devices
    assert known.labelled.labels == {"rack": "a"}


def test_what_an_agent_sees_of_a_device_it_can_not_use(box: FarmBox) -> None:
    def announce(*absent: AbsentDevice) -> None:
        box.farm.register(Registration(agent=builders.agent(), devices=(), absent=absent))

    why = "confirm the key on its screen"
    announce(AbsentDevice(device_id="cpu-1", state=DeviceState.UNAUTHORIZED, why=why))
    stands = now(box)
    assert (stands.state, stands.who, stands.why) == (DeviceState.UNAUTHORIZED, "host-1", why)
    announce()
    assert (now(box).state, now(box).why) == (DeviceState.OFFLINE, "agent host-1 no longer has it")
    box.wait(TTL_S)
    assert now(box).state is DeviceState.LOST
    assert "host-1 has been silent for 10 s" in now(box).why
    assert history(box) == [
        *(("ready", "host-1"), ("unauthorized", "host-1"), ("offline", "host-1")),
        ("lost", "controller"),
    ]


def test_a_sweep_for_each_device_names_those_that_it_leaves_out(box: FarmBox) -> None:
    there, gone = builders.cpu("cpu-1"), builders.cpu("cpu-2")
    away = AbsentDevice(device_id="cpu-2", state=DeviceState.OFFLINE, why="unplugged")
    unlike = builders.phone("phone-1")
    box.farm.register(builders.registration(builders.agent(), there, gone, unlike))
    box.farm.register(Registration(agent=builders.agent(), devices=(there,), absent=(away,)))
    each = box.submit(builders.sweep(run_on="each"))
    assert (each.new_runs, each.left_out) == (1, ("cpu-2 (its state, offline (unplugged))",))
    assert box.submit(builders.sweep()).left_out == ()

    box.farm.register(builders.registration(builders.agent(), there, gone, unlike))
    again = box.submit(builders.sweep(run_on="each"))
    assert (again.new_runs, again.known_runs, again.left_out) == (1, 1, ())


def test_runs_are_kept_for_a_device_that_is_away_until_it_is_back(box: FarmBox) -> None:
    there, gone = (builders.cpu(f"cpu-{n}", cores=frozenset({n})) for n in (1, 2))
    box.farm.register(builders.registration(builders.agent(), there, gone))
    box.farm.register(builders.registration(builders.agent(), there))
    each = box.submit(builders.sweep(**{"run_on": "each", "await": True}))
    why = "its state, offline (agent host-1 no longer has it)"
    assert (each.new_runs, each.left_out, each.awaited) == (2, (), (f"cpu-2 ({why})",))
    only = {"name": "only", "devices": "device == cpu-2", "await": True}
    assert box.submit(builders.sweep(**only)).awaited == (f"cpu-2 ({why})",)
    (first,) = box.ask().run
    assert first.device_id == "cpu-1"
    (waits,) = box.farm.sweeps.waits(each.sweep_id)()
    since = "offline since 1970-01-01 00:16 UTC (agent host-1 no longer has it)"
    assert waits.said == f"1 run waits: no device that fits is online: cpu-2 is {since}"

    box.farm.register(builders.registration(builders.agent(), there, gone))
    assert {job.device_id for job in box.ask().run} == {"cpu-1", "cpu-2"}
    again = box.submit(builders.sweep(**{"run_on": "each", "await": True}))
    assert (again.new_runs, again.known_runs, again.awaited) == (0, 2, ())


def test_a_device_cools_while_its_run_waits_for_that(
    box: FarmBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "why_away", lambda _: "")

    def listed() -> tuple[DeviceState, str | None]:
        """Return what `device list` says, who reads the store."""
        (status,) = fleet.devices_now(Home(tmp_path), box.store, box.store.runs(open_only=True))
        assert now(box) == DeviceStatus(
            **{n: getattr(status, n) for n in DeviceStatus.model_fields}
        )
        return status.state, status.run_id

    box.submit(builders.sweep())
    (job,) = box.ask().run

    def say(phase: str) -> None:
        box.tell(job.ref, Progress(phase=phase, done=0, total=9))

    say(COOL_DOWN)
    assert now(box).state is DeviceState.COOLING
    assert listed() == (DeviceState.COOLING, job.ref.run_id)
    box.restart()
    assert listed() == (DeviceState.COOLING, job.ref.run_id)
    say("training")
    assert listed() == (DeviceState.BUSY, job.ref.run_id)
    say(COOL_DOWN)
    box.report(job.ref, builders.result())
    assert listed() == (DeviceState.READY, None)


def test_a_device_that_moves_to_another_host_takes_its_run_along(box: FarmBox) -> None:
    box.submit(builders.sweep())
    (job,) = box.ask().run
    box.farm.register(Registration(agent=builders.agent(), devices=()))
    assert now(box).state is DeviceState.OFFLINE
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu()))

    run = box.run(job.ref.run_id)
    assert [(a.agent_id, a.state) for a in run.attempts] == [
        ("host-1", AttemptState.LOST),
        ("host-2", AttemptState.LEASED),
    ]
    assert box.ask(job.ref).stop == (job.ref,), "the former host ends what it has"
    assert [j.ref.attempt for j in box.ask(agent="host-2").run] == [2]
    box.report(job.ref, builders.result())
    assert box.run(job.ref.run_id).state is RunState.LEASED, "what it reports now is late"


def test_a_revoked_agent_is_refused_in_all_it_says_and_its_runs_go_elsewhere(box: FarmBox) -> None:
    box.submit(builders.sweep())
    (job,) = box.ask().run
    box.farm.register(builders.registration(builders.agent("host-2"), builders.cpu("cpu-2")))
    assert box.farm.revoke("host-1", "admin", "stolen") == 1

    assert [j.ref.attempt for j in box.ask(agent="host-2").run] == [2]
    assert (now(box).state, now(box).who) == (DeviceState.LOST, "admin")
    for _ in range(2):
        for says in (
            lambda: box.farm.register(builders.registration(builders.agent(incarnation="next"))),
            lambda: box.ask(job.ref),
            lambda: box.report(job.ref, builders.result()),
            lambda: box.tell(job.ref, Progress(phase="training", done=1, total=9)),
        ):
            with pytest.raises(AgentRevoked, match=r"revoked by admin \(stolen\)"):
                says()
        box.restart()
    assert box.store.results() == []
    box.farm.admit("host-1")
    with pytest.raises(UnknownAgent):
        box.ask()
    box.farm.register(builders.registration())
    assert now(box).state is DeviceState.READY
    with pytest.raises(NotFound):
        box.farm.revoke("host-9", "admin", "who?")


def test_copies_of_one_disk_image_are_told_apart_and_named(box: FarmBox) -> None:
    clone = builders.registration()
    changes = {"host": "clone", "incarnation": "second"}
    clone = clone.model_copy(update={"agent": clone.agent.model_copy(update=changes)})
    with pytest.raises(SharedMachineId, match=r"host \S+ has the same machine id as clone,"):
        box.farm.register(clone)
    assert box.ask() == Orders(), "the first one goes on"
    box.wait(TTL_S)
    box.farm.register(clone)


def started_in(home: str, incarnation: str) -> Registration:
    """Return the registration of this host's agent of a home."""
    registration = builders.registration(builders.agent(incarnation=incarnation))
    return registration.model_copy(update={"folder": f"{home}/agent/host-1"})


def test_a_host_that_has_joined_from_one_home_is_refused_from_another(box: FarmBox) -> None:
    box.farm.register(started_in("/one", "a"))
    with pytest.raises(JoinedTwice) as refused:
        box.farm.register(started_in("/two", "b"))
    assert "this host has joined already, with the agent of /one/agent/host-1" in str(refused.value)
    assert "Run `benchfarm down` with the BENCHFARM_HOME of the other" in str(refused.value)
    assert box.ask(incarnation="a") == Orders(), "the first one goes on"
    box.farm.register(started_in("/one", "c"))  # a restart of it
    box.wait(TTL_S)
    box.farm.register(started_in("/two", "b"))
    assert box.ask(incarnation="b") == Orders()


def booted(boot_id: str, incarnation: str = "first") -> Registration:
    """Return the registration of one host, or of a copy with the same name."""
    changes = {"boot_id": boot_id, "incarnation": incarnation}
    return builders.registration(builders.agent().model_copy(update=changes))


def test_copies_with_one_host_name_are_told_apart_by_their_boots(box: FarmBox) -> None:
    box.farm.register(booted("boot-1", "again"))
    box.farm.register(booted("boot-1"))
    named = r"host host-1 \(boot boot-1\) has the same machine id as host-1 \(boot boot-2\)"
    with pytest.raises(SharedMachineId, match=named):
        box.farm.register(booted("boot-2", "second"))
    assert box.ask() == Orders(), "the first one goes on"
    box.restart()
    assert box.ask() == Orders()
    with pytest.raises(SharedMachineId, match=named):
        box.farm.register(booted("boot-2", "second"))


def test_a_rebooted_host_is_let_in_once_its_former_self_is_silent(box: FarmBox) -> None:
    box.farm.register(booted("boot-1"))
    box.clock.now += 1.0
    with pytest.raises(SharedMachineId) as refused:
        box.farm.register(booted("boot-2", "second"))
    assert refused.value.again_in_s == TTL_S - 1.0
    box.clock.now += refused.value.again_in_s  # and the farm's clock has not ticked
    box.farm.register(booted("boot-2", "second"))
    assert box.ask(incarnation="second") == Orders()
    box.restart()
    box.farm.register(booted("boot-3", "third"))  # of the former one, only the store tells


def test_a_sweep_for_so_many_devices_keeps_those_it_was_given(box: FarmBox) -> None:
    sweep = builders.sweep(run_on=1)
    first = box.submit(sweep)
    assert (first.new_runs, first.known_runs) == (1, 0)
    box.wait(TTL_S)  # its device is gone
    second = box.submit(sweep)
    assert (second.sweep_id, second.new_runs, second.known_runs) == (first.sweep_id, 0, 1)


def test_a_resumed_sweep_runs_what_failed_and_what_was_cancelled(box: FarmBox) -> None:
    sweep_id = box.submit(builders.sweep(repeats=3)).sweep_id
    (job,) = box.ask().run
    box.report(job.ref, builders.result())
    fail(box, 1, Blame.USER)
    assert box.cancel(sweep_id) == 1
    assert box.resume(sweep_id) == 2
    assert box.resume(sweep_id) == 0, "open runs are left alone"
    box.restart()
    for _ in range(2):
        (job,) = box.ask().run
        box.report(job.ref, builders.result())
    runs = box.store.runs(sweep_id)
    assert [run.state for run in runs] == [RunState.DONE] * 3
    assert sorted(len(run.attempts) for run in runs) == [1, 2, 2]
    assert len([r for r in box.store.results(sweep_id) if r.counted]) == 3


def test_users_may_do_with_their_own_sweeps_what_they_want_and_nothing_else(box: FarmBox) -> None:
    anns = box.submit(builders.sweep(), user="ann").sweep_id
    for restarted in (False, True):
        if restarted:
            box.restart()
        for forbidden in (
            box.cancel,
            box.resume,
            box.farm.sweeps.sweep_status,
        ):
            with pytest.raises(NotAllowed, match="another user's"):
                forbidden(anns, "ben")
        assert box.farm.sweeps.sweep_status(anns, "ann").user == "ann"
    bens = box.submit(builders.sweep(), user="ben")
    assert (bens.new_runs, bens.sweep_id == anns) == (1, False), "measured anew for ben"
    assert box.submit(builders.sweep(), user="ann").sweep_id == anns
    with pytest.raises(NotAllowed, match="only the administrator may set one above 0"):
        box.submit(builders.sweep(priority=1), user="ann")
    assert box.cancel(anns) == 1, "the administrator may"


def test_users_take_turns_and_a_priority_goes_first(box: FarmBox) -> None:
    box.submit(builders.sweep(name="anns", repeats=9), user="ann")
    box.submit(builders.sweep(name="bens", repeats=9), user="ben")
    box.submit(builders.sweep(name="urgent", repeats=2, priority=5))
    order = []
    for _ in range(10):
        (job,) = box.ask().run
        order.append(box.run(job.ref.run_id).sweep_id.partition("-")[0])
        box.clock.now += 30
        box.report(job.ref, builders.result())
        box.restart()
        box.farm.register(builders.registration())
    assert order[:3] == ["anns", "urgent", "urgent"]
    assert order[3:] == (["bens", "anns"] * 4)[:7]


def test_the_history_says_which_booking_has_ended(box: FarmBox) -> None:
    begins = box.clock.now
    book(box, "ann", begins, begins + HOUR_S)
    book(box, None, begins + HOUR_S / 2, begins + HOUR_S)
    box.wait(HOUR_S)
    told = [(event.who, event.why) for event in box.store.history("cpu-1")][-2:]
    assert told == [
        ("controller", f"the booking {whose} 01:16 UTC has ended: a paper")
        for whose in (
            "for ann from 1970-01-01 00:16 UTC to 1970-01-01",
            "for maintenance from 1970-01-01 00:46 UTC to 1970-01-01",
        )
    ]
