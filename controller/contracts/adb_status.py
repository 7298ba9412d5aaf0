"""What an agent tells the command line of its host about its adb server: one small file."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from controller.contracts.base import Contract
from controller.contracts.checks import Check
from controller.contracts.error_payload import ErrorPayload

ADB_FOLDER: Final = "adb"
"""Below an agent's folder: all that belongs to its adb server."""
STATUS_FILE: Final = "status.json"
"""In it: an AdbStatus, of the agent's first adb server."""
OTHER_STATUS_FILE: Final = "status-{}.json"
"""Of each other server that it uses, numbered from 1."""
STATUS_FILES: Final = "status*.json"
USES_FOLDER: Final = "in-use"
"""Beside it: a file a phone, by device id, which is locked while a run or a probe is on the
phone."""


SETTINGS_FOLDER: Final = "settings"
"""Beside it: a file a phone, by device id, of the settings that benchfarm has changed on it."""


ANY: Final = "*"
"""In place of a name, of a phone that announces itself."""


class RouteStatus(Contract):
    """A phone as adb lists it; a phone that can be reached in two ways has two."""

    device_id: str | None = None
    """Which phone it is, if the agent may use it this way."""
    last_device_id: str | None = None
    """Which phone was last used this way, if none is now and that phone is away."""
    complaint: ErrorPayload | None = None
    """Why nothing runs on it."""
    look: int = 0
    """How often the agent had begun to look at it when this was told."""


class PhoneHere(RouteStatus):
    """A way to a phone of this host, as `benchfarm phone list` shows it."""

    adb_server: str
    serial: str
    """By which that server lists it."""


class AdbStatus(Contract):
    """An agent's adb server and what has come of the phones on it."""

    server: str | None = None
    """The path of its Unix socket, or HOST:PORT."""
    complaint: ErrorPayload | None = None
    """Why there is no server."""
    routes: dict[str, RouteStatus] = {}
    """By adb serial; a phone that is still being looked at has none."""


class Offer(Contract):
    """A setting of a phone that adb may change for a policy's sake."""

    key: str
    """NAMESPACE/KEY."""
    former: str | None
    """What it says now; None if it isn't set."""
    value: str
    """What it would say."""


class Announcement(StrEnum):
    """What a phone offers by mDNS (AOSP adb_mdns.h)."""

    CONNECT = "_adb-tls-connect"
    """Wireless debugging, to hosts it is paired with."""
    PAIR = "_adb-tls-pairing"
    """To be paired, as long as it shows a code."""
    PLAIN = "_adb"
    """As after `adb tcpip`."""


class Announced(Contract):
    """What somebody in the network says of a phone."""

    name: str
    kind: Announcement
    address: str


PhoneVerb = Literal[
    "connect", "disconnect", "pair", "look", "clean", "examine", "set", "restore", "listen"
]


class PhoneCommand(Contract):
    """What is asked of adb for a phone."""

    verb: PhoneVerb
    server: str
    """The path of the adb server's Unix socket, or HOST:PORT."""
    phone: str
    """How the server lists it, or its HOST:PORT."""
    more: tuple[str, ...] = ()
    """What the verb needs besides; see `agents/phone_command.py`."""
    secret: str = Field(default="", repr=False)
    """The code of `pair`."""


class PhoneResult(Contract):
    """What came of something that was asked of a phone."""

    freed_bytes: int = 0
    checks: tuple[Check, ...] = ()
    offers: tuple[Offer, ...] = ()
    name: str = ""
    """By which a phone that has just been paired announces itself."""
    announced: tuple[Announced, ...] = ()
