"""Addresses that users give: of a head, an adb server, a web server."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from controller.contracts.errors import UserError

PORT = 6379
"""Ray's default port of a head."""


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address and a port; of IPv6 only where a command can listen on it."""

    host: str
    port: int

    @classmethod
    def parse(cls, option: str, text: str, port: int | None = PORT) -> Address:
        """Parse HOST:PORT, or HOST if `port` is given; raises UserError, naming the option."""
        name, _, given = text.partition(":")
        digits = given or str(port)
        try:
            if not (name and digits.isascii() and digits.isdigit() and 0 < int(digits) < 1 << 16):
                raise ValueError("it is not HOST:PORT")
            number = int(digits)
            host = socket.getaddrinfo(name, number, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
            if ipaddress.ip_address(host).is_unspecified:
                raise ValueError("nobody can connect to that address")
        except (ValueError, OSError) as error:
            seen = getattr(error, "strerror", None) or str(error)
            usual = f", with :PORT if it is not {port}" if port else " and :PORT"
            remedy = f"Write an IP address or a name{usual}."
            raise UserError(f"use {option} {text!r}", seen, remedy) from error
        return cls(str(host), number)

    @classmethod
    def to_listen(cls, option: str, text: str) -> Address:
        """Parse IP:PORT or [IPv6]:PORT of this host; raises UserError, naming the option."""
        inner, bracket, port = text.removeprefix("[").partition("]:")
        if not (text.startswith("[") and bracket):
            return cls.parse(option, text, port=None)
        number = cls.parse(option, f"127.0.0.1:{port}", port=None).port
        try:
            host = ipaddress.IPv6Address(inner)
        except ValueError as error:
            remedy = "Write an IPv6 address in brackets and :PORT, such as [fd00::5]:8443."
            raise UserError(f"use {option} {text!r}", "it is no IPv6 address", remedy) from error
        if host.is_unspecified or host.scope_id:
            remedy = "Write an address of this host, such as [fd00::5]:8443."
            seen = "nobody can connect to that address"
            if host.scope_id:
                seen = "an address with a zone means something on this host only"
            raise UserError(f"use {option} {text!r}", seen, remedy)
        return cls(str(host), number)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def require_free(self, option: str) -> None:
        """Raise UserError unless this host can listen here now."""
        try:
            here = (self.host, self.port)
            socket.create_server(here, family=family_of(self.host)).close()
        except OSError as error:
            remedy = "Give an IP address of this host and a free port."
            seen = os.strerror(error.errno) if error.errno else str(error)
            raise UserError(f"use {option} {self}", seen, remedy) from error

    def own_address(self) -> str:
        """Return the address this host uses to reach it; raises OSError if there is no route."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((self.host, self.port))  # sends nothing
            return str(probe.getsockname()[0])


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of an IP address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def adb_server_address(option: str, text: str) -> str:
    """Return HOST:PORT, or the path of a Unix socket; raises UserError, naming the option."""
    if not text.startswith("/"):
        return str(Address.parse(option, text, port=None))
    if text.endswith("/") or not text.isprintable():
        remedy = "Write the absolute path of the server's Unix socket."
        raise UserError(f"use {option} {text!r}", "it is not the path of a socket", remedy)
    return text


def web_address(tried: str, text: str) -> str:
    """Return a web server's address without a trailing slash; raises UserError."""
    remedy = "Write http://HOST:PORT or https://HOST:PORT."
    try:
        parts = urlsplit(text)
        there = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # the port
        raise UserError(tried, str(error), remedy) from error
    if not there or text != text.strip():
        raise UserError(tried, "it is not a web address", remedy)
    return text.rstrip("/")
