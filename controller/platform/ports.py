"""Free ports for servers that need their port before they start."""

from __future__ import annotations

import random
import socket
from collections.abc import Container, Iterator, Sequence
from itertools import islice

from controller.contracts.errors import FarmUnavailable

PORTS = range(20_000, 32_768)
"""Ports above those of Ray's workers and below Linux's ephemeral ports.

An ephemeral port may be in use by the time its server listens.
"""


def free_ports(
    count: int, host: str = "", besides: Container[int] = (), among: Sequence[int] = PORTS
) -> list[int]:
    """Return `count` different ports where this host can listen now; raises FarmUnavailable.

    Ask for all that belong together in one call: two calls may return the same port.

    host: the address to listen at; all of this host's by default.
    besides: ports that are taken. among: ports to choose from.
    """
    free = (port for port in _free(host, among) if port not in besides)
    found = list(islice(free, count))
    if len(found) < count:
        seen = f"{len(found)} of {count} ports are free from {among[0]} to {among[-1]}"
        remedy = "End the programs that listen there."
        raise FarmUnavailable("find free ports", seen, remedy)
    return found


def _free(host: str, among: Sequence[int]) -> Iterator[int]:
    for port in random.sample(among, len(among)):
        try:
            socket.create_server((host, port)).close()
        except OSError:
            continue
        yield port
