"""The control interface of a running phone: JSON lines over a Unix socket in its folder."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from agents.virtual_phone.errors import PhoneNotRunning, PhoneOptionsInvalid
from agents.virtual_phone.faults import Fault
from agents.virtual_phone.thermal import ThermalStatus
from controller.contracts.base import Contract
from controller.contracts.unreadable import reason

SOCKET = "control.sock"
MAX_LINE = 1 << 16


class GetStatus(Contract):
    """A request for the phone's status."""

    op: Literal["status"] = "status"


class SetFaults(Contract):
    """A request to replace all faults of the phone."""

    op: Literal["set_faults"] = "set_faults"
    faults: tuple[Fault, ...]


class SetConditions(Contract):
    """A request to set the phone's conditions, from which its models continue; None: unchanged."""

    op: Literal["set_conditions"] = "set_conditions"
    battery_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    charging: bool | None = None
    temperatures_c: dict[str, float] = {}
    """By name of the zone."""


class AllowHost(Contract):
    """A request to allow the phone's open question "Allow USB debugging?"."""

    op: Literal["allow_host"] = "allow_host"


Request = Annotated[GetStatus | SetFaults | SetConditions | AllowHost, Field(discriminator="op")]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)


class PhoneStatus(Contract):
    """The answer to every request: the phone's status."""

    serial: str
    faults: tuple[Fault, ...]
    connections: int
    asking: int
    """Number of hosts that wait to be allowed."""
    battery_percent: float
    charging: bool
    temperatures_c: dict[str, float]
    thermal_status: ThermalStatus
    cpu_s: float
    """CPU seconds used by its processes."""
    processes: int
    """Live processes of its commands."""
    storage_free_bytes: int


class Refusal(Contract):
    """The answer to a request that could not be met; nothing was changed."""

    refused: str


_ANSWER: TypeAdapter[PhoneStatus | Refusal] = TypeAdapter(PhoneStatus | Refusal)
Answer = Callable[[Request], PhoneStatus]


def listen(folder: Path) -> socket.socket:
    """Return the socket of a phone's folder, listening; raises OSError."""
    control = socket.socket(socket.AF_UNIX)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        (folder / SOCKET).unlink(missing_ok=True)
        control.bind(_address(directory))
        control.listen()
    finally:
        os.close(directory)
    return control


async def serve(control: socket.socket, answer: Answer) -> asyncio.Server:
    """Answer requests from now on; `answer` raises OSError or ValueError to refuse one."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            try:
                said: PhoneStatus | Refusal = answer(REQUEST.validate_json(line))
            except (OSError, ValueError) as error:
                said = Refusal(refused=str(error))
            writer.write(said.model_dump_json().encode() + b"\n")
            await writer.drain()
        except (ValueError, ConnectionError):  # a line over the limit, or the peer is gone
            return
        finally:
            writer.close()

    return await asyncio.start_unix_server(accepted, sock=control, limit=MAX_LINE)


async def ask(folder: Path, request: Request) -> PhoneStatus:
    """Send one request to the phone of this folder.

    Raises PhoneNotRunning if nobody answers, PhoneOptionsInvalid if the phone refuses.
    """
    tried = f"ask the virtual phone in {folder} for {request.op}"
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            reader, writer = await asyncio.open_unix_connection(_address(directory), limit=MAX_LINE)
        finally:
            os.close(directory)
        try:
            writer.write(request.model_dump_json().encode() + b"\n")
            line = await reader.readline()
        finally:
            writer.close()
        said = _ANSWER.validate_json(line)
    except (OSError, ValidationError) as error:
        seen = f"no answer ({reason(error)})"
        raise PhoneNotRunning(tried, seen, "Start it, or read its phone.log.") from error
    if isinstance(said, Refusal):
        raise PhoneOptionsInvalid(tried, said.refused, "Correct the request.")
    return said


def _address(directory: int) -> str:
    # A socket's path may have 107 bytes; that of a folder may be longer.
    return f"/proc/self/fd/{directory}/{SOCKET}"
