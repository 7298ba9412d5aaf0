"""The services that a phone opens for a peer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.virtual_phone import forwarding, shell, sync
from agents.virtual_phone.faults import Plug
from agents.virtual_phone.streams import Service, Stream
from agents.virtual_phone.wire import (
    MAX_PAYLOAD,
    MIN_MAX_PAYLOAD,
    VERSION_CHECKSUM,
    VERSION_NO_CHECKSUM,
)

_WORDS = {
    "root": "adbd cannot run as root in production builds",
    "unroot": "adbd not running as root",
    "tcpip": "a virtual phone stays on the port that it listens on",
    "usb": "a virtual phone has no USB",
}
"""Answers to requests to restart the daemon in another mode, in a line, like adbd's services.cpp on
a production phone."""
_SOCKETS = ("tcp", "localabstract", "localfilesystem", "local")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The protocol features of a daemon's generation."""

    version: int
    max_payload: int
    features: tuple[str, ...]
    """Features in the CNXN banner, which tells adb what it may use."""
    old: bool

    @classmethod
    def of(cls, *, old: bool) -> Dialect:
        """Return the dialect of Android 5, or the present one."""
        if old:
            return cls(VERSION_CHECKSUM, MIN_MAX_PAYLOAD, (), old=True)
        features = ("shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir", "sendrecv_v2")
        return cls(VERSION_NO_CHECKSUM, MAX_PAYLOAD, features, old=False)


@dataclass(frozen=True, slots=True)
class Services:
    """The services of a connection."""

    dialect: Dialect
    env: Mapping[str, str]
    """The environment of commands."""
    plug: Plug
    reverses: forwarding.Reverses

    async def find(self, destination: str) -> Service | None:
        """Return the service for a destination; None if there is none, so that the OPEN is
        refused."""
        kind = destination.partition(":")[0].partition(",")[0]
        if kind == "shell":
            return self._run(shell.parse_shell(destination, old=self.dialect.old))
        if kind == "exec" and not self.dialect.old:
            return self._run(shell.parse_exec(destination))
        if kind in _WORDS:
            return _saying(_WORDS[kind])
        if kind == "sync":
            return lambda stream: sync.serve(stream, v2=not self.dialect.old)
        if kind == "reverse":
            request = destination.partition(":")[2]
            return lambda stream: self.reverses.serve(stream, request)
        if kind in _SOCKETS:
            try:
                return await forwarding.connect(destination)
            except OSError:
                return None
        return None

    def _run(self, command: shell.Command) -> Service:
        async def service(stream: Stream) -> None:
            await shell.serve(stream, command, dict(self.env), self.plug)

        return service


def _saying(words: str) -> Service:
    async def service(stream: Stream) -> None:
        await stream.write(f"{words}\n".encode())

    return service
