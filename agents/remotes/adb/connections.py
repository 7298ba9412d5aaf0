"""Connecting to phones over TCP, and recovering phones that adb lists as offline."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from agents.remotes.adb.addresses import Address
from agents.remotes.adb.refusals import DEVICE, SHARED, fault_of_refusal, fault_of_state
from agents.remotes.adb.smart_socket import ask, opened
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.errors import PhoneClaimedTwice

TRIES = 3
RETURN_S = 5.0
"""Seconds for a phone to return after each attempt."""
_TCP_SERIAL = re.compile(r".+:\d{1,5}")


@dataclass(frozen=True, slots=True)
class Route:
    """A connection to a phone: the adb server, and the serial by which the server lists it."""

    server: Address
    serial: str

    def __str__(self) -> str:
        return f"{self.serial} of the adb server at {self.server}"


def is_tcp(serial: str) -> bool:
    """Return whether a serial is HOST:PORT, to which adb can reconnect."""
    return _TCP_SERIAL.fullmatch(serial) is not None


def is_networked(serial: str) -> bool:
    """Return whether a phone is connected over a network, by address or by mDNS name."""
    return is_tcp(serial) or "._adb" in serial


def parse_devices(text: str) -> dict[str, str]:
    """Parse the output of `host:devices` or `host:track-devices`: serial → state.

    The state of a serial that is listed twice is SHARED.
    """
    states: dict[str, str] = {}
    for line in text.split("\n"):
        serial, tab, state = line.rstrip("\r").partition("\t")
        if tab:
            states[serial] = SHARED if serial in states else state
    return states


def without_doubles(found: Iterable[tuple[str, Route]]) -> Mapping[str, Route]:
    """Return each device id's only route; raises PhoneClaimedTwice naming both if there are two."""
    routes: dict[str, Route] = {}
    for device_id, route in found:
        if (other := routes.setdefault(device_id, route)) != route:
            raise PhoneClaimedTwice(
                f"add phone {device_id}",
                f"it is reached as {other} and as {route}",
                "Disconnect one of them, so that no two runs share the phone.",
            )
    return routes


async def state_of(server: Address, serial: str) -> str | None:
    """Return how the server lists a serial, or None; raises RemoteFault."""
    return parse_devices(await ask(server, "host:devices")).get(serial)


async def connect(server: Address, address: str, return_s: float = RETURN_S) -> None:
    """Make the server connect to a phone's HOST:PORT; raises RemoteFault."""
    try:
        async with asyncio.timeout(return_s):
            said = await ask(server, f"host:connect:{address}", address)
    except TimeoutError as error:
        raise RemoteFault(address, FaultKind.HUNG, f"no connection in {return_s:g} s") from error
    if not said.startswith(("connected to", "already connected")):
        fault = fault_of_refusal(address, said)
        unknown = fault.kind is FaultKind.PROTOCOL
        raise RemoteFault(address, FaultKind.OFFLINE, said) if unknown else fault


async def disconnect(server: Address, address: str) -> None:
    """Make the server disconnect from a phone's HOST:PORT; raises RemoteFault."""
    await ask(server, f"host:disconnect:{address}", address)


async def let_go_of(server: Address, serial: str) -> None:
    """Disconnect a silent TCP connection, so that the next one is new.

    adb keeps listing a phone that has silently left the network until TCP times out.
    """
    if is_tcp(serial):
        with suppress(RemoteFault):  # adb has noticed, too
            await disconnect(server, serial)


async def recover(server: Address, serial: str, return_s: float = RETURN_S) -> None:
    """Recover an offline phone; raises RemoteFault with its state if it stays offline.

    adb's own attempts end after a while, and an offline serial stays offline until it is
    disconnected and connected again. An unplugged cable can't be recovered.
    """
    state = await state_of(server, serial)
    fault = fault_of_state(serial, state)
    for _ in range(TRIES if is_tcp(serial) or state is not None else 0):
        if fault is None or fault.kind is not FaultKind.OFFLINE:
            break
        fault = await _try(server, serial, return_s)
    if fault is not None:
        raise fault


async def _try(server: Address, serial: str, return_s: float) -> RemoteFault | None:
    try:
        async with asyncio.timeout(return_s):
            if is_tcp(serial):
                await _reconnect_tcp(server, serial)
            else:
                await _request(server, "host:reconnect-offline", serial)
            await _wait_for_device(server, serial)
    except RemoteFault as fault:
        return fault
    except TimeoutError:
        state = await state_of(server, serial)
        listed = "does not list it" if state is None else f"lists it as {state}"
        message = f"it stays offline: it did not return in {return_s:g} s, and adb {listed}"
        seen = fault_of_state(serial, state)
        if seen is not None and seen.kind is FaultKind.OFFLINE:
            return RemoteFault(serial, FaultKind.OFFLINE, message)
        return seen
    return None


async def _reconnect_tcp(server: Address, serial: str) -> None:
    if await state_of(server, serial) is not None:
        await disconnect(server, serial)
    await connect(server, serial)


async def _request(server: Address, request: str, serial: str) -> None:
    async with opened(server) as connection:
        await connection.request(request, serial)


async def _wait_for_device(server: Address, serial: str) -> None:
    """Wait until the server reports the phone's state as `device`."""
    async with opened(server) as connection:
        await connection.request(f"host-serial:{serial}:wait-for-any-{DEVICE}", serial)
        await connection.read_exactly(4)
