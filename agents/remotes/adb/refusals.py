"""Interpretation of error messages of adb servers and phones. Pure.

The texts are those of AOSP packages/modules/adb (transport.cpp, client and daemon) and of strerror.
"""

from __future__ import annotations

from typing import Final

from agents.remotes.remote import FaultKind, RemoteFault, one_line

DEVICE = "device"
"""The state of a usable phone."""
SHARED = "more than one device"
"""adb's refusal where two devices have one serial, and our state of such a serial."""
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
    (SHARED, FaultKind.SHARED_SERIAL),
    ("no space left on device", FaultKind.STORAGE_FULL),
    ("disk quota exceeded", FaultKind.STORAGE_FULL),
    ("read-only file system", FaultKind.READ_ONLY),
    ("no such file or directory", FaultKind.MISSING_FILE),
    ("permission denied", FaultKind.NO_PERMISSION),
    ("operation not permitted", FaultKind.NO_PERMISSION),
)
_WORDS: Final = 300
"""Most characters of a refusal that a message repeats, so that our advice follows it."""
_UNDERSTOOD: Final = 1 << 16
"""Most characters of a refusal in which its meaning is looked for; standard error has fewer."""
_NOT_OPENED = "closed"
"""A server's message when it can't open a service; every phone has the services used here."""
_REMEDIES = {
    FaultKind.UNAUTHORIZED: "confirm this host's key on its screen, or give adb a known key",
    FaultKind.SHARED_SERIAL: (
        "two devices share this serial: unplug one, or connect it over TCP or to another host"
    ),
    FaultKind.STORAGE_FULL: "free space on the phone",
}


def fault_of_refusal(serial: str, words: str) -> RemoteFault:
    """Return the fault for a refusal by an adb server or a phone."""
    said = one_line(words, _WORDS)
    lower = " ".join(words[:_UNDERSTOOD].split()).lower()
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
