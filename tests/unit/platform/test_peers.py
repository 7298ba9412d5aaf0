"""Whose program has the other end of a connection: from tables, and of real sockets."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

import pytest

from controller.platform.peers import LISTEN, Address, TcpRow, uid_of_end, uid_of_peer


def at(host: str, port: int) -> Address:
    return ip_address(host), port


SERVER, CLIENT, NOBODY = at("127.0.0.1", 80), at("127.0.0.1", 40000), at("0.0.0.0", 0)


def listener(host: str, uid: int) -> TcpRow:
    return TcpRow(at(host, 80), NOBODY, LISTEN, uid, inode=7)


def end(uid: int, inode: int) -> TcpRow:
    return TcpRow(SERVER, CLIENT, "01", uid, inode)


@pytest.mark.parametrize(
    ("rows", "uid"),
    [
        ([], None),
        ([listener("127.0.0.1", 1)], None),
        ([TcpRow(SERVER, at("127.0.0.1", 40001), "01", 1, 8)], None),
        # Whoever has accepted it, whoever listens now.
        ([listener("127.0.0.1", 1), end(2, 8)], 2),
        ([end(2, 8)], 2),
        # Not accepted yet: whoever listens there, by whatever address.
        ([listener("127.0.0.1", 1), end(0, 0)], 1),
        ([listener("0.0.0.0", 1), end(0, 0)], 1),
        ([listener("::", 1), end(0, 0)], 1),
        ([listener("127.0.0.2", 1), listener("127.0.0.1", 2), end(0, 0)], 2),
        ([listener("::", 1), listener("0.0.0.0", 2), end(0, 0)], 2),
        # Nobody listens, so that nobody will accept it.
        ([listener("127.0.0.2", 1), end(0, 0)], None),
    ],
)
def test_an_end_belongs_to_who_accepted_it_else_to_who_listens(
    rows: list[TcpRow], uid: int | None
) -> None:
    assert uid_of_end(rows, SERVER, CLIENT) == uid


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("accepted", [False, True])
def test_the_other_end_of_a_real_connection_is_ours(*, dual: bool, accepted: bool) -> None:
    family = socket.AF_INET6 if dual else socket.AF_INET
    with (
        socket.create_server(("", 0), family=family, dualstack_ipv6=dual) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])) as connection,
    ):
        if accepted:
            with server.accept()[0]:
                assert uid_of_peer(connection) == os.geteuid()
        else:
            assert uid_of_peer(connection) == os.geteuid()


def test_ipv6() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as server,
        socket.create_connection(server.getsockname()[:2]) as connection,
    ):
        assert uid_of_peer(connection) == os.geteuid()
