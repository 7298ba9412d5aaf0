"""The life of a device: event → its new record, and its status. Pure: no clock.

Invariants, held by property tests: a quarantined device stays so until a person releases it or, if
the controller quarantined it, until it passes a probe; a booking stays until it ends or is
released; the controller quarantines a device after exactly the set number of failures in a row, and
a result resets the count; the time between two probes only grows until a result or a person resets
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.contracts.device import (
    CONTROLLER,
    Booking,
    DeviceHistoryEntry,
    DeviceLife,
    DeviceState,
    DeviceStatus,
    Hold,
    RegisteredDevice,
)
from controller.contracts.run import Run
from controller.contracts.wire import ProbeOrder
from controller.scheduling.policy import QuarantinePolicy


@dataclass(frozen=True, slots=True)
class Appeared:
    """The device's agent is connected to it."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """The device's agent lost it or can't use it, or the agent is silent."""

    state: DeviceState
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt on the device failed with blame device."""

    why: str


@dataclass(frozen=True, slots=True)
class Measured:
    """An attempt on the device ended in a result."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A person quarantines the device."""

    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """A person ends the device's quarantine, its maintenance and its reservations."""

    user: str | None = None
    """Whose reservations end; None: everyone's."""


@dataclass(frozen=True, slots=True)
class ProbeWanted:
    """A person asks for a probe now."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The device's agent has probed it."""

    number: int
    """Number of the probe, from its order."""
    passed: bool


@dataclass(frozen=True, slots=True)
class Booked:
    """A person reserves the device for a user, or for maintenance."""

    booking: Booking


@dataclass(frozen=True, slots=True)
class Labelled:
    """A person sets labels; None removes one."""

    labels: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Renamed:
    """A person gives the device a name, or takes it away."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A person removes the device, with all that persons set; it is away."""


HealthEvent = Failed | Measured | Quarantined | Released | ProbeWanted | Probed
DeviceEvent = Appeared | Vanished | HealthEvent | Booked | Labelled | Renamed | Forgotten


def apply(life: DeviceLife, event: DeviceEvent, now: float, policy: QuarantinePolicy) -> DeviceLife:
    """Apply one event."""
    return life.model_copy(update=_update(life, event, now, policy))


def _update(
    life: DeviceLife, event: DeviceEvent, now: float, policy: QuarantinePolicy
) -> Mapping[str, object]:
    match event:
        case Appeared():
            return {"away": None}
        case Vanished(state, who, why):
            return {"away": _away(life, state, who, why, now)}
        case Booked(booking):
            return {"bookings": tuple(sorted((*life.bookings, booking), key=lambda b: b.begins))}
        case Labelled(labels):
            both = {**life.labels, **labels}
            return {"labels": {name: value for name, value in both.items() if value is not None}}
        case Renamed(name):
            return {"name": name}
        case Forgotten():
            return {**dict(DeviceLife()), "away": life.away, "forgotten": True}
        case _:
            return _health_update(life, event, now, policy)


def _health_update(
    life: DeviceLife, event: HealthEvent, now: float, policy: QuarantinePolicy
) -> Mapping[str, object]:
    """Return the fields that a health event changes."""
    match event:
        case Failed(why):
            return _fail(life, why, now, policy)
        case Measured():
            return {"failures": 0} if life.quarantine else {"failures": 0, "probes": 0}
        case Quarantined(who, why):
            kept = None if is_probed(life) else life.quarantine
            return {"quarantine": kept or Hold(since=now, who=who, why=why)}
        case Released(user):
            kept_for = tuple(b for b in life.bookings if user and b.user not in (None, user))
            return {**_AT_LARGE, "probes": 0, "bookings": kept_for}
        case ProbeWanted():
            return {"probe_at": None}
        case Probed(number, passed):
            return _probe(life, number, passed=passed, next_at=now + policy.probe_in(number + 1))


def _away(life: DeviceLife, state: DeviceState, who: str, why: str, now: float) -> DeviceStatus:
    same = life.away is not None and (life.away.state, life.away.who) == (state, who)
    since = life.away.since if life.away and same else now
    return DeviceStatus(state=state, since=since, who=who, why=why)


def _fail(life: DeviceLife, why: str, now: float, policy: QuarantinePolicy) -> Mapping[str, object]:
    failures = life.failures + 1
    if failures < policy.after or life.quarantine:
        return {"failures": failures}
    said = f"{failures} failures in a row, the last: {why}"
    hold = Hold(since=now, who=CONTROLLER, why=said)
    probe_at = now + policy.probe_in(life.probes)
    return {"failures": failures, "quarantine": hold, "probe_at": probe_at}


_AT_LARGE: Mapping[str, object] = {"quarantine": None, "failures": 0, "probe_at": None}


