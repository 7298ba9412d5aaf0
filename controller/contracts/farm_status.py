"""What `benchfarm status` says of a farm."""

from __future__ import annotations

from enum import StrEnum

from controller.contracts.base import Contract, Timestamp
from controller.contracts.checks import Check, Health
from controller.contracts.device import DeviceState
from controller.contracts.waiting import WaitingRuns


class FarmCondition(StrEnum):
    """Whether a home's farm works."""

    UP = "up"
    RESTARTING = "restarting"
    """A part of it has ended, and its supervisor or Ray starts that again."""
    SILENT = "silent"
    """Its controller listens but does not answer."""
    DOWN = "down"
    JOINED = "joined"
    """This host measures for the farm of another host."""
    WAITING = "waiting"
    """This host waits for the head of the farm that it is to join."""


class FarmAddresses(Contract):
    """Where a farm's servers are; None for one that there is not."""

    api: str | None = None
    ray: str | None = None
    dashboard: str | None = None
    prometheus: str | None = None
    page: str | None = None
    """The page for the team, beside the API for it."""


class AgentNow(Contract):
    """An agent, and how many devices it had at its last registration."""

    agent_id: str
    host: str
    state: str
    """`online`, `draining`, `drained`, `lost` or `revoked`."""
    since: Timestamp
    devices: int


class RunNow(Contract):
    """A run under way."""

    run_id: str
    sweep_id: str
    user: str
    device: str
    device_name: str
    """Its name for people."""
    likeness: str = ""
    """See Device.likeness."""
    since: Timestamp
    """When its attempt was leased."""
    cooling: bool


class FarmStatus(Contract):
    """A farm on one screen."""

    home: str
    state: FarmCondition
    why: str
    """Why it is not up; empty if it is."""
    since: Timestamp | None
    """When its Ray was started; None while it is down."""
    version: str | None
    """The release of its controller."""
    addresses: FarmAddresses
    agents: tuple[AgentNow, ...]
    devices: dict[DeviceState, int]
    """How many devices are in each state."""
    running: tuple[RunNow, ...]
    queued: int
    """Runs that are queued."""
    waiting: tuple[WaitingRuns, ...]
    """What most of them wait for, the commonest reason first."""
    checks: tuple[Check, ...]
    """What is wrong, and what to do."""

    @property
    def well(self) -> bool:
        """Whether the farm works and nothing is to be mended."""
        works = self.state in (FarmCondition.UP, FarmCondition.JOINED)
        return works and all(check.health is not Health.MEND for check in self.checks)
