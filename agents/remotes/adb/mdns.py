"""Discovery of phones that announce themselves by mDNS, with a short-lived adb server.

This server knows no phone and no key, and is discarded: a listening server opens UDP port 5353 to
the whole network, and adb 36 crashes at a packet whose name has a control character. The agent's
own server, which commands phones, never listens.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Final

from agents.remotes.adb.server import PrivateServer, find_adb
from agents.remotes.adb.smart_socket import ask
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.adb_status import Announced, Announcement
from controller.contracts.errors import AdbUnavailable

LISTEN_S: Final = 3.0
"""Seconds to listen; phones answer within a second."""
PAUSE_S: Final = 0.25
MAX_ANNOUNCED: Final = 64
OLDEST: Final = 36
"""The first release of adb that can be kept from USB (ADB_USB), which belongs to the agent's
server."""
_NAME = 100
"""Most characters kept of a phone's name."""
_ADDRESS = re.compile(r"(?:[0-9.]{7,15}|\[?[0-9A-Fa-f:.%a-z]{2,60}\]?):(\d{1,5})", re.ASCII)
_VERSION = re.compile(rb"^Version (\d{1,4})\.", re.MULTILINE)


def parse_services(text: str) -> list[Announced]:
    """Parse the output of `host:mdns:services`: NAME, SERVICE and HOST:PORT a line; skip others."""
    kinds = {f"{kind}._tcp": kind for kind in Announcement}
    found: dict[tuple[Announcement, str], Announced] = {}
    for line in text.split("\n"):
        name, service, address = (*line.rstrip("\r").split("\t"), "", "", "")[:3]
        kind = kinds.get(service.removesuffix("."))
        port = _ADDRESS.fullmatch(address)
        if kind is None or port is None or not 0 < int(port[1]) < 1 << 16:
            continue
        found[kind, address] = Announced(name=name[:_NAME], kind=kind, address=address)
    return list(found.values())[:MAX_ANNOUNCED]


async def listen(seconds: float = LISTEN_S, name: str = "") -> list[Announced]:
    """Return the phones that announce themselves within some seconds.

    name: return as soon as this phone announces an address to connect to. Raises AdbUnavailable,
    AdbMissing, and RemoteFault `adb_server` if the server crashed.
    """
    await _require_newest()
    with tempfile.TemporaryDirectory(prefix="benchfarm-mdns-") as folder:
        server = PrivateServer(Path(folder) / "adb", listens=True)
        try:
            address = await server.ready()
            checked = await ask(address, "host:mdns:check")
            if checked.startswith("ERROR"):
                raise RemoteFault("mDNS", FaultKind.UNSUPPORTED, checked[:200])
            found: list[Announced] = []
            for _ in range(max(1, round(seconds / PAUSE_S))):
                await asyncio.sleep(PAUSE_S)
                found = parse_services(await ask(address, "host:mdns:services"))
                if name and any(is_connectable(one, name) for one in found):
                    break
            return found
        finally:
            await server.stop()


def is_connectable(one: Announced, name: str) -> bool:
    """Return whether it announces an address to connect to, of the phone with this name."""
    return one.kind is Announcement.CONNECT and one.name == name


async def _require_newest() -> None:
    process = await asyncio.create_subprocess_exec(
        find_adb(), "version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await process.communicate()
    version = _VERSION.search(said)
    if version is None or int(version[1]) < OLDEST:
        seen = f"this adb is older than {OLDEST} and would take over the phones on cables"
        remedy = "Run `pip install 'adbutils==2.12.*'`."
        raise AdbUnavailable("listen for phones", seen, remedy)
