"""What is told of phones that were here and can't be used now."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agents.phones.recovery.unavailable import UnavailablePhones
from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.connections import Route
from agents.remotes.remote import FaultKind
from controller.contracts.device import ABSENCE_CHARACTERS, AbsentDevice, DeviceState

WAY = Route(HostPort("127.0.0.1", 5037), "s")


def told(unavailable: UnavailablePhones) -> list[tuple[str, str]]:
    return [(a.state.value, a.why) for a in unavailable.told()]


def test_of_a_phone_that_was_never_here_nothing_is_told() -> None:
    unavailable = UnavailablePhones()
    assert not unavailable.saw(WAY, "offline")
    assert not unavailable.did(WAY, "adb restarted", "hung")
    assert told(unavailable) == []


def test_what_is_seen_and_done_is_told_once_until_the_phone_is_back() -> None:
    unavailable = UnavailablePhones()
    unavailable.came(WAY, "phone-1")
    assert unavailable.saw(WAY, "offline")
    assert not unavailable.saw(WAY, None), "adb connects anew"
    assert not unavailable.saw(WAY, "offline")
    assert unavailable.did(WAY, "adb restarted", "hung")
    assert not unavailable.did(WAY, "adb restarted", "hung")
    assert unavailable.did(WAY, "power cycled", "hung")
    assert told(unavailable) == [
        ("offline", "adb lists it as offline; adb restarted; power cycled")
    ]
    unavailable.came(WAY, "phone-1")
    assert told(unavailable) == []
    assert unavailable.did(WAY, "adb restarted", "it did not answer for 5 s")
    assert told(unavailable) == [("offline", "it did not answer for 5 s; adb restarted")]


def test_a_locked_phone_that_is_unplugged_is_no_longer_seen() -> None:
    unavailable = UnavailablePhones()
    unavailable.came(WAY, "phone-1")
    assert unavailable.saw(WAY, "unauthorized")
    assert told(unavailable) == [("unauthorized", "confirm this host's key on its screen")]
    assert unavailable.saw(WAY, None)
    assert told(unavailable) == []


def test_of_a_phone_that_was_here_before_the_agent_was_started_it_is_told_why_it_is_away() -> None:
    unavailable = UnavailablePhones()
    assert not unavailable.failed(WAY, FaultKind.OFFLINE, "refused"), "no phone is known there"
    unavailable.knows(WAY, "phone-1")
    assert told(unavailable) == []
    assert unavailable.failed(WAY, FaultKind.READ_ONLY, "Read-only file system")
    assert not unavailable.failed(WAY, FaultKind.OFFLINE, "refused")
    assert unavailable.did(WAY, "adb restarted", "refused")
    assert told(unavailable) == [("offline", "Read-only file system; adb restarted")]
    unavailable.came(WAY, "phone-1")
    assert unavailable.failed(WAY, FaultKind.UNAUTHORIZED, "failed to authenticate")
    assert told(unavailable) == [("unauthorized", "confirm this host's key on its screen")]


def test_what_a_way_leads_to_now_goes_before_what_it_led_to() -> None:
    unavailable = UnavailablePhones()
    unavailable.came(WAY, "phone-2")
    unavailable.knows(WAY, "phone-1")
    assert unavailable.device_of(WAY) == "phone-2"


def test_a_reason_without_end_is_cut_and_told() -> None:
    unavailable = UnavailablePhones()
    unavailable.came(WAY, "phone-1")
    assert unavailable.did(WAY, "x" * 100_000, "hung")
    ((_, why),) = told(unavailable)
    assert why.startswith("hung; xxx")
    assert len(why) == ABSENCE_CHARACTERS
    with pytest.raises(ValidationError):
        AbsentDevice(device_id="phone-1", state=DeviceState.OFFLINE, why=why + "x")
