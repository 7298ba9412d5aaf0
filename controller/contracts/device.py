"""Devices, and the agents that announce them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from controller.contracts.base import Contract, Timestamp, utc_minute
from controller.contracts.device_names import shown_name, told_apart
from controller.contracts.facts import identity_facts

CONTROLLER: Final = "controller"
"""The `who` of what the controller did by itself."""
ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
Id = Annotated[str, Field(pattern=ID)]
EMULATED: Final = "emulated"
"""The fact that a program emulates the device's processor. The answers of an emulated device are
right, but its times say nothing about hardware, so its results are never ranked."""
PLUGINS: Final = "plugins"
"""The fact that tells the plugins of a host, with the digests of their files."""
HOST_PREFIX: Final = "cpu-"
"""Prefix of the id of every server; no phone's id may have it, since phones report their own ids.
"""
NAME = r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]
"""Name of a label or a fact, which selectors can use."""
Word = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
LABEL = r"^[^\x00-\x1f\x7f]*$"
LABEL_CHARACTERS = 200
ABSENCE_CHARACTERS = 5000
"""Most characters of the reason why a device is away, which may name a path."""
Label = Annotated[str, Field(min_length=1, max_length=LABEL_CHARACTERS, pattern=LABEL)]
GivenName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""Name that a person gives a device."""


FIELDS: Final = ("device", "kind", "virtual")
"""Names in selectors that are neither labels nor facts."""


def shadowed(label: str) -> str | None:
    """Return what selectors mean by a name, as `a fact of devices`; None if it can be a label's."""
    if label in FIELDS:
        return "a field of devices"
    return "a fact of devices" if label in identity_facts() else None


class DeviceKind(StrEnum):
    """The kind of a device."""

    CPU_HOST = "cpu_host"
    ANDROID = "android"


class DeviceState(StrEnum):
    """The state of a device."""

    READY = "ready"
    BUSY = "busy"
    COOLING = "cooling"
    """The device's run waits until the device is within the limits of its policy."""
    OFFLINE = "offline"
    """The device's agent is connected but can't use it: unplugged, switched off or broken."""
    UNAUTHORIZED = "unauthorized"
    """The device's agent sees the phone, but the phone has not authorised this host."""
    QUARANTINED = "quarantined"
    """Excluded until a person releases it, or a probe if no person quarantined it."""
    RESERVED = "reserved"
    """Kept for one user, or for nobody during maintenance."""
    DRAINED = "drained"
    """Idle, and takes no new runs: a person drains its agent."""
    LOST = "lost"
    """The device's agent is silent or revoked."""


class DeviceStatus(Contract):
    """The state of a device, since when, who set it, and why."""

    state: DeviceState
    since: float
    """Seconds since the epoch."""
    who: str
    """A user, an agent, or the controller."""
    why: str


class Hold(Contract):
    """A quarantine, revocation or drain, which lasts until it is ended."""

    since: float
    who: str
    why: str


class Booking(Contract):
    """A time for which a device is kept; a run that is under way at its beginning is finished."""

    begins: float
    ends: float
    user: str | None
    """The user who may run on it; None for maintenance: nobody may."""
    who: str
    """The user who booked it."""
    why: str

    @property
    def words(self) -> str:
        """The user and the times in UTC, as text."""
        whose = f"for {self.user}" if self.user else "for maintenance"
        return f"{whose} from {utc_minute(self.begins)} to {utc_minute(self.ends)}"


class DeviceLife(Contract):
    """What the controller records about a device beyond what its agent reports."""

    away: DeviceStatus | None = None
    """Why it is not online."""
    failures: int = 0
    """Consecutive failures for which the device is to blame."""
    quarantine: Hold | None = None
    probes: int = 0
    """Probes since its last result in the fleet, or since a person released it."""
    probe_at: float | None = None
    """Time of the next probe while the controller has it in quarantine; None: at once."""
    bookings: tuple[Booking, ...] = ()
    """Bookings that have not ended, sorted by their beginning."""
    labels: dict[Name, Label] = {}
    """Labels set by a person; they override those of the agent."""
    name: GivenName | None = None
    """Given by a person."""
    forgotten: bool = False
    """Whether a person removed it; it comes back when an agent registers it."""


class DeviceHistoryEntry(Contract):
    """An entry of a device's history."""

    device_id: str
    at: Timestamp
    state: DeviceState
    who: str
    why: str


Fact = bool | int | float | Word | Annotated[tuple[Word, ...], Field(max_length=1024)]


