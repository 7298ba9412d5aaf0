"""Who is there: what an adb server lists, as it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from agents.remotes.adb.connections import parse_devices
from agents.remotes.adb.server import AdbServer
from agents.remotes.adb.smart_socket import Connection, opened
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.errors import AdbUnavailable

PACE_S = 0.02
"""How long a list waits for newer ones: a phone that connects is offline, asks for a key, and is
offline again, all within some 10 ms. A server that lists without end keeps nobody else waiting."""
MAX_AT_ONCE = 16
"""So many lists are passed over for a newer one."""
MAX_LISTED = 1000
"""Phones of one server."""
AWAY_PAUSE_S = 1.0
"""Between attempts to reach a server that has gone: nobody announces its return."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """A serial has another state."""

    serial: str
    state: str | None
    """As adb lists it (`device`, `offline`, `unauthorized` …); None if it no longer does."""
    went_as: str | None = None
    """How it was listed when the server itself went: nobody has let go of the phone."""


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return what has changed between two lists: what has gone first, then what is new."""
    gone = [Change(serial, None) for serial in sorted(before.keys() - after.keys())]
    moved = sorted(serial for serial in after if before.get(serial) != after[serial])
    return gone + [Change(serial, after[serial]) for serial in moved]


async def track(server: AdbServer) -> AsyncGenerator[Change]:
    """Yield every change, beginning with all that is there; survives restarts of the server.

    While the server is away all its serials are gone. Raises AdbUnavailable if it was never there,
    or refuses to tell.
    """
    known: dict[str, str] = {}
    address = await server.ready()
    while True:
        try:
            async with opened(address) as connection:
                await connection.request("host:track-devices", str(address))
                async with aclosing(_newest(connection)) as lists:
                    async for listed in lists:
                        seen = _phones(listed, str(address))
                        news, known = changes(known, seen), seen
                        for change in news:
                            yield change
        except RemoteFault as fault:
            if fault.kind is not FaultKind.ADB_SERVER:
                tried = f"follow the adb server at {address}"
                raise AdbUnavailable(tried, fault.message, "Check what listens there.") from fault
            log.warning("%s", fault)
        for serial, state in sorted(known.items()):
            yield Change(serial, None, went_as=state)
        known = {}
        await _until_back(server)


async def _newest(connection: Connection) -> AsyncGenerator[bytes]:
    """Yield what is listed whenever that has changed, as it is by then; raises RemoteFault.

    A list that is old when it is read tells of what has passed: a phone would be taken for lost.
    """
    reading = asyncio.ensure_future(connection.read_block())
    try:
        while True:
            await asyncio.wait({reading})
            newest = reading.result()
            await asyncio.sleep(PACE_S)
            for _ in range(MAX_AT_ONCE):
                reading = asyncio.ensure_future(connection.read_block())
                await asyncio.wait({reading}, timeout=0)
                if not reading.done() or reading.exception():
                    break
                newest = reading.result()
            else:
                reading = asyncio.ensure_future(connection.read_block())
            yield newest
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _phones(listed: bytes, server: str) -> dict[str, str]:
    seen = parse_devices(listed.decode(errors="replace"))
    if len(seen) > MAX_LISTED:
        message = f"it lists {len(seen)} phones, more than the limit of {MAX_LISTED}"
        raise RemoteFault(server, FaultKind.PROTOCOL, message)
    return seen


async def _until_back(server: AdbServer) -> None:
    while True:
        try:
            await server.ready()
            return
        except AdbUnavailable as error:
            log.warning("%s", error)
            await asyncio.sleep(AWAY_PAUSE_S)
