"""`python -m agents.transports.adb VERB SERVER PHONE …`: what `benchfarm phone` asks of adb.

Verbs: `connect` and `disconnect` a phone's HOST:PORT; `clean` an adb serial, and the file by which
it is locked while a run or a probe is on it; `examine` the same, under a policy. Prints an Answer
as JSON and exits with 0, or a Complaint and exits with 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agents.android.examining import looked_at
from agents.android.policy import load_policy
from agents.host.locks import exclusive_now
from agents.transports.adb.addresses import Address, parse_address
from agents.transports.adb.programs import Link
from agents.transports.adb.recovery import connect, disconnect, state_of
from agents.transports.adb.refusals import DEVICE, fault_of_state
from agents.transports.adb.remote import AdbRemote
from agents.transports.remote import FaultKind, RemoteFault
from controller.contracts.adb_status import Answer
from controller.contracts.complaint import Complaint
from controller.contracts.errors import PhoneUnavailable

OWNER = "benchfarm phone"
REMEDIES = {
    FaultKind.UNAUTHORIZED: "confirm this host's key on the phone's screen, then connect again",
    FaultKind.ADB_SERVER: "see whether the agent is up: benchfarm agent list",
}
REMEDY_OF_VERB = {
    "connect": "see whether the phone listens there: adb tcpip 5555",
    "disconnect": "see whether the agent is up: benchfarm agent list",
    "clean": "see that the phone is well, and try again",
    "examine": "see that it is on, unlocked and connected: benchfarm phone list",
}
TRIES = 5
PAUSE_S = 1.0


async def connected(server: Address, phone: str, anew: str = "") -> Answer:
    """Connect, and wait until the phone may be used; raises RemoteFault.

    A connection that is of no use is ended first: adb would go on calling it connected, and a phone
    that has restarted, or was refused before, is asked again by a new one only. `anew`: end it
    in any case, if it is not empty.
    """
    fresh = False
    for left in reversed(range(TRIES)):
        try:
            if not fresh and await state_of(server, phone) != (None if anew else DEVICE):
                await disconnected(server, phone)
            fresh = True
            await connect(server, phone)
            fault = fault_of_state(phone, await state_of(server, phone))
            if fault is None:
                return Answer()
            raise fault
        except RemoteFault as refusal:
            # A server that has just started may refuse at first, and lose what it has just found;
            # one that the agent restarts for another phone's sake is away for a moment.
            if refusal.kind not in (FaultKind.OFFLINE, FaultKind.ADB_SERVER) or left == 0:
                raise
        await asyncio.sleep(PAUSE_S)
    raise AssertionError("unreachable: the last try returns or raises")


async def disconnected(server: Address, phone: str) -> Answer:
    """Let go of a phone, if it is there; raises RemoteFault."""
    for left in reversed(range(TRIES)):
        try:
            if await state_of(server, phone) is not None:
                await disconnect(server, phone)
            return Answer()
        except RemoteFault as refusal:
            # It has gone meanwhile, or its server is being restarted for another phone's sake.
            if refusal.kind not in (FaultKind.OFFLINE, FaultKind.ADB_SERVER) or left == 0:
                raise
        await asyncio.sleep(PAUSE_S)
    raise AssertionError("unreachable: the last try returns or raises")


async def cleaned(server: Address, phone: str, use: str) -> Answer:
    """Remove all that agents have put on a phone; no run begins meanwhile.

    Raises RemoteFault, and PhoneUnavailable if a run or a probe is on it.
    """
    with _unused("cleaning", Path(use)):
        remote = AdbRemote.of(Link(server, phone), OWNER)
        return Answer(freed_bytes=await remote.remove_all())


@contextmanager
def _unused(doing: str, lock: Path) -> Iterator[None]:
    """Let no run and no probe begin on a phone; raises PhoneUnavailable if one is on it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_now(lock) as free:
        if not free:
            seen, remedy = "a run or a probe is on it", "wait for its end, or cancel its sweep"
            raise PhoneUnavailable(f"{doing} phone {lock.name}", seen, remedy)
        yield


async def examined(server: Address, phone: str, use: str, policy: str) -> Answer:
    """Look at a phone as a run under a policy would; no run begins meanwhile.

    Raises RemoteFault, and PhoneUnavailable if a run or a probe is on it.
    """
    with _unused("examining", Path(use)):
        remote = AdbRemote.of(Link(server, phone), OWNER)
        return Answer(checks=tuple(await looked_at(remote, phone, load_policy(policy))))


VERBS: Mapping[str, Callable[..., Awaitable[Answer]]] = {
    "connect": connected,
    "disconnect": disconnected,
    "clean": cleaned,
    "examine": examined,
}


def main() -> int:
    """Do it."""
    verb, server, phone, *more = sys.argv[1:]

    async def do() -> Answer:
        return await VERBS[verb](parse_address(server), phone, *more)

    try:
        sys.stdout.write(asyncio.run(do()).model_dump_json())
        return 0
    except PhoneUnavailable as refusal:
        error = refusal
    except RemoteFault as fault:
        remedy = REMEDIES.get(fault.kind, REMEDY_OF_VERB[verb])
        error = PhoneUnavailable(f"{verb} phone {phone}", fault.message, remedy)
    sys.stdout.write(Complaint.of(error).model_dump_json())
    return 1


if __name__ == "__main__":
    sys.exit(main())
