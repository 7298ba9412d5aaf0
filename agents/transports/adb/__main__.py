"""`python -m agents.transports.adb SERVER PHONE`: connect an adb server to a phone over TCP.

Prints a line for people and exits with 0, or {"seen", "remedy"} as JSON and exits with 1.
"""

from __future__ import annotations

import asyncio
import json
import sys

from agents.transports.adb.recovery import connect, state_of
from agents.transports.adb.refusals import fault_of_state
from agents.transports.adb.smart_socket import Address
from agents.transports.remote import FaultKind, RemoteFault

REMEDIES = {
    FaultKind.UNAUTHORIZED: "confirm this host's key on the phone's screen, then connect again",
    FaultKind.ADB_SERVER: "see whether the agent is up: benchfarm agent list",
}
TRIES = 5
PAUSE_S = 1.0


async def connected(server: Address, phone: str) -> None:
    """Connect, and wait until the phone may be used; raises RemoteFault."""
    for left in reversed(range(TRIES)):
        try:
            await connect(server, phone)
            fault = fault_of_state(phone, await state_of(server, phone))
            if fault is None:
                return
            raise fault
        except RemoteFault as refusal:
            # A server that has just started may refuse at first, and lose what it has just found.
            if refusal.kind is not FaultKind.OFFLINE or left == 0:
                raise
        await asyncio.sleep(PAUSE_S)


def main() -> int:
    """Do it."""
    host, _, port = sys.argv[1].rpartition(":")
    try:
        asyncio.run(connected(Address(host, int(port)), sys.argv[2]))
    except RemoteFault as fault:
        remedy = REMEDIES.get(fault.kind, "see whether the phone listens there: adb tcpip 5555")
        sys.stdout.write(json.dumps({"seen": str(fault), "remedy": remedy}))
        return 1
    sys.stdout.write(f"connected to {sys.argv[2]}; see: benchfarm device list\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
