"""The network interfaces of this host; by the standard library only, which workers of every stack
have."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOOPBACK: Final = "lo"
IPV6: Final = Path("/proc/net/if_inet6")
_SIOCGIFCONF: Final = 0x8912
"""Asks for every IPv4 address, each with its interface; netdevice(7)."""
_ENTRY_BYTES: Final = 40
_NAME_BYTES: Final = 16
_ENTRIES: Final = 1024

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has an IP address; None if none has."""
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return None
    return next((name for own, name in (*_ipv4(), *_ipv6()) if own == wanted), None)


def _ipv4() -> Iterator[tuple[Address, str]]:
    entries = array.array("B", bytes(_ENTRIES * _ENTRY_BYTES))
    where, size = entries.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking, _SIOCGIFCONF, struct.pack("iP", size, where))
    used, _ = struct.unpack("iP", answer)
    for entry in (entries[at : at + _ENTRY_BYTES].tobytes() for at in range(0, used, _ENTRY_BYTES)):
        name, own = entry[:_NAME_BYTES], entry[_NAME_BYTES + 4 : _NAME_BYTES + 8]  # of sockaddr_in
        yield ipaddress.IPv4Address(own), name.partition(b"\0")[0].decode()


def _ipv6() -> Iterator[tuple[Address, str]]:
    if IPV6.exists():
        for line in IPV6.read_text().splitlines():
            own, *_, name = line.split()
            yield ipaddress.IPv6Address(bytes.fromhex(own)), name
