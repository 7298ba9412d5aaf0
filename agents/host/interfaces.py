"""The network interfaces of this host."""

from __future__ import annotations

from typing import Final

import psutil

LOOPBACK: Final = "lo"


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has an IP address; None if none has."""
    for name, addresses in psutil.net_if_addrs().items():
        if address in [each.address.partition("%")[0] for each in addresses]:
            return name
    return None
