"""What the routes of the API answer with; docs/api.md lists the routes."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

from controller.contracts.annotations import Note, SweepAnnotations
from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.base import Contract, Scalar, Timestamp
from controller.contracts.device import (
    Booking,
    Device,
    DeviceHistoryEntry,
    DeviceState,
    Hold,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.profile import ProfileSummary
from controller.contracts.records import (
    Spent,
    StoredFailure,
    StoredResult,
    SweepRecord,
    SweepTally,
    Took,
)
from controller.contracts.result import Validity
from controller.contracts.run import Attempt, Run
from controller.profiles.model import KernelRow, PrimitiveRow, Span
from controller.runtime.fleet import DeviceOverview

Item = TypeVar("Item", bound=Contract)


class Page(Contract, Generic[Item]):
    """A part of a list, in the order that was asked for."""

    items: tuple[Item, ...]
    next: str | None = None
    """The parameter `cursor` of the page that follows; null on the last page."""
    left_out: int = 0
    """Items of this page that are damaged, and so left out; the last page of sweeps counts all."""


class SweepPage(Page[SweepRecord]):
    """A page of sweeps."""


class RunPage(Page[Run]):
    """A page of a sweep's runs."""


class AttemptPage(Page[Attempt]):
    """A page of a run's attempts."""


class ResultPage(Page[StoredResult]):
    """A page of results."""


class DeviceNow(Contract):
    """A device with its agent, its status and its run now."""

    device: Device
    name: str
    """Its name for people."""
    agent_id: str
    state: DeviceState
    since: Timestamp
    who: str
    why: str
    run_id: str | None
    """The run it is busy with or cools down for."""
    clock_ahead_s: float | None = None
    """Seconds that its host's clock is ahead of the controller's, if measured."""
    bookings: tuple[Booking, ...] = ()
    """Bookings that have not ended, sorted by their beginning."""
    draining: Hold | None = None
    """Set if its agent is drained, so that it takes no new runs."""

    @classmethod
    def of(cls, overview: DeviceOverview) -> Self:
        """Return a device without what takes a plan of all waiting runs to know."""
        return cls(**{name: getattr(overview, name) for name in cls.model_fields})


class DevicePage(Page[DeviceNow]):
    """A page of devices with their states now."""


class AgentPage(Page[RegisteredAgent]):
    """A page of agents."""


class SweepDetail(Contract):
    """A sweep, how far it is, and what people say about it."""

    record: SweepRecord
    tally: SweepTally
    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


class FailurePage(Page[StoredFailure]):
    """A page of failed attempts."""


class AnnotationPage(Page[SweepAnnotations]):
    """A page of sweeps' tags and notes."""


class RegisteredDevicePage(Page[RegisteredDevice]):
    """A page of devices as they registered, with what people and failures did to them."""


class HistoryPage(Page[DeviceHistoryEntry]):
    """A page of a device's history."""


class SpentPage(Page[Spent]):
    """A page of device times."""


class TookPage(Page[Took]):
    """A page of attempts' times."""


class ResultProfile(Contract):
    """The profile of a result, and what was profiled."""

    run_id: str
    sweep_id: str
    device: str
    device_name: str
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    validity: Validity
    started_at: Timestamp
    profile: ProfileSummary

    @classmethod
    def of(cls, result: StoredResult, profile: ProfileSummary) -> Self:
        """Return the profile of a result."""
        names = cls.model_fields.keys() - {"profile"}
        return cls(**{name: getattr(result, name) for name in names}, profile=profile)


class ProfilePage(Page[ResultProfile]):
    """A page of profiles; it may have fewer than were asked for, and yet a next one."""


class ArtefactPage(Page[ArtefactRecord]):
    """A page of a run's artefacts."""


class RunProfile(Contract):
    """The profile of a run."""

    run_id: str
    attempt: int
    """The attempt that was profiled."""
    summary: ProfileSummary
    kernels: tuple[KernelRow, ...]
    """Kernels of the framework's ops, in seconds of a step."""
    primitives: tuple[PrimitiveRow, ...]
    """The primitives that ran in them."""
    timeline: tuple[Span, ...]
    """The quickest watched step; none unless it is asked for, and of logs."""
