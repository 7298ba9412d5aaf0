"""`python -m agents.phone_command`: a helper for what `benchfarm phone` asks of adb.

It serves a PhoneCommand. Verbs: `connect`, `disconnect` and `pair` a phone's HOST:PORT;
`look` how adb lists a serial; `clean` an adb serial, and the file by which it is locked while a run
or a probe is on it; `examine` the same, under a policy, with the file of the settings that were
changed; `set` the same, with the keys to be set; `restore` a serial, its lock and that file;
`listen` for phones that announce themselves, by a name or ANY.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agents.phones.airplane import AirplaneMode
from agents.phones.kept_settings import KeptFile
from agents.phones.modes import mode_checks
from agents.phones.phone_settings import PhoneSettings
from agents.remotes.adb.addresses import Address, parse_address
from agents.remotes.adb.connections import connect, disconnect, is_networked, state_of
from agents.remotes.adb.mdns import listen
from agents.remotes.adb.pairing import pair
from agents.remotes.adb.programs import Link
from agents.remotes.adb.refusals import DEVICE, fault_of_state
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.adb_status import ANY, PhoneCommand, PhoneResult
from controller.contracts.errors import PhoneUnavailable
from controller.contracts.policy import load_policy
from controller.platform.helper_loop import run_until_signal
from controller.platform.helper_main import Replies, serve
from controller.platform.locks import exclusive_now

OWNER = "benchfarm phone"
AGENT_UP = "Run `benchfarm agent list` to see whether the agent is up."
REMEDIES = {
    FaultKind.UNAUTHORIZED: "Confirm this host's key on the phone's screen, then connect again.",
    FaultKind.ADB_SERVER: AGENT_UP,
}
_ON = "Check with `benchfarm phone list` that it is on, unlocked and connected."
REMEDY_OF_VERB = {
    "connect": "Check that the phone listens there: `adb tcpip 5555` makes it listen.",
    "disconnect": AGENT_UP,
    "clean": "Check the phone with `benchfarm phone doctor`, then clean it again.",
    "examine": _ON,
    "listen": "Run it again: the adb server that listened ended, or got a broken answer.",
    "look": AGENT_UP,
    "set": f"{_ON} `benchfarm phone restore` puts back what was changed.",
    "restore": f"{_ON} What is not put back yet stays on record.",
    "pair": "Open 'Pair device with pairing code' on it: code and port are new each time.",
}
TRIED = {
    "connect": "connect to phone",
    "disconnect": "disconnect phone",
    "clean": "clean phone",
    "examine": "examine phone",
    "listen": "listen for phone",
    "look": "see the state of phone",
    "set": "set up phone",
    "restore": "restore phone",
    "pair": "pair with phone",
}
TRIES = 5
PAUSE_S = 1.0


async def connected(server: Address, phone: str, anew: str = "") -> PhoneResult:
    """Connect, and wait until the phone can be used; raises RemoteFault.

    A useless connection is closed first: adb would go on listing it as connected, and a phone that
    has restarted, or was refused before, answers only on a new one. `anew`: if not empty, close any
    connection first.
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
                return PhoneResult()
            raise fault
        except RemoteFault as refusal:
            # A newly started server may refuse at first, and lose the phone again; one that the
            # agent restarts for another phone is away for a moment.
            if refusal.kind not in (FaultKind.OFFLINE, FaultKind.ADB_SERVER) or left == 0:
                raise
        await asyncio.sleep(PAUSE_S)
    raise AssertionError("unreachable: the last try returns or raises")


async def disconnected(server: Address, phone: str) -> PhoneResult:
    """Disconnect a phone, if it is connected; raises RemoteFault."""
    for left in reversed(range(TRIES)):
        try:
            if await state_of(server, phone) is not None:
                await disconnect(server, phone)
            return PhoneResult()
        except RemoteFault as refusal:
            # It is gone meanwhile, or its server is being restarted for another phone.
            if refusal.kind not in (FaultKind.OFFLINE, FaultKind.ADB_SERVER) or left == 0:
                raise
        await asyncio.sleep(PAUSE_S)
    raise AssertionError("unreachable: the last try returns or raises")


async def cleaned(server: Address, phone: str, use: str) -> PhoneResult:
    """Remove all files of agents from a phone, while no run can begin.

    Raises RemoteFault, and PhoneUnavailable if a run or a probe is on it.
    """
    with _unused("clean", Path(use)):
        remote = AdbRemote.of(Link(server, phone), OWNER)
        return PhoneResult(freed_bytes=await remote.remove_all())


