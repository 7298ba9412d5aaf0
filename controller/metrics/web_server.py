"""An HTTP server that stays available whatever peers without a token send.

Such a peer costs a bounded amount of time, memory, connections and log: the head of a request must
arrive in time, bodies are never decompressed, the body of a refused request is not read, and a full
server drops the oldest connection without a token from the peer that has most of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from controller.contracts.errors import UserError
from controller.metrics.in_parts import InParts

log = logging.getLogger(__name__)
HEAD_TIMEOUT_S: Final = 10.0
"""Time limit for a connection to send the head of its next request."""
MAX_WITHOUT_TOKEN: Final = 64
"""Most connections on which no request with a token is being served."""
MAX_PER_CALLER: Final = 64
"""Most concurrent requests with one token."""
MAX_HEADERS: Final = 32
RECEIVE_BUFFER_BYTES: Final = 2**15
"""Size of the kernel's buffer for each connection."""
UNKNOWN_PEER_BYTES: Final = 2**11
"""Bytes of a peer without a token that are parsed at once: small chunks are slow to parse."""
CALLER_BYTES: Final = 2**16
END_S: Final = 60.0
SEND_S: Final = 300.0
"""Time limit for a peer to read an answer, which is in memory until then."""
BACKLOG: Final = 128
LINGER_S: Final = 1.0
MAX_DISCARDED_BYTES: Final = 2**21
"""Bytes of a refused request that are read and dropped, so that the sender gets to read the
answer."""
ACCEPT_PAUSE_S: Final = 1.0
"""Pause after a connection could not be accepted, such as for lack of file descriptors."""
LOG_PERIOD_S: Final = 60.0
"""Period in which each cause is logged once."""


class TooManyRequests(UserError):
    """Too many open requests of one caller."""


class OncePerPeriod(logging.Filter):
    """A filter that passes one record for each cause and period, with the number left out."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._period_s = period_s
        self._clock = clock
        self._logged: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter; a cause is a message without its arguments, or an exception's
        type."""
        cause = (record.msg, record.exc_info and record.exc_info[0])
        now = self._clock()
        last, left_out = self._logged.get(cause, (now - self._period_s, 0))
        if now - last < self._period_s:
            self._logged[cause] = (last, left_out + 1)
            return False
        self._logged[cause] = (now, 0)
        if left_out:
            record.msg = f"{record.msg} (and {left_out} times since the last such line)"
        return True


def once_per_period(parent: logging.Logger) -> logging.Logger:
    """Return a new logger whose records reach another one once for each cause and period."""
    quiet = logging.Logger(parent.name)
    quiet.parent = parent
    quiet.addFilter(OncePerPeriod(LOG_PERIOD_S))
    return quiet


