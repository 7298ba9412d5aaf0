"""Downloading one file by HTTP into an unfinished one, which is continued after a cut.

A download goes on from where it was by a range request (RFC 9110, section 14), on condition that
the file at the server is the same one (If-Range, section 13.1.5). If the content's checksum is
known, that condition may be missing, since the checksum decides at the end.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from socket import inet_aton
from typing import Final

import httpx

from controller.contracts.errors import UserError
from controller.contracts.version import installed_version
from models.mobile.fetching.partial import (
    AGAIN,
    append,
    forget,
    keep_validator,
    opened,
    require_room,
    size_here,
    validator_of,
)

OnBytes = Callable[[int, int | None], None]
"""Called with the bytes that are here, and those of the whole if known."""
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of servers that may answer later."""
_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")
_LOCAL_NAME: Final = re.compile(r"(.*\.)?localhost\.?")
"""Names of this host (RFC 6761, section 6.3)."""


class Unreachable(UserError):
    """A server to which there is no connection."""


class NotServed(UserError):
    """A file that a server does not have, or does not give."""


class _Cut(Exception):
    """A download that ended early, and may be continued."""


class _Other(Exception):
    """What is here does not continue: the download begins anew."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often is tried."""

    timeout_s: float = 30.0
    """To connect, and for the next bytes."""
    redirects: int = 5
    tries: int = 5
    """Tries in a row that bring no byte more than there was."""
    pause_s: float = 2.0
    """Before the next try; doubled after each that brings nothing: a minute in all."""
    largest: int = 1 << 37
    """Bytes of the largest file: a server may send without end."""


def new_client(limits: Limits) -> httpx.Client:
    """Return a client; proxies and certificates are those of the environment.

    Raises UserError if these can't be used.
    """
    headers = {
        "Accept-Encoding": "identity",  # ranges and checksums are of the file itself
        "User-Agent": f"benchfarm/{installed_version()}",
    }
    try:
        return httpx.Client(headers=headers, timeout=limits.timeout_s)
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
        remedy = "Correct the variables of the environment: HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE."
        raise UserError("fetch over the network", _why(error), remedy) from error


def is_allowed(url: httpx.URL, origin: httpx.URL | None = None) -> bool:
    """Return whether a file may come from an address; origin: what redirects to it.

    https may always be. http: this host, and what a mirror is or redirects to that is http itself,
    because its user has chosen that. Nobody else's server may send us to a service of this host.
    """
    here = _is_this_host(url.host)
    if origin is None:
        return url.scheme == "https" or (url.scheme == "http" and here)
    from_here = _is_this_host(origin.host)
    if here and not from_here:
        return False
    if url.scheme == "https":
        return True
    return url.scheme == origin.scheme == "http" and here == from_here


def _is_this_host(host: str) -> bool:
    """Return whether a host is this one, however its address is written.

    Other names are not looked up, although one may lead here.
    """
    if _LOCAL_NAME.fullmatch(host):
        return True
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        try:
            address = IPv4Address(inet_aton(host))  # 127.1 or 0x7f000001, as resolvers read it
        except OSError:
            return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    address = mapped or address
    return address.is_loopback or address.is_unspecified


def download(
    client: httpx.Client, url: str, part: Path, limits: Limits, on_bytes: OnBytes, *, known: bool
) -> bool:
    """Download a file, going on from what `part` has; return whether it is of several pieces.

    known: whether the caller has the content's checksum. Raises Unreachable, NotServed, and another
    UserError if it can't be written; what is here is kept then.
    """
    pieces = reached = False
    failed, most = 0, size_here(part)
    while True:
        pieces |= size_here(part) > 0
        try:
            _continue(client, url, part, limits, on_bytes, known=known)
            return pieces
        except _Other:
            part.unlink(missing_ok=True)
            seen = "its ranges do not fit each other"
        except _Cut as cut:
            seen = str(cut)
        except Unreachable as error:
            if not reached:
                raise
            seen = error.seen
        reached = True
        failed = 0 if size_here(part) > most else failed + 1
        most = max(most, size_here(part))
        if failed >= limits.tries:
            raise NotServed(
                f"fetch {without_password(url)}", f"{seen}, {failed} times in a row", AGAIN
            )
        time.sleep(limits.pause_s * 2**failed)


