"""The life of a device under any events in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.device import (
    CONTROLLER,
    Booking,
    DeviceLife,
    DeviceState,
    RegisteredDevice,
)
from controller.contracts.run import AttemptState
from controller.scheduling.device_life import (
    Appeared,
    Booked,
    DeviceEvent,
    Failed,
    Labelled,
    Measured,
    Probed,
    ProbeWanted,
    Quarantined,
    Released,
    Vanished,
    apply,
    booking_at,
    conflict,
    current,
    device_status,
    idle_status,
    is_probed,
    may_run,
    next_probe,
)
from controller.scheduling.policy import QuarantinePolicy
from tests.support import builders
from tests.support.builders import attempt

LIMIT = 3
POLICY = QuarantinePolicy(after=LIMIT, probe_first_s=10.0, probe_longest_s=60.0)
NOW = 1000.0
FAILED = Failed("signal: it ended")


def after(*events: DeviceEvent) -> DeviceLife:
    """Return a life that has seen some events, a second apart."""
    life = DeviceLife()
    for second, event in enumerate(events):
        life = apply(life, event, NOW + second, POLICY)
    return life


def registered(life: DeviceLife, *, online: bool = True) -> RegisteredDevice:
    return RegisteredDevice(
        device=builders.cpu(), agent_id="host-1", online=online, since=NOW, life=life
    )


def booked(begins: float, ends: float, user: str | None = "ann") -> Booked:
    return Booked(Booking(begins=begins, ends=ends, user=user, who="admin", why="a paper"))


BOOKINGS = st.builds(
    booked,
    st.floats(900, 1100),
    st.floats(1100, 1300),
    st.sampled_from(("ann", "ben", None)),
)
AWAY = st.sampled_from((DeviceState.OFFLINE, DeviceState.UNAUTHORIZED, DeviceState.LOST))
EVENTS: st.SearchStrategy[DeviceEvent] = st.one_of(
    st.just(Appeared()),
    st.builds(Vanished, AWAY, st.just("host-1"), st.just("unplugged")),
    st.just(FAILED),
    st.just(Measured()),
    st.builds(Quarantined, st.just("ann"), st.just("loud")),
    st.builds(Released, st.none() | st.just("ann")),
    st.just(ProbeWanted()),
    st.builds(Probed, st.integers(0, 3), st.booleans()),
    BOOKINGS,
    st.builds(Labelled, st.dictionaries(st.sampled_from("ab"), st.none() | st.just("x"))),
)


def test_it_is_quarantined_by_as_many_failures_in_a_row_as_the_limit() -> None:
    assert after(FAILED, FAILED).quarantine is None
    hold = after(FAILED, FAILED, FAILED).quarantine
    assert hold is not None
    assert (hold.since, hold.who) == (NOW + 2, "controller")
    assert hold.why == "3 failures in a row, the last: signal: it ended"
    assert after(FAILED, FAILED, Measured(), FAILED, FAILED).quarantine is None
    assert after(FAILED, FAILED, FAILED, Released(), FAILED, FAILED).quarantine is None


def test_a_release_ends_one_s_own_reservations_and_maintenance_or_everyone_s() -> None:
    events = (booked(1000, 1100, "ann"), booked(1100, 1200, "ben"), booked(1000, 1300, None))
    assert [b.user for b in after(*events, Released("ann")).bookings] == ["ben"]
    assert after(*events, Released()).bookings == ()


@given(st.lists(EVENTS, max_size=12))
def test_only_a_person_ends_a_person_s_quarantine(events: list[DeviceEvent]) -> None:
    others = [event for event in events if not isinstance(event, Released)]
    first = after(Quarantined("ann", "loud"))
    assert after(Quarantined("ann", "loud"), *others).quarantine == first.quarantine
    assert after(*events, Released()).quarantine is None


@given(st.lists(EVENTS, max_size=12))
def test_the_controller_s_quarantine_ends_by_a_person_or_the_probe_that_was_ordered(
    events: list[DeviceEvent],
) -> None:
    life = after(FAILED, FAILED, FAILED)
    for event in events:
        ordered = life.probes
        now = apply(life, event, NOW + 9, POLICY)
        if life.quarantine and not now.quarantine:
            passed = event == Probed(ordered, passed=True) and is_probed(life)
            assert passed or isinstance(event, Released)
            assert (now.failures, now.probe_at) == (0, None)
        life = now


def test_a_person_s_word_takes_the_place_of_the_controller_s() -> None:
    life = after(FAILED, FAILED, FAILED, Quarantined("ann", "it smells"))
    assert life.quarantine
    assert (life.quarantine.who, life.quarantine.why) == ("ann", "it smells")
    assert apply(life, Probed(0, passed=True), NOW, POLICY) == life


@given(st.lists(st.booleans(), max_size=9))
def test_probes_come_at_growing_times_however_often_it_is_let_out(passes: list[bool]) -> None:
    life, now, waits = DeviceLife(), NOW, []
    for passed in passes:
        while life.quarantine is None:
            life = apply(life, FAILED, now, POLICY)
        assert life.probe_at is not None
        waits.append(life.probe_at - now)
        order = next_probe(registered(life))
        assert order is not None
        assert next_probe(registered(life, online=False)) is None
        now = life.probe_at
        life = apply(life, Probed(order.number, passed), now, POLICY)
        assert apply(life, Probed(order.number, passed=True), now, POLICY) == life, "told twice"
    assert waits == [10.0, 20.0, 40.0, *[60.0] * 9][: len(passes)]
    while life.quarantine:
        life = apply(life, Probed(life.probes, passed=True), now, POLICY)
    assert apply(life, Measured(), now, POLICY).probes == 0, "a result ends the doubt"


def test_a_person_can_have_it_probed_at_once_and_an_older_store_s_is_due() -> None:
    life = after(FAILED, FAILED, FAILED)
    assert life.quarantine
    assert life.quarantine.who == CONTROLLER
    assert life.probe_at == life.quarantine.since + 10
    wanted = apply(life, ProbeWanted(), NOW + 3, POLICY)
    older = DeviceLife(quarantine=life.quarantine)
    assert wanted.probe_at is older.probe_at is None
    assert None not in (next_probe(registered(wanted)), next_probe(registered(older)))


@given(st.lists(EVENTS, max_size=20))
def test_the_controller_quarantines_after_a_row_of_failures_and_nothing_else(
    events: list[DeviceEvent],
) -> None:
    events = [event for event in events if not isinstance(event, Probed)]
    row, held = 0, False
    for event in events:
        row = {Failed: row + 1, Measured: 0, Released: 0}.get(type(event), row)
        held = not isinstance(event, Released) and (
            held or isinstance(event, Quarantined) or (isinstance(event, Failed) and row >= LIMIT)
        )
    life = after(*events)
    assert (life.quarantine is not None) is held
    assert life.failures == row


@given(st.lists(EVENTS, max_size=12), st.booleans())
def test_a_device_in_quarantine_or_away_is_shown_so_whatever_runs_on_it(
    events: list[DeviceEvent], online: bool
) -> None:
    device = registered(after(*events), online=online)
    run = builders.run(attempts=(attempt("cpu-1", 1, AttemptState.LEASED),))
    shown = device_status(device, 1100.0, run)
    assert may_run(device) is (shown.state is DeviceState.BUSY)
    if device.life.quarantine:
        assert shown.state is DeviceState.QUARANTINED
    elif not online:
        assert shown.state in (DeviceState.OFFLINE, DeviceState.UNAUTHORIZED, DeviceState.LOST)


@given(st.lists(BOOKINGS, max_size=5), st.floats(900, 1400))
def test_a_booking_holds_from_its_beginning_to_its_end(bookings: list[Booked], now: float) -> None:
    life = after(*bookings)
    found = booking_at(life, now)
    holding = [b.booking for b in bookings if b.booking.begins <= now < b.booking.ends]
    assert (found is not None) is bool(holding)
    shut = [b for b in holding if b.user is None]
    assert found is None or found.begins == min(b.begins for b in shut or holding)
    assert found is None or (found.user is None) is bool(shut), "maintenance goes first"
    assert current(life, now).bookings == tuple(b for b in life.bookings if b.ends > now)
    state = idle_status(registered(life), now).state
    assert state is (DeviceState.RESERVED if holding else DeviceState.READY)


@given(st.lists(BOOKINGS, max_size=5), BOOKINGS)
def test_a_reservation_gives_way_to_those_of_others_and_maintenance_to_none(
    bookings: list[Booked], new: Booked
) -> None:
    one = new.booking
    others = [
        b.booking
        for b in bookings
        if one.user and b.booking.user and b.booking.user != one.user
        if max(b.booking.begins, one.begins) < min(b.booking.ends, one.ends)
    ]
    found = conflict(after(*bookings), one)
    assert (found in others) if others else (found is None)


def test_a_state_says_since_when_by_whom_and_why() -> None:
    gone = registered(after(Vanished(DeviceState.UNAUTHORIZED, "host-1", "no key")), online=False)
    shown = idle_status(gone, NOW + 50)
    assert (shown.state, shown.since, shown.who, shown.why) == (
        *(DeviceState.UNAUTHORIZED, NOW, "host-1", "no key"),
    )
    same = apply(gone.life, Vanished(DeviceState.UNAUTHORIZED, "host-1", "no key"), 2000.0, POLICY)
    assert same.away == gone.life.away, "told again, it is not new"
    waits = attempt("cpu-1", 1, AttemptState.LEASED).model_copy(update={"cooling": True})
    cooling = device_status(registered(DeviceLife()), NOW, builders.run(attempts=(waits,)))
    assert (cooling.state, cooling.why) == (DeviceState.COOLING, "run run-1, attempt 1")


def test_a_persons_labels_go_before_the_agents_and_can_be_taken_away() -> None:
    device = RegisteredDevice(
        device=builders.cpu(labels={"rack": "a", "room": "1"}),
        agent_id="host-1",
        online=True,
        since=NOW,
        life=after(Labelled({"rack": "b", "desk": "2"}), Labelled({"desk": None})),
    )
    assert device.labelled.labels == {"rack": "b", "room": "1"}