class Device(Contract):
    """A device that can run a cell; does not say how to connect to it."""

    id: Id
    kind: DeviceKind
    virtual: bool
    labels: Annotated[dict[Name, Label], Field(max_length=64)] = {}
    """Set by the device's owner; free text."""
    facts: Annotated[dict[Name, Fact], Field(max_length=256)] = {}
    """Read from the hardware: `cpu_model`, `cores`, `isa` …"""
    host_cores: frozenset[Annotated[int, Field(ge=0, lt=65536)]] = frozenset()
    """Cores of its host that a measurement on it uses: all for a CPU host, none for a phone."""
    name: GivenName | None = None
    """Given by a person, never by its agent."""

    def attribute(self, name: str) -> Fact | None:
        """Return the value of a name in a selector: a field, else a label, else a fact."""
        fields = dict[str, Fact](zip(FIELDS, (self.id, self.kind, self.virtual), strict=True))
        return fields.get(name, self.labels.get(name, self.facts.get(name)))

    @property
    def shown(self) -> str:
        """Its name for people."""
        return shown_name(self.id, self.facts, self.name)

    @property
    def emulated(self) -> bool:
        """Whether a program emulates its processor."""
        return self.facts.get(EMULATED) is True

    @property
    def likeness(self) -> str:
        """Suffix for its name: ` (virtual)` and the like, or nothing for a real device."""
        return likeness(virtual=self.virtual, emulated=self.emulated)

    @property
    def architecture(self) -> str | None:
        """The ABI of a phone, or the machine type of a host; None if unknown."""
        said = self.facts.get("abi") or self.facts.get("architecture")
        return str(said) if said else None


def shown_names(devices: Iterable[Device]) -> dict[str, str]:
    """Return the name for people of each device, by its id; no two are equal."""
    return told_apart((device.id, device.facts, device.name) for device in devices)


def likeness(*, virtual: bool, emulated: bool = False, imported_from: str = "") -> str:
    """Return ` (virtual)` or ` (virtual, emulated)`, or nothing for a real device of ours.

    imported_from: suite, round and division of a published system, which become ` (imported, …)`.
    """
    kinds = (("virtual", virtual), (EMULATED, emulated))
    words = [word for word, is_so in kinds if is_so]
    said = ", ".join([*words, *(["imported", imported_from] if imported_from else [])])
    return f" ({said})" if said else ""


def build_of(facts: Mapping[str, object]) -> str:
    """Return the build of a device's system, from its facts or from a result's environment.

    For Android the build fingerprint, for a server the operating system and kernel; empty if
    unknown.
    """
    told = (facts.get(name) for name in ("os", "kernel"))
    return str(facts.get("fingerprint") or ", ".join(str(word) for word in told if word))


class Agent(Contract):
    """The one process of a host that registers its devices and runs what is leased to them."""

    id: Id
    incarnation: Id
    """New at every start of the agent's process."""
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9.+!_-]{1,64}$")]
    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$")]
    exporter: (
        Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$")] | None
    ) = None
    """HOST:PORT at which Prometheus scrapes its metrics."""
    boot_id: Id | None = None
    """New at every boot of the host; tells apart hosts that are copies of one disk image."""
    address: Annotated[str, Field(pattern=r"^[0-9A-Fa-f.:]{2,45}$")] | None = None
    """IP address at which other hosts of the farm reach its host."""

    @property
    def boot(self) -> str:
        """Return the host and its boot, for people."""
        return f"{self.host} (boot {self.boot_id})" if self.boot_id else self.host


class AbsentDevice(Contract):
    """A device that an agent has had but can't use now, and why."""

    device_id: Id
    state: Literal[DeviceState.OFFLINE, DeviceState.UNAUTHORIZED]
    why: Annotated[str, Field(max_length=ABSENCE_CHARACTERS)]


class Registration(Contract):
    """An agent's registration, sent at its start and after it lost the controller."""

    agent: Agent
    devices: Annotated[tuple[Device, ...], Field(max_length=4096)]
    absent: Annotated[tuple[AbsentDevice, ...], Field(max_length=4096)] = ()
    folder: Word | None = None
    """The agent's own folder; tells apart agents of two homes on one host."""


class RefusedDevice(Contract):
    """A device that the controller refuses from an agent for now."""

    device_id: str
    seen: str
    """Why it is refused: who has it, or which other device has its id."""
    remedy: str


class Admission(Contract):
    """The controller's answer to a registration."""

    refused: tuple[RefusedDevice, ...] = ()
    """The devices that the controller refuses from this agent for now."""
    again_in_s: float
    """Seconds after which to register again, in case a refused device has become free."""


class RegisteredDevice(Contract):
    """A device as the store knows it."""

    device: Device
    agent_id: str
    online: bool
    since: float
    """Seconds since the epoch at which `online` last changed."""
    life: DeviceLife = DeviceLife()
    draining: Hold | None = None
    """That of its agent, with which it is stored."""

    @property
    def labelled(self) -> Device:
        """The device with the labels and the name that a person set."""
        labels = {**self.device.labels, **self.life.labels}
        return self.device.model_copy(update={"labels": labels, "name": self.life.name})


class RegisteredAgent(Contract):
    """An agent as the store knows it."""

    agent: Agent
    online: bool
    since: float
    revoked: Hold | None = None
    """Set if the agent is revoked: the controller refuses all its requests."""
    draining: Hold | None = None
    """Set if the agent is drained: its devices take no new runs, also those that come later."""
    clock_ahead_s: float | None = None
    """Seconds by which its clock is ahead of the controller's; None until measured."""