def _probe(life: DeviceLife, number: int, *, passed: bool, next_at: float) -> Mapping[str, object]:
    if not is_probed(life) or number != life.probes:
        return {}  # a person changed it meanwhile, or a repeated report
    return {"probes": number + 1, **(_AT_LARGE if passed else {"probe_at": next_at})}


def is_probed(life: DeviceLife) -> bool:
    """Return whether a probe may release a device; only a person ends a person's quarantine."""
    return life.quarantine is not None and life.quarantine.who == CONTROLLER


def next_probe(device: RegisteredDevice) -> ProbeOrder | None:
    """Return the next probe of a device, or None if it is away or needs none."""
    if not (device.online and is_probed(device.life)):
        return None
    return ProbeOrder(device_id=device.device.id, number=device.life.probes)


def current(life: DeviceLife, now: float) -> DeviceLife:
    """Return the device's life without expired bookings."""
    left = tuple(booking for booking in life.bookings if booking.ends > now)
    return life if left == life.bookings else life.model_copy(update={"bookings": left})


def booking_ends(
    before: RegisteredDevice, after: RegisteredDevice, now: float
) -> Iterator[DeviceHistoryEntry]:
    """Yield a history entry for each booking that is over."""
    state, id_ = idle_status(after, now).state, after.device.id
    for booking in before.life.bookings:
        if booking not in after.life.bookings:
            why = f"the booking {booking.words} has ended: {booking.why}"
            yield DeviceHistoryEntry(device_id=id_, at=now, state=state, who=CONTROLLER, why=why)


def booking_at(life: DeviceLife, now: float) -> Booking | None:
    """Return the current booking: maintenance, else the one that began first."""
    now_on = [b for b in life.bookings if b.begins <= now < b.ends]
    return min(now_on, key=lambda b: (b.user is not None, b.begins), default=None)


def reserved_for(devices: Iterable[RegisteredDevice], now: float) -> dict[str, str | None]:
    """Return the devices that are booked or drained now, and who may run on each: a user, or None
    for nobody."""
    found: dict[str, str | None] = {}
    for device in devices:
        booking = booking_at(device.life, now)
        if booking or device.draining:
            found[device.device.id] = booking.user if booking and not device.draining else None
    return found


def conflict(life: DeviceLife, booking: Booking) -> Booking | None:
    """Return another user's reservation that a new one would overlap, or None.

    Maintenance may overlap reservations, and takes precedence.
    """
    if booking.user is None:
        return None
    others = (b for b in life.bookings if b.user not in (None, booking.user))
    return next((b for b in others if b.begins < booking.ends and booking.begins < b.ends), None)


def may_run(device: RegisteredDevice) -> bool:
    """Return whether a device may run anything, ignoring reservations and drains."""
    return device.online and device.life.quarantine is None


def idle_status(device: RegisteredDevice, now: float) -> DeviceStatus:
    """Return the device's state, ignoring runs; a manual hold wins."""
    life = device.life
    if hold := life.quarantine:
        state = DeviceState.QUARANTINED
        return DeviceStatus(state=state, since=hold.since, who=hold.who, why=hold.why)
    if not device.online:
        unknown = f"agent {device.agent_id} does not have it"
        gone = DeviceStatus(
            state=DeviceState.OFFLINE, since=device.since, who=device.agent_id, why=unknown
        )
        return life.away or gone
    if drain := device.draining:
        state, since = DeviceState.DRAINED, max(drain.since, device.since)
        why = f"its host takes no runs: {drain.why}"
        return DeviceStatus(state=state, since=since, who=drain.who, why=why)
    if kept := booking_at(life, now):
        return DeviceStatus(
            state=DeviceState.RESERVED,
            since=max(kept.begins, device.since),
            who=kept.who,
            why=f"{f'for {kept.user}' if kept.user else 'maintenance'}: {kept.why}",
        )
    why = f"agent {device.agent_id} has it"
    return DeviceStatus(state=DeviceState.READY, since=device.since, who=device.agent_id, why=why)


def device_status(device: RegisteredDevice, now: float, run: Run | None) -> DeviceStatus:
    """Return a device's status; run: the run that holds its lease.

    A device in quarantine or away is shown as that even while a run is still ending on it.
    """
    rest = idle_status(device, now)
    if run is None or run.lease is None or not may_run(device):
        return rest
    return DeviceStatus(
        state=DeviceState.COOLING if run.lease.cooling else DeviceState.BUSY,
        since=run.lease.leased_at,
        who=next(p.agent_id for p in run.lease.places if p.device_id == device.device.id),
        why=f"run {run.run_id}, attempt {run.lease.number}"
        + ("; then its host takes no runs" if device.draining else ""),
    )