@contextmanager
def _unused(verb: str, lock: Path) -> Iterator[None]:
    """Keep runs and probes off a phone; raises PhoneUnavailable if one uses it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_now(lock) as free:
        if not free:
            seen, remedy = "a run or a probe uses it", "Wait until it ends, or cancel its sweep."
            raise PhoneUnavailable(f"{verb} phone {lock.name}", seen, remedy)
        yield


async def looked(server: Address, phone: str) -> PhoneResult:
    """Return the checks of a phone's state in adb's list, if it is listed. Raises RemoteFault."""
    state = await state_of(server, phone)
    return PhoneResult(checks=tuple(mode_checks(state)) if state is not None else ())


async def examined(server: Address, phone: str, use: str, policy: str, kept: str) -> PhoneResult:
    """Return the checks of a phone for a policy, while no run can begin.

    Raises RemoteFault, and PhoneUnavailable if a run or a probe is on it.
    """
    with _unused("examine", Path(use)):
        return await _examined(server, phone, Path(use).name, policy, kept)


async def _examined(
    server: Address, phone: str, device: str, policy: str, kept: str
) -> PhoneResult:
    from agents.health.examination import looked_at  # takes most of the time of this module

    remote = AdbRemote.of(Link(server, phone), OWNER)
    file = KeptFile(Path(kept), device)
    networked = is_networked(phone)
    return await looked_at(remote, phone, load_policy(policy), file, networked=networked)


async def set_up(
    server: Address, phone: str, use: str, policy: str, kept: str, *keys: str
) -> PhoneResult:
    """Set those of the keys that a policy still needs, then check the phone; see `examined`."""
    with _unused("set up", Path(use)):
        device = Path(use).name
        offers = (await _examined(server, phone, device, policy, kept)).offers
        settings = _settings(server, phone, kept, device)
        done = await settings.set([offer for offer in offers if offer.key in keys])
        after = await _examined(server, phone, device, policy, kept)
        return PhoneResult(checks=(*done, *after.checks))


async def restored(server: Address, phone: str, use: str, kept: str) -> PhoneResult:
    """Restore changed settings, while no run can begin. Raises RemoteFault, PhoneUnavailable."""
    with _unused("restore", Path(use)):
        settings = _settings(server, phone, kept, Path(use).name)
        return PhoneResult(checks=tuple(await settings.put_back()))


def _settings(server: Address, phone: str, kept: str, device: str) -> PhoneSettings:
    remote = AdbRemote.of(Link(server, phone), OWNER)
    airplane = AirplaneMode(remote, remote.folder, is_networked(phone))
    return PhoneSettings(remote, phone, KeptFile(Path(kept), device), airplane)


async def paired_with(server: Address, phone: str, code: str) -> PhoneResult:
    """Pair with a phone by the code on its screen; raises RemoteFault."""
    return PhoneResult(name=await pair(server, phone, code.strip()))


async def heard(_: Address, name: str) -> PhoneResult:
    """Return the phones that announce themselves; with a name, stop when that one does.

    Raises RemoteFault, AdbUnavailable.
    """
    return PhoneResult(announced=tuple(await listen(name="" if name == ANY else name)))


VERBS: Mapping[str, Callable[..., Awaitable[PhoneResult]]] = {
    "connect": connected,
    "disconnect": disconnected,
    "clean": cleaned,
    "examine": examined,
    "look": looked,
    "set": set_up,
    "restore": restored,
    "pair": paired_with,
    "listen": heard,
}


def handle(request: PhoneCommand, replies: Replies) -> None:
    """Answer with a PhoneResult; raises PhoneUnavailable."""
    verb, phone = request.verb, request.phone
    more = (request.secret,) if verb == "pair" else request.more

    async def do() -> PhoneResult:
        return await VERBS[verb](parse_address(request.server), phone, *more)

    try:
        replies.answer(run_until_signal(do()))
    except RemoteFault as fault:
        remedy = REMEDIES.get(fault.kind, REMEDY_OF_VERB[verb])
        if verb == "listen":
            remedy = REMEDY_OF_VERB[verb]  # the adb server isn't the agent's
        raise PhoneUnavailable(f"{TRIED[verb]} {phone}", fault.message, remedy) from fault


if __name__ == "__main__":
    sys.exit(serve(PhoneCommand, handle))
