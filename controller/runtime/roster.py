"""The agents and devices that a controller knows, and their changes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from controller.contracts.device import (
    CONTROLLER,
    AbsentDevice,
    Agent,
    Device,
    DeviceHistoryEntry,
    DeviceLife,
    DeviceState,
    Hold,
    RefusedDevice,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.errors import (
    AgentRevoked,
    NotFound,
    StoreDamaged,
    StoreUnavailable,
)
from controller.contracts.wire import ProbeOrder, ProbeReport
from controller.runtime.clock import Clock
from controller.runtime.identities import announced_twice, named_alike, objection_to
from controller.runtime.objections import require_possible
from controller.scheduling.clocks import Clocks, by_our_clock, moved
from controller.scheduling.device_life import (
    Appeared,
    DeviceEvent,
    Probed,
    Vanished,
    apply,
    booking_ends,
    current,
    idle_status,
    may_run,
    next_probe,
    reserved_for,
)
from controller.scheduling.draining import drain_change
from controller.scheduling.policy import QuarantinePolicy
from controller.scheduling.references import find_device
from controller.store.protocol import Store

log = logging.getLogger(__name__)

Known = TypeVar("Known", RegisteredAgent, RegisteredDevice)


class Roster:
    """The agents and devices; every change goes device life → store → memory."""

    def __init__(self, store: Store, clock: Clock, policy: QuarantinePolicy) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._clocks = Clocks()
        agents, devices = store.fleet()
        self.agents: dict[str, RegisteredAgent] = {a.agent.id: a for a in agents}
        self._some_lost = store.lost_agents()
        self._admitted: set[str] = set()
        """Agents without a record that a person has admitted."""
        # An agent whose record is damaged is unknown until it registers, and has nothing till then.
        self.devices: dict[str, RegisteredDevice] = {
            d.device.id: d if d.agent_id in self.agents else d.model_copy(update={"online": False})
            for d in devices
        }
        self._forgotten = {d.device.id: d for d in store.forgotten()}
        """Removed devices: should one come back, its id has kept its kind."""
        self._pauses: dict[str, tuple[float | None, float]] = {}
        """The time of each device's next probe, by the wall clock and by the steady clock."""
        for device in devices:
            self._rested(device)

    # --- queries -------------------------------------------------------------------------------

    def placeable(self) -> list[Device]:
        """Return the devices that may get runs, with all their labels."""
        return [d.labelled for d in self.devices.values() if may_run(d)]

    def out(self) -> list[tuple[Device, str]]:
        """Return the devices that may not get runs, with all their labels, and why."""
        now = self._clock.wall()
        absent = (d for d in self.devices.values() if not may_run(d))
        resting = ((d.labelled, idle_status(d, now)) for d in absent)
        return [(device, f"its state, {rest.state} ({rest.why})") for device, rest in resting]

    def reserved_for(self) -> Mapping[str, str | None]:
        """Return the devices that are booked or drained, and who may run on each; see
        device_life."""
        return reserved_for(self.devices.values(), self._clock.wall())

    def probes_due(self, agent_id: str) -> list[ProbeOrder]:
        """Return the probes of an agent's devices that are due now."""
        own = (d for d in self.devices.values() if d.agent_id == agent_id and self._rested(d))
        return [order for d in own if (order := next_probe(d))]

    def device(self, device_id: str) -> RegisteredDevice:
        """Return a device; raises NotFound."""
        return _found("device", device_id, self.devices)

    def find(self, given: str) -> str:
        """Return the id of the device that a person means; raises NotFound, UserError."""
        return find_device(given, self.devices.values())

    def agent_of(self, device_id: str) -> Agent:
        """Return the agent of a device, or its last one."""
        return self.agents[self.devices[device_id].agent_id].agent

    def refused(self, devices: Sequence[Device], agent: Agent) -> list[RefusedDevice]:
        """Return the refused devices of an agent, each id once."""
        times = Counter(device.id for device in devices)
        found = [announced_twice(id_, agent) for id_, n in times.items() if n > 1]
        for device in devices:
            known = self.devices.get(device.id) or self._forgotten.get(device.id)
            holder = self.agents.get(known.agent_id) if known else None
            objection = objection_to(device, known, holder.agent if holder else None, agent)
            objection = objection or named_alike(device, self.devices.values())
            if objection and times[device.id] == 1:
                found.append(objection)
        return found

    def by_our_clock(self, agent_id: str, said: float, earliest: float) -> float:
        """Return an agent's time by the controller's clock, limited to `earliest` … now."""
        known = self.agents.get(agent_id)  # one whose record is lost may report before it registers
        ahead_s = known.clock_ahead_s if known else None
        return by_our_clock(said, ahead_s, earliest, self._clock.wall())

    def require_agent(self, agent_id: str) -> None:
        """Raise NotFound if the agent has never registered."""
        _found("agent", agent_id, self.agents)

    def require_admitted(self, agent_id: str) -> None:
        """Raise AgentRevoked if an agent is revoked, or may be: its record may be lost."""
        known = self.agents.get(agent_id)
        if known is None and self._some_lost and agent_id not in self._admitted:
            why = "it has no record in the store, where some are damaged: it may have been revoked"
            raise AgentRevoked(agent_id, CONTROLLER, why)
        if known and known.revoked:
            raise AgentRevoked(agent_id, known.revoked.who, known.revoked.why)

    # --- changes -------------------------------------------------------------------------------

    def announced(
        self, agent: Agent, devices: Sequence[Device], absent: Sequence[AbsentDevice] = ()
    ) -> None:
        """Store an agent and its devices; its former devices go offline."""
        now = self._clock.wall()
        seen = {a.device_id: a for a in absent}
        present = {d.id: self._present(d, agent, now) for d in devices}
        gone = {
            id_: self._gone(d, _away(seen.get(id_), agent), now)
            for id_, d in self.devices.items()
            if d.agent_id == agent.id and id_ not in present
        }
        self._keep_agent(agent, True, {**gone, **present}, now)

    def silent(self, agent_id: str, why: str, revoked: Hold | None = None) -> StoreDamaged | None:
        """Mark an agent and its devices as lost; return the error if that was not stored."""
        now, agent = self._clock.wall(), self.agents[agent_id].agent
        lost = Vanished(DeviceState.LOST, revoked.who if revoked else CONTROLLER, why)
        gone = {
            id_: self._gone(d, lost, now)
            for id_, d in self.devices.items()
            if d.agent_id == agent_id
        }
        return self._keep_agent(agent, False, gone, now, revoked)

    def answered(self, agent_id: str) -> None:
        """Note the time of an answer to an agent, which asks again after it."""
        self._clocks.answered(agent_id, self._clock.steady())

    def asked(self, agent_id: str, asked_at: float) -> None:
        """Measure an agent's clock by its question; store a changed difference."""
        steady, known = self._clock.steady(), self.agents[agent_id]
        ahead_s = self._clocks.heard(agent_id, asked_at, self._clock.wall(), steady)
        self._clocks.answered(agent_id, steady)
        if ahead_s is not None and moved(known.clock_ahead_s, ahead_s):
            measured = known.model_copy(update={"clock_ahead_s": ahead_s})
            with suppress(StoreUnavailable):  # measured again at the next question
                self._store.save_agent(measured, [])
                self.agents[agent_id] = measured

    def admit(self, agent_id: str) -> None:
        """Admit a revoked agent, or one whose record may be lost; raises NotFound."""
        if self._some_lost and agent_id not in self.agents:
            self._admitted.add(agent_id)
            return
        known = _found("agent", agent_id, self.agents)
        admitted = known.model_copy(update={"revoked": None})
        self._store.save_agent(admitted, [])
        self.agents[agent_id] = admitted

    def drain(self, agent_id: str, draining: Hold | None, who: str, why: str) -> None:
        """Begin or end an agent's drain, with an entry in its devices' histories.

        Raises NotFound.
        """
        known, now = _found("agent", agent_id, self.agents), self._clock.wall()
        change = drain_change(known, self.devices.values(), draining, now, who, why)
        self._store.save_agent(change.agent, change.devices, change.events)
        self.agents[agent_id] = change.agent
        self.devices.update((d.device.id, d) for d in change.devices)

    def apply_event(
        self, device_id: str, event: DeviceEvent, who: str = CONTROLLER, why: str = ""
    ) -> RegisteredDevice:
        """Apply an event to a device; a change of its status is stored with who and why.

        Raises NotFound, DeviceBooked, LabelOfAgent, UserError.
        """
        now, known = self._clock.wall(), self.device(device_id)
        require_possible(known, event, self.devices.values())
        life = apply(current(known.life, now), event, now, self._policy)
        changed = known.model_copy(update={"life": life})
        if changed == known:
            return known
        before, after = idle_status(known, now), idle_status(changed, now)
        same = (before.state, before.why) == (after.state, after.why)
        said = {"who": who, "why": why} if why else {"who": after.who, "why": after.why}
        events = [DeviceHistoryEntry(device_id=device_id, at=now, state=after.state, **said)]
        self._save_devices([changed], [] if same and not why else events, who)
        if life.forgotten:
            del self.devices[device_id]
            self._forgotten[device_id] = changed
            return changed
        self.devices[device_id] = changed
        self._rested(changed)
        return changed

    def probed(self, agent_id: str, report: ProbeReport) -> None:
        """Apply the result of a probe, if the device is the agent's."""
        known = self.devices.get(report.of.device_id)
        if known and known.agent_id == agent_id:
            said = f"probe {'passed' if report.passed else 'failed'}: {report.why}"
            self.apply_event(report.of.device_id, Probed(report.of.number, report.passed), why=said)

    def expire(self) -> None:
        """End the bookings that are over."""
        now = self._clock.wall()
        ended = [
            d.model_copy(update={"life": life})
            for d in self.devices.values()
            if (life := current(d.life, now)) != d.life
        ]
        if ended:
            events = [e for d in ended for e in booking_ends(self.device(d.device.id), d, now)]
            self._save_devices(ended, events, CONTROLLER)
            self.devices.update((d.device.id, d) for d in ended)

    def next_end(self) -> float | None:
        """Return when the next booking ends, by the wall clock; None without bookings."""
        ends = [b.ends for d in self.devices.values() for b in d.life.bookings]
        return min(ends, default=None)

    def _save_devices(
        self, devices: Sequence[RegisteredDevice], events: Sequence[DeviceHistoryEntry], who: str
    ) -> None:
        """Store devices; the controller's own changes apply even if the store is damaged."""
        try:
            self._store.save_devices(devices, events)
        except StoreDamaged as damage:
            if who != CONTROLLER:
                raise
            ids = ", ".join(device.device.id for device in devices)
            log.error("the last change of %s is not stored: %s", ids, damage)

    def _rested(self, device: RegisteredDevice) -> bool:
        """Return whether the pause before a device's probe is over, by the steady clock."""
        id_, date, now = device.device.id, device.life.probe_at, self._clock.steady()
        known = self._pauses.get(id_)
        if known is None or known[0] != date:
            left_s = max(0.0, (date or 0.0) - self._clock.wall())
            known = self._pauses[id_] = (date, now + min(left_s, self._policy.probe_longest_s))
        return known[1] <= now

    def _present(self, device: Device, agent: Agent, now: float) -> RegisteredDevice:
        known = self.devices.get(device.id)
        life = known.life if known else DeviceLife()
        stayed = known and known.online and known.agent_id == agent.id
        host = self.agents.get(agent.id)
        return RegisteredDevice(
            device=device.model_copy(update={"name": None}),  # only a person gives one
            agent_id=agent.id,
            online=True,
            since=known.since if known and stayed else now,
            life=apply(life, Appeared(), now, self._policy),
            draining=host.draining if host else None,
        )

    def _gone(self, device: RegisteredDevice, event: Vanished, now: float) -> RegisteredDevice:
        life = apply(device.life, event, now, self._policy)
        since = now if device.online else device.since
        return device.model_copy(update={"online": False, "since": since, "life": life})

    def _keep_agent(
        self,
        agent: Agent,
        online: bool,
        devices: Mapping[str, RegisteredDevice],
        now: float,
        revoked: Hold | None = None,
    ) -> StoreDamaged | None:
        known = self.agents.get(agent.id)
        since = known.since if known and known.online is online else now
        registered = RegisteredAgent(
            agent=agent,
            online=online,
            since=since,
            revoked=revoked,
            draining=known.draining if known else None,
            clock_ahead_s=known.clock_ahead_s if known else None,
        )
        events = [e for id_, d in devices.items() if (e := self._told(id_, d, now))]
        found: StoreDamaged | None = None
        try:
            self._store.save_agent(registered, list(devices.values()), events)
        except StoreDamaged as damage:
            if online:  # runs refer to what is stored
                raise
            log.error("agent %s is offline, and this is not stored: %s", agent.id, damage)
            found = damage
        self.agents[agent.id] = registered
        self.devices.update(devices)
        for id_ in devices:
            self._forgotten.pop(id_, None)
        return found

    def _told(
        self, device_id: str, device: RegisteredDevice, now: float
    ) -> DeviceHistoryEntry | None:
        """Return the history entry for a device's change of status; None if it has none."""
        known, rest = self.devices.get(device_id), idle_status(device, now)
        if known:
            before = idle_status(known, now)
            if (before.state, before.who, before.why) == (rest.state, rest.who, rest.why):
                return None
        return DeviceHistoryEntry(
            device_id=device_id, at=now, state=rest.state, who=rest.who, why=rest.why
        )


def _away(seen: AbsentDevice | None, agent: Agent) -> Vanished:
    if seen:
        return Vanished(DeviceState(seen.state), agent.id, seen.why)
    return Vanished(DeviceState.OFFLINE, agent.id, f"agent {agent.id} no longer has it")


def _found(noun: str, id_: str, known: Mapping[str, Known]) -> Known:
    if id_ not in known:
        names = ", ".join(sorted(known)[:20])
        remedy = f"Choose one of {names}." if names else "Wait until one has registered."
        raise NotFound(f"find {noun} {id_[:200]}", f"there is no such {noun}", remedy)
    return known[id_]
