"""One connection of an adb server to a phone: handshake, then streams."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from agents.virtual_phone.auth import TOKEN_BYTES, AuthType, Gate, parse_public_key
from agents.virtual_phone.errors import ProtocolViolation, StreamClosed
from agents.virtual_phone.faults import Link, Plug
from agents.virtual_phone.forwarding import Reverses
from agents.virtual_phone.services import Dialect, Services
from agents.virtual_phone.streams import Backlog, Service, Stream
from agents.virtual_phone.wire import (
    MIN_MAX_PAYLOAD,
    VERSION_CHECKSUM,
    VERSION_NO_CHECKSUM,
    Command,
    Message,
    encode,
    read_message,
)

MAX_STREAMS = 128
MAX_TASKS = 4 * MAX_STREAMS
MAX_DESTINATION = 1 << 18
"""Bytes; more than Linux allows for one argument of a command (MAX_ARG_STRLEN, 128 KiB)."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of a phone for a new connection."""

    dialect: Dialect
    banner: bytes
    gate: Gate
    link: Link
    env: Mapping[str, str]


class Connection:
    """Runs until the peer leaves, violates the protocol, or a fault cuts the link."""

    def __init__(
        self, terms: Terms, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._terms = terms
        self._plug = Plug(terms.link)
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._version = VERSION_CHECKSUM
        # A reconnecting adb server sends its CNXN in the version agreed before: without a checksum.
        self._version_heard = VERSION_NO_CHECKSUM
        self._max_payload = terms.dialect.max_payload
        self._streams: dict[int, Stream] = {}
        self._backlog = Backlog()
        self._last_id = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken = asyncio.get_running_loop().create_future()
        self._reverses = Reverses(self._open_to_peer)
        self._services = Services(terms.dialect, terms.env, self._plug, self._reverses)
        self.let_in = False
        """Whether the peer has authenticated, if that is required."""

    async def run(self) -> None:
        """Serve the peer until the connection ends.

        Raises ProtocolViolation, LinkCut, asyncio.IncompleteReadError or OSError, by the reason for
        its end. Leaves no stream, listener or command behind.
        """
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait({reading, self._broken}, return_when=asyncio.FIRST_COMPLETED)
            (reading if reading.done() else self._broken).result()
        finally:
            reading.cancel()
            self._broken.cancel()
            self._writer.transport.abort()
            self._reverses.close()
            self._streams.clear()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(reading, *self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        await self._shake_hands()
        while True:
            self._take(await self._receive())

    async def _shake_hands(self) -> None:
        hello = await self._receive()
        if hello.command is not Command.CNXN:
            raise ProtocolViolation(f"{hello.command.name} before CNXN")
        if hello.arg0 < VERSION_CHECKSUM or hello.arg1 < MIN_MAX_PAYLOAD:
            raise ProtocolViolation(f"version {hello.arg0:#x}, payloads of {hello.arg1} bytes")
        self._max_payload = min(self._max_payload, hello.arg1)
        if self._terms.gate.locked:
            await self._authenticate()
        self.let_in = True
        dialect = self._terms.dialect
        answer = Message(Command.CNXN, dialect.version, dialect.max_payload, self._terms.banner)
        await self._send(answer)
        self._version = self._version_heard = min(dialect.version, hello.arg0)

    async def _authenticate(self) -> None:
        while True:
            token = os.urandom(TOKEN_BYTES)
            await self._send(Message(Command.AUTH, AuthType.TOKEN, 0, token))
            said = await self._receive()
            if said.command is not Command.AUTH:
                raise ProtocolViolation(f"{said.command.name} instead of AUTH")
            if said.arg0 == AuthType.SIGNATURE:
                if self._terms.gate.knows(token, said.payload):
                    return
            elif said.arg0 == AuthType.RSA_PUBLIC_KEY:
                await self._ask(_key(said.payload))
                return
            else:
                raise ProtocolViolation(f"AUTH of type {said.arg0}")

    async def _ask(self, key: RSAPublicKey) -> None:
        # The peer sends nothing meanwhile, so data means its end.
        asking = asyncio.create_task(self._terms.gate.ask(key))
        hearing = asyncio.create_task(self._receive())
        try:
            await asyncio.wait({asking, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                raise ProtocolViolation(f"{hearing.result().command.name} before being let in")
        finally:
            asking.cancel()
            hearing.cancel()
            await asyncio.gather(asking, hearing, return_exceptions=True)

    def _take(self, message: Message) -> None:
        match message.command:
            case Command.OPEN:
                self._open(message)
            case Command.OKAY | Command.WRTE | Command.CLSE:
                self._pass_on(message)
            case Command.SYNC:
                return
            case _:
                raise ProtocolViolation(f"{message.command.name} after the handshake")

    def _open(self, message: Message) -> None:
        if message.arg0 == 0 or len(message.payload) > MAX_DESTINATION:
            raise ProtocolViolation(f"OPEN {message.arg0} of {len(message.payload)} bytes")
        destination = message.payload.split(b"\0", 1)[0].decode(errors="surrogateescape")
        self._start(self._serve_open(message.arg0, destination))

    async def _serve_open(self, remote_id: int, destination: str) -> None:
        full = len(self._streams) >= MAX_STREAMS
        service = None if full else await self._services.find(destination)
        if service is None:
            await self._send(Message(Command.CLSE, 0, remote_id))
            return
        stream = self._new_stream(remote_id)
        await self._send(Message(Command.OKAY, stream.local_id, remote_id))
        await self._serve(stream, service)

    async def _open_to_peer(self, destination: str, service: Service) -> None:
        if len(self._streams) >= MAX_STREAMS:
            return
        stream = self._new_stream(0)
        payload = destination.encode(errors="surrogateescape") + b"\0"

        async def serve() -> None:
            await self._send(Message(Command.OPEN, stream.local_id, 0, payload))
            try:
                await stream.accepted()
            except StreamClosed:
                return
            await self._serve(stream, service)

        await asyncio.wait({self._start(serve())})

    async def _serve(self, stream: Stream, service: Service) -> None:
        try:
            await service(stream)
        except StreamClosed:
            pass
        finally:
            stream.drop()
            if self._streams.pop(stream.local_id, None):
                close = Message(Command.CLSE, stream.local_id, stream.remote_id)
                await self._send(close)

    def _pass_on(self, message: Message) -> None:
        stream = self._streams.get(message.arg1)
        if stream is None:
            return  # crossed with our CLSE
        if message.command is Command.WRTE:
            stream.deliver(message.payload)
        elif message.command is Command.OKAY:
            stream.acknowledge(message.arg0)
        else:
            del self._streams[stream.local_id]
            stream.end()
            self._start(self._send(Message(Command.CLSE, stream.local_id, stream.remote_id)))

    def _new_stream(self, remote_id: int) -> Stream:
        self._last_id += 1
        stream = Stream(self._last_id, remote_id, self._send, self._max_payload, self._backlog)
        self._streams[stream.local_id] = stream
        return stream

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if len(self._tasks) >= MAX_TASKS:
            work.close()
            raise ProtocolViolation("more requests than answers were read")
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _receive(self) -> Message:
        message = await read_message(self._reader, self._max_payload, self._version_heard)
        await self._plug.carry(len(message.payload))
        return message

    async def _send(self, message: Message) -> None:
        async with self._writing:
            await self._plug.carry(len(message.payload))
            self._writer.write(encode(message, self._version))
            await self._writer.drain()


def _key(payload: bytes) -> RSAPublicKey:
    try:
        return parse_public_key(payload)
    except ValueError as error:
        raise ProtocolViolation(f"AUTH with no public key: {error}") from error
