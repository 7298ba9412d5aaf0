from __future__ import annotations

import socket
from pathlib import Path

import pytest

from controller.contracts.errors import FarmUnavailable
from controller.platform.ports import free_ports
from controller.runtime.cluster import node_ports

LOOPBACK = "127.0.0.1"


def test_ports_of_one_call_differ() -> None:
    few = free_ports(8)
    assert len(set(few)) == 8
    named = node_ports("dashboard-port", "port", besides=few[:2], among=few)
    assert sorted(named.values()) == sorted(few[2:])


def test_ports_that_are_taken_or_spoken_for() -> None:
    among = taken, spoken_for, free = free_ports(3, LOOPBACK)
    with socket.create_server((LOOPBACK, taken)):
        assert free_ports(1, LOOPBACK, (spoken_for,), among) == [free]
        with pytest.raises(FarmUnavailable, match="1 of 2 ports are free"):
            free_ports(2, LOOPBACK, (spoken_for,), among)


def test_ports_are_none_that_linux_gives_unasked() -> None:
    lowest, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    if int(lowest) < 32_768:
        pytest.skip(f"this host gives ports from {lowest} on")
    assert all(port < int(lowest) for port in free_ports(100))
