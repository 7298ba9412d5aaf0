"""What is told of phones that were here and can't be used now."""

from __future__ import annotations

from agents.android.absences import Absences
from agents.transports.adb.addresses import HostPort
from agents.transports.adb.recovery import Route
from agents.transports.remote import FaultKind

WAY = Route(HostPort("127.0.0.1", 5037), "s")


def told(absences: Absences) -> list[tuple[str, str]]:
    return [(a.state.value, a.why) for a in absences.told()]


def test_of_a_phone_that_was_never_here_nothing_is_told() -> None:
    absences = Absences()
    assert not absences.saw(WAY, "offline")
    assert not absences.did(WAY, "adb restarted", "hung")
    assert told(absences) == []


def test_what_is_seen_and_done_is_told_once_until_the_phone_is_back() -> None:
    absences = Absences()
    absences.came(WAY, "phone-1")
    assert absences.saw(WAY, "offline")
    assert not absences.saw(WAY, None), "adb connects anew"
    assert not absences.saw(WAY, "offline")
    assert absences.did(WAY, "adb restarted", "hung")
    assert not absences.did(WAY, "adb restarted", "hung")
    assert absences.did(WAY, "power cycled", "hung")
    assert told(absences) == [("offline", "adb lists it as offline; adb restarted; power cycled")]
    absences.came(WAY, "phone-1")
    assert told(absences) == []
    assert absences.did(WAY, "adb restarted", "it did not answer for 5 s")
    assert told(absences) == [("offline", "it did not answer for 5 s; adb restarted")]


def test_a_locked_phone_that_is_unplugged_is_no_longer_seen() -> None:
    absences = Absences()
    absences.came(WAY, "phone-1")
    assert absences.saw(WAY, "unauthorized")
    assert told(absences) == [("unauthorized", "confirm this host's key on its screen")]
    assert absences.saw(WAY, None)
    assert told(absences) == []


def test_of_a_phone_that_was_here_before_the_agent_was_started_it_is_told_why_it_is_away() -> None:
    absences = Absences()
    assert not absences.failed(WAY, FaultKind.OFFLINE, "refused"), "no phone is known there"
    absences.knows(WAY, "phone-1")
    assert told(absences) == []
    assert absences.failed(WAY, FaultKind.READ_ONLY, "Read-only file system")
    assert not absences.failed(WAY, FaultKind.OFFLINE, "refused")
    assert absences.did(WAY, "adb restarted", "refused")
    assert told(absences) == [("offline", "Read-only file system; adb restarted")]
    absences.came(WAY, "phone-1")
    assert absences.failed(WAY, FaultKind.UNAUTHORIZED, "failed to authenticate")
    assert told(absences) == [("unauthorized", "confirm this host's key on its screen")]


def test_what_a_way_leads_to_now_goes_before_what_it_led_to() -> None:
    absences = Absences()
    absences.came(WAY, "phone-2")
    absences.knows(WAY, "phone-1")
    assert absences.device_of(WAY) == "phone-2"