class WithoutRequests(logging.Filter):
    """A filter that leaves out what aiohttp repeats of a malformed request: it may be a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.exc_info, record.exc_text = None, None
            record.msg = f"{record.msg}: it is no proper HTTP ({type(error).__name__})"
        return True


def surplus(peers: Sequence[str], limit: int) -> int | None:
    """Return the index of the connection to drop, or None; peers: of the connections, oldest
    first."""
    if len(peers) <= limit:
        return None
    ((fullest, _),) = Counter(peers).most_common(1)
    return peers.index(fullest)


@dataclass(slots=True)
class Connections:
    """The connections of one server, oldest first, and the caller served on each."""

    log: logging.Logger
    limit: int
    send_s: float = SEND_S
    _peers: dict[asyncio.Transport, str] = field(default_factory=dict)
    _callers: dict[asyncio.Transport, str] = field(default_factory=dict)

    def add(self, transport: asyncio.Transport, peer: str) -> None:
        """Add a new connection; drop another one if there are too many."""
        self._peers[transport] = peer
        if len(self._peers) - len(self._callers) <= self.limit:
            return
        self._peers = {t: p for t, p in self._peers.items() if not t.is_closing()}
        waiting = [t for t in self._peers if t not in self._callers]
        index = surplus([self._peers[t] for t in waiting], self.limit)
        if index is not None:
            dropped = waiting[index]
            peer = self._peers.pop(dropped)
            self.log.warning(
                "more than %d connections without a token; dropped one of %s", self.limit, peer
            )
            dropped.abort()

    @contextmanager
    def served(self, transport: asyncio.Transport | None, caller: str) -> Iterator[None]:
        """Keep a connection while a caller's request is served on it.

        Raises TooManyRequests.
        """
        if transport is None:  # closed meanwhile
            yield
            return
        if sum(other == caller for other in self._callers.values()) >= MAX_PER_CALLER:
            raise TooManyRequests(
                f"serve a request of {caller}",
                f"{MAX_PER_CALLER} requests with the same token are open",
                "End some of them, such as `benchfarm sweep watch`.",
            )
        self._callers[transport] = caller
        _read_at_once(transport, CALLER_BYTES)
        try:
            yield
        finally:
            del self._callers[transport]
            _read_at_once(transport, UNKNOWN_PEER_BYTES)
            if peer := self._peers.pop(transport, None):
                self._peers[transport] = peer  # now the youngest: its answer may still be under way


def _read_at_once(transport: asyncio.Transport, size: int) -> None:
    """Limit the bytes that are parsed from a peer at once."""
    protocol = None if transport.is_closing() else transport.get_protocol()
    if isinstance(protocol, InParts):
        protocol.limit(size)


CONNECTIONS: Final = web.AppKey("connections", Connections)


@dataclass(frozen=True, slots=True)
class WebServer:
    """A listening server; serves until it is cleaned up or the event loop ends."""

    runner: web.AppRunner
    listener: socket.socket
    accepting: asyncio.Task[None]

    @property
    def address(self) -> tuple[str, int]:
        """Return the address on which it listens."""
        host, port = self.listener.getsockname()[:2]
        return host, port

    async def cleanup(self) -> None:
        """Stop listening, and end the requests being served."""
        self.accepting.cancel()
        with suppress(asyncio.CancelledError):
            await self.accepting
        self.listener.close()
        await self.runner.cleanup()


def listen(address: str, port: int = 0, family: int = socket.AF_INET) -> socket.socket:
    """Return a socket that listens; port 0: a free one. Raises OSError."""
    listener = socket.create_server((address, port), family=family, backlog=BACKLOG)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    listener.setblocking(False)
    return listener


async def serve(
    app: web.Application,
    listener: socket.socket,
    head_timeout_s: float = HEAD_TIMEOUT_S,
    *,
    handler_cancellation: bool = False,
    tls: ssl.SSLContext | None = None,
    end_s: float = END_S,
    send_s: float = SEND_S,
) -> WebServer:
    """Serve an application whose middleware calls `answered` once it knows the caller.

    handler_cancellation: see web.AppRunner. tls: the server's side of TLS; None: without. end_s:
    for how long a cleanup waits for requests under way. send_s: time limit to read an answer.
    """
    quiet = once_per_period(log)
    quiet.addFilter(WithoutRequests())  # after it, which tells causes apart by their exceptions
    app[CONNECTIONS] = connections = Connections(quiet, MAX_WITHOUT_TOKEN, send_s)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=quiet,
        auto_decompress=False,
        keepalive_timeout=head_timeout_s,  # which aiohttp also counts from a connection's start
        lingering_time=LINGER_S,
        max_headers=MAX_HEADERS,
        handler_cancellation=handler_cancellation,
        shutdown_timeout=end_s,
    )
    await runner.setup()
    assert runner.server is not None
    beginnings = Beginnings(runner.server, connections, tls, head_timeout_s)
    accepting = asyncio.get_running_loop().create_task(_accept(listener, beginnings))
    return WebServer(runner, listener, accepting)


@dataclass(slots=True)
class Beginnings:
    """Connections that are accepted but not yet served: with TLS, their handshakes are under way.

    A peer that delays its handshake delays no other; of too many, the oldest one of the peer that
    has most is dropped.
    """

    server: web.Server
    connections: Connections
    tls: ssl.SSLContext | None
    timeout_s: float
    _under_way: dict[asyncio.Task[None], str] = field(default_factory=dict)

    async def begin(self, connection: socket.socket, peer: str) -> None:
        """Serve a connection, at once or after its handshake. Raises OSError."""
        if self.tls is None:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(self._protocol, connection)
            self.connections.add(transport, peer)
            return
        task = asyncio.create_task(self._shake_hands(connection, peer, self.tls))
        self._under_way[task] = peer
        task.add_done_callback(partial(self._over, connection))
        waiting = [one for one in self._under_way if not one.cancelling()]
        index = surplus([self._under_way[one] for one in waiting], self.connections.limit)
        if index is not None:
            waiting[index].cancel()

    def _over(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        if task.cancelled():
            connection.close()  # a task that never began has not

    def end(self) -> None:
        """End all handshakes."""
        for task in self._under_way:
            task.cancel()

    def _protocol(self) -> InParts:
        return InParts(self.server(), UNKNOWN_PEER_BYTES)

    async def _shake_hands(self, connection: socket.socket, peer: str, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(
                self._protocol, connection, ssl=tls, ssl_handshake_timeout=self.timeout_s
            )
        except OSError:  # also those of TLS, and of time
            self.connections.log.warning("no TLS handshake with %s", peer)
        else:
            self.connections.add(transport, peer)


async def _accept(listener: socket.socket, beginnings: Beginnings) -> None:
    # asyncio's own server accepts any number of connections, and logs every lack of a descriptor.
    loop = asyncio.get_running_loop()
    try:
        while True:
            try:
                connection, (peer, *_) = await loop.sock_accept(listener)
                await beginnings.begin(connection, str(peer))
            except OSError as error:
                log_of = beginnings.connections.log
                log_of.warning("cannot accept a connection: %s", error.strerror)
                await asyncio.sleep(ACCEPT_PAUSE_S)
    finally:
        beginnings.end()


async def answered(request: web.Request, caller: str, handler: Handler) -> web.StreamResponse:
    """Return the answer to a request with a valid token; it has been sent by then.

    caller: the token's user. Raises TooManyRequests.
    """
    with request.app[CONNECTIONS].served(request.transport, caller):
        return await _sent(request, await handler(request))


async def answered_openly(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the answer to a request that needs no token; it has been sent by then.

    Its connection stays one without a token: of too many, it may be dropped.
    """
    return await _sent(request, await handler(request))


