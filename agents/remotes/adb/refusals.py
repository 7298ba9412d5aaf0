"""Interpretation of error messages of adb servers and phones. Pure.

The texts are those of AOSP packages/modules/adb (transport.cpp, client and daemon) and of strerror.
"""

from __future__ import annotations

from agents.remotes.remote import FaultKind, RemoteFault

DEVICE = "device"
"""The state of a usable phone."""
_OF_WORDS = (
    ("unauthorized", FaultKind.UNAUTHORIZED),
    ("authorizing", FaultKind.OFFLINE),  # keys are still being tried
    ("failed to authenticate", FaultKind.UNAUTHORIZED),
    ("insufficient permissions", FaultKind.UNAUTHORIZED),
    ("no permissions", FaultKind.UNAUTHORIZED),
    ("offline", FaultKind.OFFLINE),
    ("still connecting", FaultKind.OFFLINE),
    ("not found", FaultKind.OFFLINE),
    ("no devices", FaultKind.OFFLINE),
    ("no such device", FaultKind.OFFLINE),
    ("connection reset", FaultKind.OFFLINE),
    ("no space left on device", FaultKind.STORAGE_FULL),
    ("disk quota exceeded", FaultKind.STORAGE_FULL),
    ("read-only file system", FaultKind.READ_ONLY),
    ("no such file or directory", FaultKind.MISSING_FILE),
    ("permission denied", FaultKind.NO_PERMISSION),
    ("operation not permitted", FaultKind.NO_PERMISSION),
)
_NOT_OPENED = "closed"
"""A server's message when it can't open a service; every phone has the services used here."""
_REMEDIES = {
    FaultKind.UNAUTHORIZED: "confirm this host's key on its screen, or give adb a known key",
    FaultKind.STORAGE_FULL: "free space on the phone",
}


def fault_of_refusal(serial: str, words: str) -> RemoteFault:
    """Return the fault for a refusal by an adb server or a phone."""
    said = " ".join(words.split())
    lower = said.lower()
    kind = next((kind for part, kind in _OF_WORDS if part in lower), FaultKind.PROTOCOL)
    # Two lines with advice about adb's environment follow.
    said = said.partition(" This adb server's")[0]
    if lower == _NOT_OPENED:
        kind, said = FaultKind.OFFLINE, f"the link broke, or the phone refused ({said})"
    remedy = _REMEDIES.get(kind)
    return RemoteFault(serial, kind, f"{said.rstrip('.')}; {remedy}" if remedy else said)


def fault_of_state(serial: str, state: str | None) -> RemoteFault | None:
    """Return the fault for a state in `adb devices`, or None if the phone is usable."""
    if state == DEVICE:
        return None
    if state is None:
        return RemoteFault(serial, FaultKind.OFFLINE, "not attached to the adb server")
    if state in ("offline", "connecting", "detached", "bootloader", "recovery", "sideload"):
        return RemoteFault(serial, FaultKind.OFFLINE, f"adb lists it as {state}")
    return fault_of_refusal(serial, f"adb lists it as {state}")
