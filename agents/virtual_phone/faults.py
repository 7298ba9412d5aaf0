"""Faults of a phone, set at its start or while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, PositiveInt, TypeAdapter, ValidationError, model_validator

from agents.virtual_phone.errors import LinkCut, PhoneOptionsInvalid
from controller.contracts.base import Contract
from controller.contracts.unreadable import reason


class Offline(Contract):
    """Connections are cut and new ones closed at once: adb lists the phone as offline."""

    kind: Literal["offline"] = "offline"


class Unauthorized(Contract):
    """The phone's user never allows this computer."""

    kind: Literal["unauthorized"] = "unauthorized"


class Hang(Contract):
    """The daemon stops reading and answering; connections stay open, commands go on."""

    kind: Literal["hang"] = "hang"


class Slow(Contract):
    """A slow cable: total bytes a second of both directions."""

    kind: Literal["slow"] = "slow"
    bytes_per_s: PositiveInt


class Disconnect(Contract):
    """The cable is unplugged once, at the given moment."""

    kind: Literal["disconnect"] = "disconnect"
    after_bytes: PositiveInt | None = None
    """After this many payload bytes of both directions since the fault was set."""
    shell_output: bool = False
    """At the first output of any command."""
    command: str | None = None
    """At the start of a command that contains this word."""
    stay_offline: bool = False
    """Afterwards the phone is offline until the faults are set again."""
    away_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    """Afterwards it is offline for this many seconds, as during a restart of the daemon."""
    silent: bool = False
    """The connection breaks silently, as when a phone leaves its network: it stays open without
    data, commands go on, and a new connection is served."""

    @model_validator(mode="after")
    def _one_moment(self) -> Self:
        if [self.after_bytes is not None, self.shell_output, bool(self.command)].count(True) != 1:
            raise ValueError("give one of after_bytes, shell_output, command")
        if [self.stay_offline, self.away_s > 0, self.silent].count(True) > 1:
            raise ValueError("give at most one of stay_offline, away_s, silent")
        return self


class FullStorage(Contract):
    """The storage is full except for this much; deleting a file frees its space."""

    kind: Literal["full_storage"] = "full_storage"
    free_bytes: Annotated[int, Field(ge=0)] = 0


class ReadOnly(Contract):
    """/data/local/tmp can't be written."""

    kind: Literal["read_only"] = "read_only"


class NoExec(Contract):
    """/data/local/tmp is mounted noexec, so programs there can't be executed."""

    kind: Literal["no_exec"] = "no_exec"


class OldDaemon(Contract):
    """The daemon of Android 5: no shell v2 (so no exit codes), no exec, small payloads."""

    kind: Literal["old_daemon"] = "old_daemon"


Fault = Annotated[
    Offline | Unauthorized | Hang | Slow | Disconnect | FullStorage | ReadOnly | NoExec | OldDaemon,
    Field(discriminator="kind"),
]
_FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)
_Kind = TypeVar("_Kind", bound=Contract)


def parse_fault(text: str) -> Fault:
    """Parse `kind` or `kind:key=value,key=value`; raises PhoneOptionsInvalid."""
    kind, _, rest = text.partition(":")
    pairs = (pair.partition("=") for pair in rest.split(",") if pair)
    try:
        return _FAULT.validate_python({"kind": kind} | {key: value for key, _, value in pairs})
    except ValidationError as error:
        remedy = "Write KIND or KIND:key=value,key=value."
        seen = reason(error).removeprefix("the whole: ")
        raise PhoneOptionsInvalid(f"read fault {text!r}", seen, remedy) from error


def find(kind: type[_Kind], faults: Sequence[Fault]) -> _Kind | None:
    """Return the fault of this kind, or None."""
    return next((fault for fault in faults if isinstance(fault, kind)), None)


def after_cut(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return the faults that remain after their Disconnect."""
    cut = find(Disconnect, faults)
    rest = tuple(fault for fault in faults if fault is not cut)
    return (*rest, Offline()) if cut and cut.stay_offline else rest


class Link:
    """The cable: delays, holds back or cuts messages by the faults."""

    def __init__(self) -> None:
        self._answering = asyncio.Event()
        self._slow: Slow | None = None
        self._disconnect: Disconnect | None = None
        self._passed = 0
        self._offline = False
        self._back_at = 0.0
        self.was_cut = False
        """Whether a Disconnect has happened."""

    @property
    def offline(self) -> bool:
        """Whether new connections are closed at once."""
        return self._offline or time.monotonic() < self._back_at

    def set(self, faults: Sequence[Fault]) -> None:
        """Apply these faults from now on; a Disconnect starts to count."""
        self._offline, self._back_at = find(Offline, faults) is not None, 0.0
        self._slow = find(Slow, faults)
        self._disconnect = find(Disconnect, faults)
        self._passed, self.was_cut = 0, False
        if find(Hang, faults):
            self._answering.clear()
        else:
            self._answering.set()

    async def carry(self, payload_bytes: int) -> None:
        """Delay a message as the faults say; called for each. Raises LinkCut if it is lost."""
        await self._answering.wait()
        if self._slow:
            await asyncio.sleep(payload_bytes / self._slow.bytes_per_s)
        self._passed += payload_bytes
        fault = self._disconnect
        if fault and fault.after_bytes is not None and self._passed >= fault.after_bytes:
            self._cut(fault)

    def command_started(self, command: str) -> None:
        """Apply faults at the start of a command; raises LinkCut."""
        fault = self._disconnect
        if fault and fault.command and fault.command in command:
            self._cut(fault)

    def command_said(self) -> None:
        """Apply faults before a command's output is sent; raises LinkCut."""
        if self._disconnect and self._disconnect.shell_output:
            self._cut(self._disconnect)

    def _cut(self, fault: Disconnect) -> None:
        self._disconnect, self.was_cut = None, True
        self._offline = self._offline or fault.stay_offline
        self._back_at = time.monotonic() + fault.away_s
        cut = LinkCut("a fault has cut it")
        cut.silent = fault.silent
        raise cut


class Plug:
    """A connection's end of a link, which may be cut silently."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._silent = False

    async def carry(self, payload_bytes: int) -> None:
        """See Link.carry; after a silent cut, it never returns."""
        if not self._silent:
            with self._silently():
                await self._link.carry(payload_bytes)
        if self._silent:
            await asyncio.get_running_loop().create_future()

    def command_started(self, command: str) -> None:
        """See Link.command_started."""
        with self._silently():
            self._link.command_started(command)

    def command_said(self) -> None:
        """See Link.command_said."""
        with self._silently():
            self._link.command_said()

    @contextmanager
    def _silently(self) -> Iterator[None]:
        try:
            yield
        except LinkCut as cut:
            if not cut.silent:
                raise
            self._silent = True