async def _sent(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    connections = request.app[CONNECTIONS]
    with suppress(ConnectionError):  # the peer has left, which aiohttp notices, too
        try:
            async with asyncio.timeout(connections.send_s):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            drop_unread(request)
    return response


def drop_unread(request: web.Request) -> None:
    """Cut the connection of a peer that has not read its answer in time."""
    request.app[CONNECTIONS].log.warning("%s has not read its answer in time", request.remote)
    if request.transport:
        request.transport.abort()


async def turned_away(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Return the answer to a request without a valid token; its connection is closed."""
    request.app[CONNECTIONS].log.warning("no valid token in a request from %s", request.remote)
    response.force_close()
    await _sent(request, response)
    if request.transport and not request.content.is_eof():
        await _discard(request.transport, request.protocol)
    return response


class _Discarding(asyncio.Protocol):
    """Reads and drops data until it ends or a limit is reached."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.lost = False
        self._left = MAX_DISCARDED_BYTES

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.eof_received()

    def eof_received(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = True
        self.eof_received()


async def _discard(transport: asyncio.Transport, protocol: web.RequestHandler) -> None:
    """End a connection without parsing further data, as aiohttp would."""
    usual, discarding = transport.get_protocol(), _Discarding()
    transport.set_protocol(discarding)
    transport.resume_reading()
    try:
        async with asyncio.timeout(LINGER_S):
            await discarding.ended
    except TimeoutError:
        pass  # it keeps sending, and may miss the answer
    finally:
        transport.set_protocol(usual)
        if discarding.lost:
            protocol.connection_lost(None)
        protocol.force_close()
