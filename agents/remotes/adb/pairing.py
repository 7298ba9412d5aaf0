"""Pairing for wireless debugging (from Android 11), by the adb server that holds the key."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from agents.remotes.adb.addresses import Address
from agents.remotes.adb.smart_socket import opened
from agents.remotes.remote import FaultKind, RemoteFault

PAIR_S = 20.0
"""Time limit; adb itself waits forever for a silent peer."""
CODE: Final = re.compile(r"[!-9;-~]{1,64}", re.ASCII)
"""Six digits on a phone's screen; longer in a QR code. No colon, at which adb splits the
request."""
_PAIRED: Final = re.compile(r"Successfully paired to \S{1,300} \[guid=([!-~]{1,100})\]")
_MEANINGS: Final[Mapping[str, str]] = {
    "Unable to start pairing client": "nothing there listens for pairing",
    "Wrong password or connection was dropped": "the code is wrong, or what listens there does "
    "not pair",
    "unknown host service": "this adb can't pair: adb 30 or later can",
}
"""Answer of adb's server (AOSP client/adb_wifi.cpp) → meaning."""


async def pair(server: Address, address: str, code: str) -> str:
    """Pair with a phone's HOST:PORT; return the name by which it announces itself.

    Raises RemoteFault; its message never contains the code.
    """
    if not CODE.fullmatch(code):
        message = "the code must have 1 to 64 letters and digits, as the phone shows it"
        raise RemoteFault(address, FaultKind.PROTOCOL, message)
    try:
        async with asyncio.timeout(PAIR_S), opened(server) as connection:
            await connection.request(f"host:pair:{code}:{address}", address)
            said = (await connection.read_block()).decode(errors="replace")
    except TimeoutError as error:
        message = f"what listens there did not pair in {PAIR_S:g} s"
        raise RemoteFault(address, FaultKind.HUNG, message) from error
    except RemoteFault as fault:
        raise _explained(address, code, fault) from None
    if paired := _PAIRED.match(said):
        return paired[1]
    message = f"adb answered {_without(code, said)[:200]!r}"
    raise RemoteFault(address, FaultKind.PROTOCOL, message)


def _explained(address: str, code: str, fault: RemoteFault) -> RemoteFault:
    meaning = next((m for words, m in _MEANINGS.items() if words in fault.message), None)
    kind = FaultKind.PROTOCOL if meaning else fault.kind
    return RemoteFault(address, kind, meaning or _without(code, fault.message))


def _without(code: str, text: str) -> str:
    return text.replace(code, "<code>")
