from __future__ import annotations

import pickle

import pytest

from agents.phones.recovery.policy import CURABLE
from agents.phones.status_file import in_the_way
from agents.remotes.adb.refusals import SHARED, fault_of_refusal, fault_of_state
from agents.remotes.remote import FaultKind, RemoteFault, failure_of, malformed
from controller.contracts.errors import UserError
from controller.contracts.result import Blame


@pytest.mark.parametrize(
    ("words", "kind", "blame"),
    [
        ("device offline", FaultKind.OFFLINE, Blame.DEVICE),
        ("device 'R58M' not found", FaultKind.OFFLINE, Blame.DEVICE),
        ("device still connecting", FaultKind.OFFLINE, Blame.DEVICE),
        ("closed", FaultKind.OFFLINE, Blame.DEVICE),
        ("device still authorizing", FaultKind.OFFLINE, Blame.DEVICE),
        ("failed to authenticate to 10.0.0.2:5555", FaultKind.UNAUTHORIZED, Blame.DEVICE),
        ("insufficient permissions for device: user in plugdev?", "unauthorized", Blame.DEVICE),
        ("write failed: No space left on device", FaultKind.STORAGE_FULL, Blame.DEVICE),
        ("couldn't create file: Read-only file system", FaultKind.READ_ONLY, Blame.DEVICE),
        ("mkdir: /x: Permission denied", FaultKind.NO_PERMISSION, Blame.DEVICE),
        ("open failed: No such file or directory", FaultKind.MISSING_FILE, Blame.WORKLOAD),
        ("more than one device", FaultKind.SHARED_SERIAL, Blame.DEVICE),
        ("more than one device/emulator", FaultKind.SHARED_SERIAL, Blame.DEVICE),
        ("unknown host service", FaultKind.PROTOCOL, Blame.HARNESS),
        ("", FaultKind.PROTOCOL, Blame.HARNESS),
    ],
)
def test_words_have_a_meaning(words: str, kind: FaultKind, blame: Blame) -> None:
    fault = fault_of_refusal("R58M", words)
    assert (fault.kind, fault.blame) == (kind, blame)
    assert words in fault.message
    failure = failure_of(fault)
    assert (failure.blame, failure.kind, failure.message) == (blame, kind, str(fault))


def test_adb_s_advice_gives_way_to_ours() -> None:
    fault = fault_of_refusal(
        "R58M",
        "device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\n"
        "Try 'adb kill-server' if that seems wrong.\nOtherwise check for a confirmation dialog",
    )
    assert str(fault) == (
        "R58M: device unauthorized; confirm this host's key on its screen, or give adb a known key"
    )


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("device", None),
        (None, FaultKind.OFFLINE),
        ("offline", FaultKind.OFFLINE),
        ("recovery", FaultKind.OFFLINE),
        ("unauthorized", FaultKind.UNAUTHORIZED),
        ("authorizing", FaultKind.OFFLINE),
        ("no permissions (user in plugdev group?)", FaultKind.UNAUTHORIZED),
        (SHARED, FaultKind.SHARED_SERIAL),
        ("something new", FaultKind.PROTOCOL),
    ],
)
def test_states_have_a_meaning(state: str | None, kind: FaultKind | None) -> None:
    fault = fault_of_state("R58M", state)
    assert (fault.kind if fault else None) == kind


def test_two_devices_of_one_serial_are_unplugged_and_adb_is_not_restarted() -> None:
    fault = fault_of_refusal("0123456789ABCDEF", SHARED)
    assert fault.kind not in CURABLE
    assert str(fault) == (
        "0123456789ABCDEF: more than one device; two devices share this serial: unplug one, or "
        "connect it over TCP or to another host"
    )
    told = in_the_way("0123456789ABCDEF", SHARED)
    assert str(told) == (
        "cannot use phone 0123456789ABCDEF: adb lists two devices with this serial. Unplug one, or "
        "connect it over TCP or to another host."
    )


@pytest.mark.parametrize("words", ["x" * (64 << 20), "\x1b[2J\0\n" * 100_000])
def test_a_refusal_is_one_short_line(words: str) -> None:
    fault = fault_of_refusal("R58M", f"cannot list a tree: {words}")
    assert len(fault.message) <= 350
    assert fault.message.isprintable()


def test_a_fault_survives_pickle() -> None:
    fault = RemoteFault("R58M", FaultKind.HUNG, "no answer")
    again = pickle.loads(pickle.dumps(fault))
    assert (again.place, again.kind, again.message) == ("R58M", FaultKind.HUNG, "no answer")
    assert str(again) == "R58M: no answer"


def test_who_is_blamed_for_malformed_data_survives_pickle() -> None:
    own, server = malformed("R58M", "junk"), RemoteFault("R58M", FaultKind.PROTOCOL, "junk")
    for fault, blame in ((own, Blame.DEVICE), (server, Blame.HARNESS)):
        again = pickle.loads(pickle.dumps(fault))
        assert (again.kind, again.blame) == (FaultKind.PROTOCOL, blame)
        assert failure_of(again).blame is blame


def test_a_user_s_error_is_the_user_s() -> None:
    failure = failure_of(UserError("find adb", "none", "Install it."))
    assert (failure.blame, failure.message) == (Blame.USER, "cannot find adb: none. Install it.")
