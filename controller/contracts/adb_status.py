"""An agent's status file: what it tells the command line of its host about its adb server."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from controller.contracts.base import Contract
from controller.contracts.checks import Check
from controller.contracts.error_payload import ErrorPayload

ADB_FOLDER: Final = "adb"
"""Folder of an agent's adb server, relative to the agent's folder."""
STATUS_FILE: Final = "status.json"
"""File in ADB_FOLDER with the AdbStatus of the agent's first adb server."""
OTHER_STATUS_FILE: Final = "status-{}.json"
"""The same for each further adb server that the agent uses, numbered from 1."""
STATUS_FILES: Final = "status*.json"
USES_FOLDER: Final = "in-use"
"""Folder in ADB_FOLDER with one file a phone, named by device id; the file is locked while a run or
a probe uses the phone."""


SETTINGS_FOLDER: Final = "settings"
"""Folder in ADB_FOLDER with one file a phone, named by device id: the settings that benchfarm has
changed on the phone."""


ANY: Final = "*"
"""Stands for any name, in the place of the name of a phone that announces itself."""


class RouteStatus(Contract):
    """A connection to a phone as adb lists it; a phone connected in two ways has two."""

    device_id: str | None = None
    """Id of the phone, if the agent may use this connection."""
    last_device_id: str | None = None
    """Id of the phone that last used this connection, while that phone is away."""
    complaint: ErrorPayload | None = None
    """Why no run uses this connection."""
    look: int = 0
    """Number of attempts to reach the phone that the agent had begun when it wrote this."""


class PhoneHere(RouteStatus):
    """A connection to a phone of this host, as `benchfarm phone list` shows it."""

    adb_server: str
    serial: str
    """Serial by which the adb server lists the phone."""


class AdbStatus(Contract):
    """The status of an agent's adb server and of the phones connected to it."""

    server: str | None = None
    """Path of the server's Unix socket, or HOST:PORT."""
    complaint: ErrorPayload | None = None
    """Why there is no server."""
    routes: dict[str, RouteStatus] = {}
    """Connections by adb serial; a phone that the agent is still taking in has none."""


class Offer(Contract):
    """A setting of a phone that adb may change to meet a policy."""

    key: str
    """NAMESPACE/KEY."""
    former: str | None
    """The value now; None if it isn't set."""
    value: str
    """The value to set."""


class Announcement(StrEnum):
    """What a phone offers by mDNS (AOSP adb_mdns.h)."""

    CONNECT = "_adb-tls-connect"
    """Wireless debugging, for hosts that the phone is paired with."""
    PAIR = "_adb-tls-pairing"
    """Pairing, while the phone shows a pairing code."""
    PLAIN = "_adb"
    """Plain TCP, as after `adb tcpip`."""


class Announced(Contract):
    """An mDNS announcement of a phone; any host in the network can send one."""

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
    """The outcome of a command on a phone."""

    freed_bytes: int = 0
    checks: tuple[Check, ...] = ()
    offers: tuple[Offer, ...] = ()
    name: str = ""
    """The name by which a newly paired phone announces itself."""
    announced: tuple[Announced, ...] = ()
