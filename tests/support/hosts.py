"""Several like hosts, and a catalogue with the knobs that spread ranks over them."""

from __future__ import annotations

from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import Device, RegisteredDevice
from tests.support import builders


def several_hosts_catalog() -> Catalog:
    """Return the tests' catalogue with the project's own launch settings."""
    return builders.catalog().model_copy(update={"launch": load_catalog().launch})


def registered(device: Device) -> RegisteredDevice:
    """Return a device that is online, with an agent of its own."""
    agent = f"host of {device.id}"
    return RegisteredDevice(device=device, agent_id=agent, online=True, since=0.0)
