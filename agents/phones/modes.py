"""Checks of a phone's key, mode and developer options, from the state that adb lists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agents.remotes.adb.refusals import DEVICE, SHARED
from controller.contracts.checks import Check, Health, worst_first

_ON_SCREEN: Final = (
    "Unlock it and confirm this host's key on its screen, 'always allow'. If it doesn't ask, "
    "revoke USB debugging authorisations in its developer options, then plug it in again."
)
_UDEV: Final = "Put the agent's user into group plugdev, with a udev rule for the phone (Debian: \
android-sdk-platform-tools-common), then plug it in again."
_ANDROID: Final = "Restart it into Android: choose 'Reboot system now' on its screen, or hold its \
power button."
_AGAIN: Final = (
    "Run `benchfarm phone connect ADDRESS` (network) or plug it in again (cable); else restart it."
)
_SOON: Final = "Wait a moment, then ask again."
_MODES: Final[Mapping[str, tuple[str, str]]] = {
    "offline": ("adb lists it as offline: it does not answer", _AGAIN),
    "recovery": ("it is in recovery, not in Android", _ANDROID),
    "rescue": ("it is in rescue mode, not in Android", _ANDROID),
    "sideload": ("it waits for an update (sideload), not in Android", _ANDROID),
    "bootloader": ("it is in its bootloader, not in Android", _ANDROID),
    "connecting": ("adb is still connecting to it", _SOON),
    SHARED: (
        "adb lists two devices with this serial",
        "Unplug one, or connect it over TCP or to another host.",
    ),
    "authorizing": ("adb is still trying its keys", _SOON),
}
"""adb's states of a phone whose Android doesn't answer (AOSP adb.h, ConnectionState), and SHARED →
seen, remedy."""
OUTSIDE_ANDROID: Final = frozenset({"recovery", "rescue", "sideload", "bootloader"})
NO_PERMISSIONS: Final = "no permissions"
"""Start of such a state; the rest depends on the host."""
_KEY, _MODE, _DEVELOPER = "key", "mode", "developer options"
_LATER: Final = "Correct what is above, then ask again."


def mode_checks(state: str) -> list[Check]:
    """Return the checks of a phone in one of adb's states, the worst first."""
    return worst_first((_key(state), _mode(state), _developer(state), *_rest(state)))


def _key(state: str) -> Check:
    if state == DEVICE:
        return Check(what=_KEY, health=Health.WELL, seen="this host's key is confirmed")
    if state == "unauthorized":
        seen = "this host's key is not confirmed on the phone"
        return Check(what=_KEY, health=Health.MEND, seen=seen, remedy=_ON_SCREEN)
    if state.startswith(NO_PERMISSIONS):
        seen = "this host's user may not open its USB device"
        return Check(what=_KEY, health=Health.MEND, seen=seen, remedy=_UDEV)
    return Check(what=_KEY, health=Health.UNKNOWN, seen="not known yet")


def _mode(state: str) -> Check:
    if state == DEVICE:
        return Check(what=_MODE, health=Health.WELL, seen="Android answers")
    if state == "unauthorized":
        return Check(what=_MODE, health=Health.WELL, seen="adb's daemon answers")
    if state.startswith(NO_PERMISSIONS):
        return Check(what=_MODE, health=Health.UNKNOWN, seen="not known yet")
    seen, remedy = _MODES.get(state, (f"adb lists it as {state}", _AGAIN))
    return Check(what=_MODE, health=Health.MEND, seen=seen, remedy=remedy)


def _developer(state: str) -> Check:
    if state == "unauthorized":
        return Check(what=_DEVELOPER, health=Health.WELL, seen="USB debugging is on")
    return Check(what=_DEVELOPER, health=Health.UNKNOWN, seen="not known yet")


def _rest(state: str) -> tuple[Check, ...]:
    if state == DEVICE:
        return ()
    what, seen = "battery, storage, heat, settings", "not known yet"
    return (Check(what=what, health=Health.UNKNOWN, seen=seen, remedy=_LATER),)
