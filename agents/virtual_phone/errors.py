"""The errors of virtual phones.

UserError
├── PhoneOptionsInvalid   a profile, fault or core list that can't be read or met
├── PhoneUnconfined       this system lets us make no namespaces to keep a phone in
└── PhoneNotRunning       the phone did not start, or its process has ended
ProtocolViolation         a peer sent what the adb protocol forbids; ends its connection
LinkCut                   a fault cuts the connection
StreamClosed              the other side has closed the stream
"""

from __future__ import annotations

from controller.contracts.errors import UserError


class PhoneOptionsInvalid(UserError):
    """A profile, fault or core list that can't be read or met."""


class PhoneUnconfined(UserError):
    """This system lets us make no namespaces to keep a phone in."""


class PhoneNotRunning(UserError):
    """The phone did not start, or its process has ended."""


class ProtocolViolation(Exception):
    """A peer sent what the adb protocol forbids; ends its connection."""


class LinkCut(Exception):
    """A fault cuts the connection."""

    silent: bool = False
    """Nobody is told: the connection stays, and carries nothing."""


class StreamClosed(Exception):
    """The other side has closed the stream."""
