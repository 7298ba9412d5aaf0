from __future__ import annotations

import socket

import psutil
import pytest

from agents.host.interfaces import LOOPBACK, interface_of


def test_an_address_of_this_host_has_the_interface_that_others_see() -> None:
    seen = {
        own.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for own in addresses
        if own.family is socket.AF_INET
    }
    assert seen["127.0.0.1"] == LOOPBACK
    assert {address: interface_of(address) for address in seen} == {
        address: name.partition(":")[0] for address, name in seen.items()
    }


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "", "host"])
def test_an_address_of_another_host_has_none(address: str) -> None:
    assert interface_of(address) is None
