"""Who is listed by an adb server, and who is listed twice."""

from __future__ import annotations

import pytest

from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.connections import Route, parse_devices, without_doubles
from agents.remotes.adb.refusals import SHARED
from controller.contracts.errors import PhoneClaimedTwice

HERE = HostPort("127.0.0.1", 5038)
THERE = HostPort("lab", 5037)


def test_devices() -> None:
    text = "R58M\tdevice\n10.0.0.2:5555\toffline\nX\tno permissions (see [http://x/])\n"
    assert parse_devices(text) == {
        "R58M": "device",
        "10.0.0.2:5555": "offline",
        "X": "no permissions (see [http://x/])",
    }
    assert parse_devices("") == {}


def test_a_serial_that_is_listed_twice_is_no_usable_phone() -> None:
    text = "0123456789ABCDEF\tdevice\nR58M\tdevice\n0123456789ABCDEF\tdevice\n"
    assert parse_devices(text) == {"0123456789ABCDEF": SHARED, "R58M": "device"}


def test_one_route_a_phone() -> None:
    one, other = Route(HERE, "R58M"), Route(HERE, "10.0.0.2:5555")
    assert without_doubles([("R58M", one), ("VIRTUAL1", other), ("R58M", one)]) == {
        "R58M": one,
        "VIRTUAL1": other,
    }


@pytest.mark.parametrize("other", [Route(THERE, "R58M"), Route(HERE, "10.0.0.2:5555")])
def test_a_phone_with_two_routes_is_refused_naming_both(other: Route) -> None:
    one = Route(HERE, "R58M")
    with pytest.raises(PhoneClaimedTwice) as caught:
        without_doubles([("R58M", one), ("R58M", other)])
    assert str(one) in str(caught.value)
    assert str(other) in str(caught.value)
