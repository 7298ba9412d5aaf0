"""Answers about an agent that is drained, or no longer is."""

from __future__ import annotations

from controller.contracts.base import Contract
from controller.contracts.device import Hold
from controller.contracts.farm_status import RunNow


class AgentDrain(Contract):
    """Whether an agent is drained, and what still runs on its devices."""

    agent_id: str
    host: str
    online: bool
    draining: Hold | None
    """None if it takes runs."""
    devices: tuple[str, ...]
    """Names of its devices for people."""
    running: tuple[RunNow, ...]
    """Runs under way, which finish."""


class ChangedDrain(Contract):
    """An agent whose drain a request begins or ends."""

    now: AgentDrain
    changed: bool
    """Whether the request changed anything."""
    waiting: int = 0
    """Queued runs that wait for the end of the drain."""
