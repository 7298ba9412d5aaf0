from __future__ import annotations

import socket

import pytest

from controller.contracts.errors import UserError
from controller.runtime.addresses import PORT, Address, adb_server_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10.0.0.1", Address("10.0.0.1", PORT)), ("10.0.0.1:7000", Address("10.0.0.1", 7000))],
)
def test_an_address_has_a_usual_port(text: str, expected: Address) -> None:
    assert Address.parse("--head", text) == expected
    assert Address.parse("--head", str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "0.0.0.0",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "10.0.0.1:x",
        "10.0.0.1:٣",
        "::1",
        "$(id)",
        "a b",
        "10.0.0.1:1:1",
        "x" * 10_000,
        "10.0.0.1\n",
    ],
)
def test_another_is_refused_with_one_line(text: str) -> None:
    with pytest.raises(UserError) as raised:
        Address.parse("--head", text)
    assert "cannot use --head" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_adb_server_listens_on_a_port_or_a_socket() -> None:
    assert adb_server_address("--adb-server", "127.0.0.1:5037") == "127.0.0.1:5037"
    assert adb_server_address("--adb-server", "/run/adb/adb.sock") == "/run/adb/adb.sock"
    with pytest.raises(UserError, match="it is not HOST:PORT"):
        adb_server_address("--adb-server", "127.0.0.1")


@pytest.mark.parametrize("text", ["/", "/run/adb/", "/run/\n", "/run/\x1b[2J", "/\0"])
def test_what_is_no_socket_of_an_adb_server(text: str) -> None:
    with pytest.raises(
        UserError, match=r"cannot use --adb-server .*: it is not the path"
    ) as raised:
        adb_server_address("--adb-server", text)
    assert str(raised.value).isprintable()


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(
            UserError, match=f"cannot use --listen {address}: Address already in use"
        ):
            address.require_free("--listen")
    address.require_free("--listen")


def test_the_own_address_is_on_the_way_there() -> None:
    assert Address("127.0.0.1", 1).own_address() == "127.0.0.1"
