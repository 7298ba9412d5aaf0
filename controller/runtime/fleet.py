"""The fleet as it is now, for people: what the store says, unless the farm is down."""

from __future__ import annotations

from controller.contracts.base import Contract
from controller.contracts.device import Device, DeviceState, RegisteredAgent, device_state
from controller.contracts.records import Timestamp
from controller.contracts.run import Run
from controller.runtime.cluster import is_alive
from controller.runtime.home import Home
from controller.store.protocol import StoreReader


class DeviceStatus(Contract):
    """A device, its agent, and what it does now."""

    device: Device
    agent_id: str
    state: DeviceState
    since: Timestamp
    run_id: str | None
    """The run it is busy with."""


def agents_now(home: Home, store: StoreReader) -> list[RegisteredAgent]:
    """Return all agents; none is online while the farm is down."""
    agents, _ = store.fleet()
    if _is_up(home):
        return agents
    return [known.model_copy(update={"online": False}) for known in agents]


def devices_now(home: Home, store: StoreReader) -> list[DeviceStatus]:
    """Return all devices with their present state."""
    up = _is_up(home)
    _, devices = store.fleet()
    leases = {run.lease.device_id: run for run in store.runs(open_only=True) if run.lease}
    return [
        _status(known.device, known.agent_id, known.since, up and known.online, leases)
        for known in devices
    ]


def _status(
    device: Device, agent_id: str, since: float, online: bool, leases: dict[str, Run]
) -> DeviceStatus:
    run = leases.get(device.id) if online else None
    since = run.attempts[-1].leased_at if run else since
    state = device_state(online=online, busy=run is not None)
    run_id = run.run_id if run else None
    return DeviceStatus(device=device, agent_id=agent_id, state=state, since=since, run_id=run_id)


def _is_up(home: Home) -> bool:
    cluster = home.cluster()
    return cluster is not None and is_alive(cluster)
