"""Devices, and the agents that announce them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from controller.contracts.base import Contract, Timestamp

CONTROLLER: Final = "controller"
"""Who did what the farm did by itself."""
ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
Id = Annotated[str, Field(pattern=ID)]
EMULATED: Final = "emulated"
"""The fact that a program does the work of a device's processor. Its answers are right, and how
long they take says nothing of any hardware: nothing of it is ever ranked."""
HOST_PREFIX: Final = "cpu-"
"""What the id of every server begins with, and that of no phone: a phone says its own."""
NAME = r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]
"""Of a label or a fact: what selectors can ask for."""
Word = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
LABEL = r"^[^\x00-\x1f\x7f]*$"
LABEL_CHARACTERS = 200
Label = Annotated[str, Field(min_length=1, max_length=LABEL_CHARACTERS, pattern=LABEL)]


class DeviceKind(StrEnum):
    """What can be measured on."""

    CPU_HOST = "cpu_host"
    ANDROID = "android"


class DeviceState(StrEnum):
    """What a device does now."""

    READY = "ready"
    BUSY = "busy"
    COOLING = "cooling"
    """It has a run, which waits until the device is within its policy's limits."""
    OFFLINE = "offline"
    """Its agent is there and does not have it: unplugged, switched off, broken."""
    UNAUTHORIZED = "unauthorized"
    """Its agent sees it, and it does not let this host in."""
    QUARANTINED = "quarantined"
    """Taken out of the fleet until a person releases it, or a probe if no person did that."""
    RESERVED = "reserved"
    """Kept for one user, or for nobody while it is maintained."""
    LOST = "lost"
    """Its agent is silent or revoked."""


class DeviceStatus(Contract):
    """What a device does now, since when, who brought that about, and why."""

    state: DeviceState
    since: float
    """Seconds since the epoch."""
    who: str
    """A user, an agent, or the controller."""
    why: str


class Hold(Contract):
    """What keeps all runs off a device until it is released."""

    since: float
    who: str
    why: str


class Booking(Contract):
    """A time for which a device is kept; what runs when it begins is finished."""

    begins: float
    ends: float
    user: str | None
    """Who may run on it; nobody while it is maintained."""
    who: str
    """Who booked it."""
    why: str

    @property
    def words(self) -> str:
        """For whom, and from when to when, in UTC."""
        begins, ends = (
            datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="minutes")
            for at in (self.begins, self.ends)
        )
        whose = f"for {self.user}" if self.user else "for maintenance"
        return f"{whose} from {begins} to {ends}"


class DeviceLife(Contract):
    """What the controller keeps of a device beyond what its agent says of it."""

    away: DeviceStatus | None = None
    """Why it is not online."""
    failures: int = 0
    """In a row, of its own blame."""
    quarantine: Hold | None = None
    probes: int = 0
    """How often it was probed since it gave a result in the fleet, or a person released it."""
    probe_at: float | None = None
    """When it is probed while the controller has it in quarantine; None: at once."""
    bookings: tuple[Booking, ...] = ()
    """Those that have not ended, by their beginning."""
    labels: dict[Name, Label] = {}
    """Set by a person; they go before those of its agent."""


class DeviceHistoryEntry(Contract):
    """A line of a device's history."""

    device_id: str
    at: Timestamp
    state: DeviceState
    who: str
    why: str


Fact = bool | int | float | Word | Annotated[tuple[Word, ...], Field(max_length=1024)]


class Device(Contract):
    """Something a cell can run on; how to reach it is no part of it."""

    id: Id
    kind: DeviceKind
    virtual: bool
    labels: Annotated[dict[Name, Label], Field(max_length=64)] = {}
    """Set by the owner of the device, free words."""
    facts: Annotated[dict[Name, Fact], Field(max_length=256)] = {}
    """Read from the hardware: `cpu_model`, `cores`, `isa` …"""
    host_cores: frozenset[Annotated[int, Field(ge=0, lt=65536)]] = frozenset()
    """Cores of its host that a measurement on it occupies: all for a CPU host, none for a phone."""

    def attribute(self, name: str) -> Fact | None:
        """Return what a selector means by a name: a field, else a label, else a fact."""
        fields: dict[str, Fact] = {"device": self.id, "kind": self.kind, "virtual": self.virtual}
        return fields.get(name, self.labels.get(name, self.facts.get(name)))

    @property
    def emulated(self) -> bool:
        """Whether a program does the work of its processor."""
        return self.facts.get(EMULATED) is True

    @property
    def likeness(self) -> str:
        """What it is beside real devices, to stand behind its name: nothing for one of them."""
        return likeness(virtual=self.virtual, emulated=self.emulated)

    @property
    def architecture(self) -> str | None:
        """What its programs are built for: a phone's ABI, or its host's machine; None if untold."""
        said = self.facts.get("abi") or self.facts.get("architecture")
        return str(said) if said else None


def likeness(*, virtual: bool, emulated: bool = False) -> str:
    """Return ` (virtual)` or ` (virtual, emulated)`, or nothing for a real device."""
    said = ", ".join(word for word, is_so in (("virtual", virtual), (EMULATED, emulated)) if is_so)
    return f" ({said})" if said else ""


def build_of(facts: Mapping[str, object]) -> str:
    """Return which build of its system a device runs, by its facts or a result's environment.

    Android's fingerprint; of a server its operating system and kernel. Empty if untold.
    """
    told = (facts.get(name) for name in ("os", "kernel"))
    return str(facts.get("fingerprint") or ", ".join(str(word) for word in told if word))


class Agent(Contract):
    """The one process of a host that registers its devices and runs what is leased to them."""

    id: Id
    incarnation: Id
    """New at every start of the agent's process: tells a restarted agent from its former self."""
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9.+!_-]{1,64}$")]
    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$")]
    exporter: (
        Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$")] | None
    ) = None
    """HOST:PORT at which Prometheus finds its metrics."""
    boot_id: Id | None = None
    """New at every boot of the host's kernel: tells copies of one disk image from each other."""

    @property
    def boot(self) -> str:
        """Where it runs, for people."""
        return f"{self.host} (boot {self.boot_id})" if self.boot_id else self.host


class AbsentDevice(Contract):
    """A device that an agent has had and can't use now, and what it sees of it."""

    device_id: Id
    state: Literal[DeviceState.OFFLINE, DeviceState.UNAUTHORIZED]
    why: str


class Registration(Contract):
    """What an agent says when it starts, and again after it lost the controller."""

    agent: Agent
    devices: Annotated[tuple[Device, ...], Field(max_length=4096)]
    absent: Annotated[tuple[AbsentDevice, ...], Field(max_length=4096)] = ()


class RefusedDevice(Contract):
    """A device that the controller does not take from an agent now."""

    device_id: str
    seen: str
    """What speaks against it: who has it, or what else is known by its id."""
    remedy: str


class Admission(Contract):
    """The controller's answer to a registration."""

    refused: tuple[RefusedDevice, ...] = ()
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
    life: DeviceLife = DeviceLife()

    @property
    def labelled(self) -> Device:
        """The device with the labels that a person gave it."""
        labels = {**self.device.labels, **self.life.labels}
        return self.device.model_copy(update={"labels": labels})


class RegisteredAgent(Contract):
    """An agent as the store knows it."""

    agent: Agent
    online: bool
    since: float
    revoked: Hold | None = None
    """The controller refuses whatever it says."""
    clock_ahead_s: float | None = None
    """By how much its clock is ahead of the controller's; None until that is measured."""
