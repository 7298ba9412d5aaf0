"""Why an open run does not measure yet."""

from __future__ import annotations

from enum import StrEnum

from controller.contracts.base import Contract, Timestamp, utc_minute


class WaitReason(StrEnum):
    """What a run waits for."""

    STARTS = "starts"
    """Nothing: its device is free, and it is next."""
    BUSY = "busy"
    """Its device measures another run, after which it is next."""
    COOLING = "cooling"
    """Its device cools down, for it or for another run."""
    LOCKED = "locked"
    """A process of another farm holds a core that its device, which has begun it or another run,
    measures on."""
    CORES = "cores"
    """Another device of the same host measures on the cores of its device."""
    TURN = "turn"
    """Other runs go first on its device."""
    RESERVED = "reserved"
    """Its device is kept for another user."""
    MAINTENANCE = "maintenance"
    """Its device is kept for nobody."""
    DRAINING = "draining"
    """The agent of its device is drained."""
    QUARANTINED = "quarantined"
    """Its device is in quarantine."""
    AWAY = "away"
    """No device that fits is online."""
    NO_MATCH = "no match"
    """No device of the farm fits."""
    GONE = "gone"
    """The one device that it is for is no longer known to the farm."""
    NO_DEVICE = "no device"
    """The farm has no device."""
    CHANGING = "changing"
    """Its sweep is being cancelled or resumed."""


class Waiting(Contract):
    """What a run waits for, with the facts."""

    reason: WaitReason
    device: str | None = None
    """The device that will most likely take it; None if none fits."""
    device_name: str | None = None
    """Its name for people."""
    more_devices: int = 0
    """Other devices that fit."""
    user: str | None = None
    """Whose run is on the device or goes next, for whom it is reserved, or who drains its agent."""
    run_id: str | None = None
    """The run on the device, or the one that goes next."""
    ahead: int = 0
    """Runs that go first on the device, without the one that is on it."""
    since: Timestamp | None = None
    """When a drain began."""
    until: Timestamp | None = None
    """When a booking ends, or a device in quarantine is probed."""
    why: str = ""
    """Why the device is booked, drained, in quarantine or away, which core it waits for, or what
    excludes each device."""
    starts_at: Timestamp | None = None
    """When it will most likely start; None if unknown."""

    @property
    def words(self) -> str:
        """The reason as one sentence, without the estimate."""
        return _SENTENCES[self.reason].format(
            **dict(self) | {"device": self.device_name or self.device},
            runs="1 run goes" if self.ahead == 1 else f"{self.ahead} runs go",
            begun=utc_minute(self.since) if self.since is not None else "",
            when=utc_minute(self.until) if self.until is not None else "",
            ends=self._ends,
        ) + (f" ({self.more_devices} more fit)" if self.more_devices else "")

    @property
    def _ends(self) -> str:
        if self.until is None:
            return "until a person releases it"
        return f"until a probe passes; the next is at {utc_minute(self.until)}"


_SENTENCES = {
    WaitReason.STARTS: "{device} is free, and it is next",
    WaitReason.BUSY: "{device} measures run {run_id} of {user}; it is next",
    WaitReason.COOLING: "{device} cools down for run {run_id} of {user}",
    WaitReason.LOCKED: "{device}, with run {run_id} of {user}, is {why}",
    WaitReason.CORES: "run {run_id} of {user} measures on the cores of {device}; it is next",
    WaitReason.TURN: "{runs} first on {device}, next run {run_id} of {user}",
    WaitReason.RESERVED: "{device} is reserved for {user} until {when}: {why}",
    WaitReason.MAINTENANCE: "{device} is in maintenance until {when}: {why}",
    WaitReason.DRAINING: "{device} takes no runs: its host is draining since {begun}, by {user}: "
    "{why}",
    WaitReason.QUARANTINED: "{device} is in quarantine {ends}: {why}",
    WaitReason.AWAY: "no device that fits is online: {device} is {why}",
    WaitReason.NO_MATCH: "no device fits: {why}",
    WaitReason.GONE: "the farm no longer knows {device}, the only device that it is for",
    WaitReason.NO_DEVICE: "the farm has no device",
    WaitReason.CHANGING: "its sweep is being cancelled or resumed",
}


class WaitingRuns(Contract):
    """Runs of a sweep that wait for the same."""

    runs: int
    first: Waiting
    """That of the run that goes first."""
    said: str
    """The same as one sentence."""

    @property
    def line(self) -> str:
        """The sentence with the estimated start, if that is known and not now."""
        if self.first.starts_at is None or self.first.reason is WaitReason.STARTS:
            return self.said
        which = "it starts" if self.runs == 1 else "the first starts"
        return f"{self.said}; {which} at about {utc_minute(self.first.starts_at)}"
