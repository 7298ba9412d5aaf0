from __future__ import annotations

from pathlib import Path

import pytest

from agents.remotes.adb.addresses import AddressInvalid, HostPort, UnixSocket, parse_address


def test_addresses() -> None:
    assert parse_address("localhost:5038") == HostPort("localhost", 5038)
    assert parse_address("[::1]:5038") == HostPort("::1", 5038)
    assert parse_address("/run/adb:1/sock") == UnixSocket(Path("/run/adb:1/sock"))
    assert str(HostPort("127.0.0.1", 5038)) == "127.0.0.1:5038"
    assert str(UnixSocket(Path("/run/adb.sock"))) == "/run/adb.sock"


@pytest.mark.parametrize(
    "text", ["", "5038", ":5038", "host:", "host:0", "host:65536", "host:x", "/x/", "/\0"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressInvalid, match="Write HOST:PORT"):
        parse_address(text)
