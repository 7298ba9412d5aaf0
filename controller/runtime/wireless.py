"""Wireless debugging on this host: pairing with phones, and listing those nearby."""

from __future__ import annotations

from collections.abc import Collection

from controller.contracts.adb_status import ANY, Announced, Announcement, PhoneHere
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import PhoneUnavailable, UserError
from controller.runtime.adb_agents import agents_here, chosen
from controller.runtime.home import Home

_STEPS = {
    Announcement.CONNECT: "If it is paired, run `benchfarm phone connect {}`.",
    Announcement.PAIR: "Run `benchfarm phone pair {}`.",
    Announcement.PLAIN: "Run `benchfarm phone connect {}`.",
}
"""What to do with a phone that announces itself; {} is its address."""


def pair_phone(home: Home, address: str, code: str, server: str | None = None) -> str | None:
    """Pair this host's agent with a phone; return the address to connect to, if announced.

    address: the HOST:PORT that the phone shows beside the code. Raises PhoneUnavailable,
    FarmUnavailable, UserError.
    """
    tried = f"pair phone {address}"
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
        remedy = "Write HOST:PORT as the phone shows it under 'Pair device with pairing code'."
        raise UserError(tried, "it is not HOST:PORT", remedy)
    agent = chosen(tried, agents_here(home), server)
    name = agent.ask("pair", address, secret=f"{code}\n").name
    try:
        found = agent.ask("listen", name).announced
    except PhoneUnavailable:  # it is paired; its screen shows its address, too
        return None
    return next(
        (one.address for one in found if one.kind is Announcement.CONNECT and one.name == name),
        None,
    )


def nearby_phones(home: Home, known: Collection[str]) -> list[PhoneHere]:
    """Listen for phones that announce themselves; return those with an unknown address.

    Raises PhoneUnavailable, FarmUnavailable.
    """
    agent = agents_here(home)[0]
    found = agent.ask("listen", ANY).announced
    return [_shown(one) for one in found if one.address not in known]


def _shown(one: Announced) -> PhoneHere:
    tried = f"use phone {one.name!r}"
    seen, remedy = (
        "it announces itself here, but is not connected",
        _STEPS[one.kind].format(one.address),
    )
    complaint = ErrorPayload.of(PhoneUnavailable(tried, seen, remedy))
    return PhoneHere(adb_server="mDNS", serial=one.address, complaint=complaint)
