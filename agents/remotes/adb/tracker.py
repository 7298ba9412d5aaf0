"""Tracking of the phones that an adb server lists."""

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
"""Seconds that a list waits for newer ones: a connecting phone is offline, asks for a key, and is
offline again, all within about 10 ms. Also limits the load from a server that sends lists without
end."""
MAX_AT_ONCE = 16
"""Most lists that are skipped for a newer one."""
MAX_LISTED = 1000
"""Most phones of one server."""
AWAY_PAUSE_S = 1.0
"""Seconds between attempts to reach a server that has gone, since nothing announces its return."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a serial's state."""

    serial: str
    state: str | None
    """State in adb's list (`device`, `offline`, `unauthorized` …); None if it is no longer
    listed."""
    went_as: str | None = None
    """Last state, if the server itself has gone: the phone was not disconnected."""


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return the changes between two lists: removed serials first, then new states."""
    gone = [Change(serial, None) for serial in sorted(before.keys() - after.keys())]
    moved = sorted(serial for serial in after if before.get(serial) != after[serial])
    return gone + [Change(serial, after[serial]) for serial in moved]


async def track(server: AdbServer) -> AsyncGenerator[Change]:
    """Yield every change, beginning with all listed serials; survives restarts of the server.

    While the server is away, all its serials count as gone. Raises AdbUnavailable if it never
    answered, or refuses tracking.
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
    """Yield the newest list after each change; raises RemoteFault.

    Old lists are skipped, since a past state would make a phone look lost.
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
