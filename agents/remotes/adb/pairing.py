"""Pairing for wireless debugging, from Android 11 on: by adb's server, which holds the key."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from agents.remotes.adb.addresses import Address
from agents.remotes.adb.smart_socket import opened
from agents.remotes.remote import FaultKind, RemoteFault

PAIR_S = 20.0
"""adb itself waits for ever for a peer that takes the connection and says nothing."""
CODE: Final = re.compile(r"[!-9;-~]{1,64}", re.ASCII)
"""Six digits on a phone's screen; a QR code's is longer. No colon: adb's request is split there."""
_PAIRED: Final = re.compile(r"Successfully paired to \S{1,300} \[guid=([!-~]{1,100})\]")
_MEANINGS: Final[Mapping[str, str]] = {
    "Unable to start pairing client": "nothing there listens for pairing",
    "Wrong password or connection was dropped": "the code is wrong, or what listens there does "
    "not pair",
    "unknown host service": "this adb can't pair: adb 30 or later can",
}
"""By what adb's server answers (AOSP client/adb_wifi.cpp)."""


async def pair(server: Address, address: str, code: str) -> str:
    """Pair with a phone's HOST:PORT; return the name by which it announces itself.

    Raises RemoteFault, whose message doesn't have the code.
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