def size_of(client: httpx.Client, url: str, limits: Limits) -> int | None:
    """Return the bytes of a file if its server says so; raises Unreachable."""
    try:
        with _opened(client, "HEAD", url, {}, limits) as response:
            length = response.headers.get("Content-Length", "")
            return int(length) if response.status_code == 200 and length.isdecimal() else None
    except (_Cut, NotServed):
        return None


def _continue(
    client: httpx.Client, url: str, part: Path, limits: Limits, on_bytes: OnBytes, *, known: bool
) -> None:
    """Ask once for what is missing, and append it; raises _Cut or _Other if that is not all."""
    validator = validator_of(part, url)
    if not (known or validator):
        part.unlink(missing_ok=True)
    start = size_here(part)
    asked = {"Range": f"bytes={start}-"} if start else {}
    if start and validator:
        asked["If-Range"] = validator
    with _opened(client, "GET", url, asked, limits) as response:
        if response.status_code == 416 and start:
            if response.headers.get("Content-Range") == f"bytes */{start}":
                on_bytes(start, start)
                return
            raise _Other
        start, total = _place(response, start, url)
        keep_validator(part, url, response)
        with opened(part, start) as file:
            require_room(part, start, total)
            on_bytes(start, total)
            for chunk in response.iter_raw():
                append(file, chunk, part)
                start += len(chunk)
                if start > (limits.largest if total is None else total):
                    forget(part)
                    raise _endless(url, total)
                on_bytes(start, total)
            os.fsync(file)
    if total is not None and start < total:
        raise _Cut(f"it ended after {start} of {total} bytes")


def _endless(url: str, total: int | None) -> NotServed:
    said = "it has no end" if total is None else f"it sends more than the {total} bytes it says"
    return NotServed(f"fetch {without_password(url)}", said, "Use --from with another mirror.")


def _place(response: httpx.Response, start: int, url: str) -> tuple[int, int | None]:
    """Return where the answer's bytes belong, and the bytes of the whole, if known."""
    status = response.status_code
    if status == 200:  # also of a server that knows no ranges, or has another file now
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    if status == 206 and start:
        said = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        total = None if said is None or said[2] == "*" else int(said[2])
        if said is None or int(said[1]) != start or (total is not None and total < start):
            raise _Other
        return start, total
    if status in _RETRIED:
        raise _Cut(f"the server answered {status}")
    seen = f"the server answered {status}"
    raise NotServed(f"fetch {without_password(url)}", seen, "Use --from with a mirror that has it.")


@contextmanager
def _opened(
    client: httpx.Client, method: str, url: str, headers: dict[str, str], limits: Limits
) -> Iterator[httpx.Response]:
    """Open an address, and those it redirects to; raises Unreachable, NotServed, _Cut."""
    try:
        request = client.build_request(method, url, headers=headers)
        for _ in range(limits.redirects + 1):
            response = client.send(request, stream=True)
            try:
                if response.next_request is None:
                    yield response
                    return
                request = _allowed(response.next_request, httpx.URL(url))
            finally:
                response.close()
        seen = f"it redirects more than {limits.redirects} times"
        raise NotServed(f"fetch {without_password(url)}", seen, "Use --from with a mirror.")
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        seen = f"no connection to {request.url.host}: {_why(error)}"
        raise Unreachable(f"fetch {without_password(url)}", seen, AGAIN) from error
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise _Cut(_why(error)) from error
    except (httpx.InvalidURL, httpx.RequestError) as error:
        raise NotServed(
            f"fetch {without_password(url)}", _why(error), "Use --from with a mirror."
        ) from error


def _allowed(request: httpx.Request, origin: httpx.URL) -> httpx.Request:
    if not is_allowed(request.url, origin):
        what = "this host" if request.url.scheme == "https" else "not https"
        seen = f"it redirects to {without_password(request.url)}, which is {what}"
        raise NotServed(f"fetch {without_password(origin)}", seen, "Use --from with a mirror.")
    return request


def without_password(url: str | httpx.URL) -> str:
    """Return an address as it may be shown."""
    return str(httpx.URL(url).copy_with(username=None, password=None))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
