"""`python -m agents.transports.adb SERVER PHONE`: connect an adb server to a phone over TCP.

Prints a line for people and exits with 0, or {"seen", "remedy"} as JSON and exits with 1.
"""

from __future__ import annotations

import asyncio
import json
import sys

from agents.transports.adb.recovery import connect, recover, state_of
from agents.transports.adb.refusals import fault_of_state
from agents.transports.adb.smart_socket import Address
from agents.transports.remote import FaultKind, RemoteFault

REMEDIES = {
    FaultKind.UNAUTHORIZED: "confirm this host's key on the phone's screen, then connect again",
    FaultKind.ADB_SERVER: "see whether the agent is up: benchfarm agent list",
}


async def connected(server: Address, phone: str) -> None:
    """Connect, and wait until the phone may be used; raises RemoteFault."""
    try:
        await connect(server, phone)
    except RemoteFault as refusal:
        if refusal.kind is not FaultKind.OFFLINE:
            raise
        await recover(server, phone)  # a server that has just started may refuse the first time
    if fault := fault_of_state(phone, await state_of(server, phone)):
        raise fault


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
