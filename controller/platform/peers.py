"""Whose program has the other end of a TCP connection within this host.

A port of ours is free as soon as its program has ended: any user of the host may listen there then,
and would be sent the secrets that are meant for our program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from socket import socket
from typing import Any, Final

from controller.contracts.errors import FarmSilent

TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
LISTEN: Final = "0A"
ANY: Final = (IPv4Address(0), IPv6Address(0))
CONNECTED: Final = "connection.connect_tcp.complete"
Address = tuple[IPv4Address | IPv6Address, int]


@dataclass(frozen=True, slots=True)
class TcpRow:
    """A socket, as <https://docs.kernel.org/networking/proc_net_tcp.html> lists it."""

    local: Address
    remote: Address
    state: str
    uid: int
    inode: int
    """0 for a connection that its program has not accepted yet, or has closed."""


def objection_to_peer(connection: socket) -> str:
    """Return why nothing secret may be sent; "" if the other end is this user's, or root's.

    Ask once it is connected, before anything is sent: whoever listened before may have ended since.
    Raises ConnectionError if the other end is not on this host, or is gone.
    """
    uid = uid_of_peer(connection)
    if uid is None:
        raise ConnectionResetError("the other end has closed the connection")
    if is_trusted(uid):
        return ""
    return f"a program of another user (uid {uid}) listens at {_at(connection)}"


def _require_own_peer(connection: socket) -> None:
    """Raise FarmSilent if nothing secret may be sent; see `objection_to_peer`."""
    try:
        seen = objection_to_peer(connection)
    except OSError as error:
        seen = str(error)
    if seen:
        remedy = "Wait until Ray has started the controller again, or run `benchfarm up`."
        raise FarmSilent("call the controller", seen, remedy)


def is_trusted(uid: int) -> bool:
    """Return whether a user may have this user's secrets: it is the same, or root."""
    return uid in (os.geteuid(), 0)


def uid_of_peer(connection: socket) -> int | None:
    """Return the user of a connection's other end; None if it is not on this host, or is gone.

    Raises OSError for a connection that was reset.
    """
    server, client = _address(connection.getpeername()), _address(connection.getsockname())
    return uid_of_end(_rows(server[1]), server, client)


def uid_of_end(rows: Iterable[TcpRow], server: Address, client: Address) -> int | None:
    """Return the user of a connection's end at the server, from rows in the kernel's order.

    The end belongs to whoever accepted it. Until then, older kernels say 0, and it is in the queue
    of the one listener there. Listeners come first in a table: that one still listened when its row
    was read, for the connection would have been reset with it.
    """
    listening: dict[Address, int] = {}
    for row in rows:
        if row.state == LISTEN:
            listening[row.local] = row.uid
        elif (row.local, row.remote) == (server, client):
            if row.inode:
                return row.uid
            at = ((host, server[1]) for host in (server[0], *ANY))
            return next((listening[one] for one in at if one in listening), None)
    return None


def check_peer(event: str, info: Mapping[str, Any]) -> None:
    """Check a new connection of httpx: FarmSilent unless it is to this user's program, or root's.

    For a request's `trace`: <https://www.python-httpx.org/advanced/extensions/#trace>.
    """
    if event == CONNECTED:
        stream = info["return_value"]
        try:
            _require_own_peer(stream.get_extra_info("socket"))
        except BaseException:
            stream.close()
            raise


async def check_peer_async(event: str, info: Mapping[str, Any]) -> None:
    """Check a connection of httpx's asynchronous client, as `check_peer`."""
    if event == CONNECTED:
        stream = info["return_value"]
        try:
            _require_own_peer(stream.get_extra_info("socket"))
        except BaseException:
            await stream.aclose()
            raise


def _rows(port: int) -> Iterator[TcpRow]:
    """Yield the rows of sockets whose own port is this one."""
    for table in TABLES:
        with suppress(FileNotFoundError), table.open() as lines:  # a kernel without IPv6
            for line in lines:
                words = line.split()
                if words[1].endswith(f":{port:04X}"):
                    local, remote = _of_hex(words[1]), _of_hex(words[2])
                    yield TcpRow(local, remote, words[3], int(words[7]), int(words[9]))


def _of_hex(text: str) -> Address:
    """Return the address in a row: words of 32 bits in the host's order, then the port."""
    host, _, port = text.partition(":")
    words = (int(host[at : at + 8], 16) for at in range(0, len(host), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return _plain(ip_address(packed)), int(port, 16)


def _address(name: Sequence[Any]) -> Address:
    return _plain(ip_address(name[0].partition("%")[0])), name[1]  # without the zone


def _plain(host: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return an IPv4 address as such, also one of a socket for both."""
    return (isinstance(host, IPv6Address) and host.ipv4_mapped) or host


def _at(connection: socket) -> str:
    host, port = _address(connection.getpeername())
    return f"{host}:{port}" if host.version == 4 else f"[{host}]:{port}"
