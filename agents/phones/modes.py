"""What the way adb lists a phone says of its key, its mode and its developer options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agents.remotes.adb.refusals import DEVICE
from controller.contracts.checks import Check, Health, worst_first

_ON_SCREEN: Final = (
    "unlock it and confirm this host's key on its screen, 'always allow'; without a question: "
    "Developer options, revoke USB debugging authorisations, then plug it in again"
)
_UDEV: Final = "have the agent's user in group plugdev, with a udev rule for the phone (Debian: \
android-sdk-platform-tools-common), then plug it in again"
_ANDROID: Final = "restart it into Android: choose 'Reboot system now' on its screen, or hold its \
power button"
_AGAIN: Final = (
    "over a network: benchfarm phone connect ADDRESS; on a cable: plug it in again; else restart it"
)
_SOON: Final = "wait a moment, then ask again"
_MODES: Final[Mapping[str, tuple[str, str]]] = {
    "offline": ("adb lists it as offline: it doesn't answer", _AGAIN),
    "recovery": ("it is in recovery, not in Android", _ANDROID),
    "rescue": ("it is in rescue mode, not in Android", _ANDROID),
    "sideload": ("it waits for an update (sideload), not in Android", _ANDROID),
    "bootloader": ("it is in its bootloader, not in Android", _ANDROID),
    "connecting": ("adb is still connecting to it", _SOON),
    "authorizing": ("adb is still trying its keys", _SOON),
}
"""adb's states (AOSP adb.h, ConnectionState) in which Android doesn't answer: what is seen, what to
do."""
OUTSIDE_ANDROID: Final = frozenset({"recovery", "rescue", "sideload", "bootloader"})
NO_PERMISSIONS: Final = "no permissions"
"""How such a state begins; what follows depends on the host."""
_KEY, _MODE, _DEVELOPER = "key", "mode", "developer options"
_LATER: Final = "mend what is above, then ask again"


def mode_checks(state: str) -> list[Check]:
    """Return what is known of a phone that adb lists so, what is to be mended first."""
    return worst_first((_key(state), _mode(state), _developer(state), *_rest(state)))


def _key(state: str) -> Check:
    if state == DEVICE:
        return Check(what=_KEY, health=Health.WELL, seen="this host's key is confirmed")
    if state == "unauthorized":
        seen = "this host's key isn't confirmed on the phone"
        return Check(what=_KEY, health=Health.MEND, seen=seen, remedy=_ON_SCREEN)
    if state.startswith(NO_PERMISSIONS):
        seen = "this host's user may not open its USB device"
        return Check(what=_KEY, health=Health.MEND, seen=seen, remedy=_UDEV)
    return Check(what=_KEY, health=Health.UNKNOWN, seen="can't be told yet")


def _mode(state: str) -> Check:
    if state == DEVICE:
        return Check(what=_MODE, health=Health.WELL, seen="Android answers")
    if state == "unauthorized":
        return Check(what=_MODE, health=Health.WELL, seen="adb's daemon answers")
    if state.startswith(NO_PERMISSIONS):
        return Check(what=_MODE, health=Health.UNKNOWN, seen="can't be told yet")
    seen, remedy = _MODES.get(state, (f"adb lists it as {state}", _AGAIN))
    return Check(what=_MODE, health=Health.MEND, seen=seen, remedy=remedy)


def _developer(state: str) -> Check:
    if state == "unauthorized":
        return Check(what=_DEVELOPER, health=Health.WELL, seen="USB debugging is on")
    return Check(what=_DEVELOPER, health=Health.UNKNOWN, seen="can't be told yet")


def _rest(state: str) -> tuple[Check, ...]:
    if state == DEVICE:
        return ()
    what, seen = "battery, storage, heat, settings", "can't be asked yet"
    return (Check(what=what, health=Health.UNKNOWN, seen=seen, remedy=_LATER),)
