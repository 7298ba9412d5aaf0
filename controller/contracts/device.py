"""Devices, and the agents that announce them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from controller.contracts.base import Contract, Scalar


class DeviceKind(StrEnum):
    """What can be measured on."""

    CPU_HOST = "cpu_host"
    ANDROID = "android"


class DeviceState(StrEnum):
    """What a device does now."""

    READY = "ready"
    BUSY = "busy"
    OFFLINE = "offline"
    QUARANTINED = "quarantined"
    """Taken out of the fleet until it is released; nothing does that in this release."""


def device_state(*, online: bool, busy: bool) -> DeviceState:
    """Return the state of a device by whether it is there, and whether a run holds its lease."""
    if not online:
        return DeviceState.OFFLINE
    return DeviceState.BUSY if busy else DeviceState.READY


Fact = Scalar | tuple[str, ...]


class Device(Contract):
    """Something a cell can run on; how to reach it is no part of it."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")
    kind: DeviceKind
    virtual: bool
    labels: dict[str, str] = {}
    """Set by the owner of the device, free words."""
    facts: dict[str, Fact] = {}
    """Read from the hardware: `cpu_model`, `cores`, `isa` …"""
    host_cores: frozenset[int] = frozenset()
    """Cores of its host that a measurement on it occupies: all for a CPU host, none for a phone."""

    def attribute(self, name: str) -> Fact | None:
        """Return what a selector means by a name: a field, else a label, else a fact."""
        fields: dict[str, Fact] = {"device": self.id, "kind": self.kind, "virtual": self.virtual}
        return fields.get(name, self.labels.get(name, self.facts.get(name)))


class Agent(Contract):
    """The one process of a host that registers its devices and runs what is leased to them."""

    id: str
    incarnation: str
    """New at every start of the agent's process: tells a restarted agent from its former self."""
    version: str
    host: str
    exporter: str | None = None
    """HOST:PORT at which Prometheus finds its metrics."""


class Registration(Contract):
    """What an agent says when it starts, and again after it lost the controller."""

    agent: Agent
    devices: tuple[Device, ...]


class HeldDevice(Contract):
    """A device that stays with the agent that announced it first, while that agent is online."""

    device_id: str
    agent_id: str
    host: str
    """Of the agent that holds it."""


class Admission(Contract):
    """The controller's answer to a registration."""

    refused: tuple[HeldDevice, ...] = ()
    """What it does not take from this agent now."""
    again_in_s: float
    """When to register again, so that what was refused is taken once it is free."""


class RegisteredDevice(Contract):
    """A device as the store knows it."""

    device: Device
    agent_id: str
    online: bool
    since: float
    """Seconds since the epoch at which `online` took its present value."""


class RegisteredAgent(Contract):
    """An agent as the store knows it."""

    agent: Agent
    online: bool
    since: float
