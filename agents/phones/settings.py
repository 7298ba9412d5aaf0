"""The settings that adb may change to meet a policy, and when to restore them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from controller.contracts.adb_status import Offer
from controller.contracts.base import Contract
from controller.contracts.policy import Policy

AIRPLANE: Final = "global/airplane_mode_on"
RADIOS: Final = "global/airplane_mode_radios"
"""The radios that airplane mode turns off (android.provider.Settings.Global)."""
BRIGHTNESS: Final = "system/screen_brightness"
BRIGHTNESS_MODE: Final = "system/screen_brightness_mode"
SAVER: Final = "global/low_power"
STAY_ON: Final = "global/stay_on_while_plugged_in"
DEVELOPER: Final = "global/development_settings_enabled"
READ: Final = (DEVELOPER, STAY_ON, SAVER, BRIGHTNESS_MODE, BRIGHTNESS, AIRPLANE, RADIOS)
SET: Final = (BRIGHTNESS_MODE, BRIGHTNESS, SAVER, STAY_ON, RADIOS, AIRPLANE)
"""Settings that may be changed, in this order; restored in reverse order. The radios that airplane
mode leaves alone must be set before it is turned on, and restored after it is off."""
WIFI: Final = "wifi"
ON_POWER: Final = "7"
"""stay_on_while_plugged_in: AC, USB, wireless (android.os.BatteryManager.BATTERY_PLUGGED_*)."""
AIRPLANE_SDK: Final = 30
"""Android 11, the first with `cmd connectivity airplane-mode`; earlier ones need root."""
MAX_CHARACTERS: Final = 200
VALUE: Final = rf"^[!-~](?:[ -~]{{0,{MAX_CHARACTERS - 2}}}[!-~])?$"
"""A value that can be read, saved and restored: printable ASCII on one line."""
Value = Annotated[str, Field(pattern=VALUE)]


class Kept(Contract):
    """A setting that was changed."""

    key: Annotated[str, Field(pattern=f"^({'|'.join(SET)})$")]
    former: Value | None
    """None: it wasn't set, and is deleted on restore."""
    ours: Value
    """The value that benchfarm set; any other value means that the user has changed it since."""


class KeptSettings(Contract):
    """The settings to restore on a phone."""

    device_id: str
    kept: tuple[Kept, ...] = ()

    def remember(self, one: Offer) -> KeptSettings:
        """Return the settings with one added; the value before the first change is kept."""
        before = {k.key: k for k in self.kept}
        known = before.get(one.key)
        former = known.former if known and known.ours == one.former else one.former
        before[one.key] = Kept(key=one.key, former=former, ours=one.value)
        return self.model_copy(update={"kept": tuple(before.values())})

    def forget(self, key: str) -> KeptSettings:
        """Return the settings without one."""
        return self.model_copy(update={"kept": tuple(k for k in self.kept if k.key != key)})

    def in_turn(self) -> tuple[Kept, ...]:
        """Return the settings in the order of their restoration."""
        return tuple(sorted(self.kept, key=lambda kept: SET.index(kept.key), reverse=True))


class Undo(StrEnum):
    """How to restore a changed setting."""

    PUT_BACK = "put back"
    IS_BACK = "is back already"
    CHANGED = "changed meanwhile"


def undo(kept: Kept, now: str | None) -> Undo:
    """Return how to restore a setting that has the value `now`."""
    if now == kept.former:
        return Undo.IS_BACK
    return Undo.PUT_BACK if now == kept.ours else Undo.CHANGED


def fits(value: str) -> bool:
    """Return whether a value can be saved and restored."""
    return re.fullmatch(VALUE, value) is not None


def offers(
    policy: Policy, settings: Mapping[str, str], sdk: int | None, *, networked: bool
) -> list[Offer]:
    """Return the settings that adb may change so that runs meet a policy, in their order.

    settings: the phone's values, without unset ones; if empty, nothing is offered. networked: the
    phone is connected over a network, which airplane mode must leave on.
    """
    wanted = dict(_wanted(policy, settings, sdk, networked=networked)) if settings else {}
    return [
        Offer(key=key, former=settings.get(key), value=wanted[key]) for key in SET if key in wanted
    ]


def _wanted(
    policy: Policy, settings: Mapping[str, str], sdk: int | None, *, networked: bool
) -> Iterator[tuple[str, str]]:
    if not policy.judges:
        return
    if settings.get(SAVER) == "1":
        yield SAVER, "0"
    if settings.get(STAY_ON, "0") == "0":
        yield STAY_ON, ON_POWER
    if policy.most_brightness is not None:
        if settings.get(BRIGHTNESS_MODE) == "1":
            yield BRIGHTNESS_MODE, "0"
        if (now := _whole(settings.get(BRIGHTNESS))) is not None and now > policy.most_brightness:
            yield BRIGHTNESS, str(min(1, int(policy.most_brightness)))
    if policy.airplane_mode and settings.get(AIRPLANE) == "0" and (sdk or 0) >= AIRPLANE_SDK:
        yield AIRPLANE, "1"
        if networked and (without := _without_wifi(settings.get(RADIOS))) is not None:
            yield RADIOS, without


def leaves_wifi(radios: str | None) -> bool:
    """Return whether airplane mode leaves Wi-Fi on; to Android, no list means all radios."""
    return radios is not None and WIFI not in radios.split(",")


def _without_wifi(radios: str | None) -> str | None:
    """Return the radios without Wi-Fi, or None if Wi-Fi isn't among them."""
    if leaves_wifi(radios):
        return None
    others = [radio for radio in (radios or "").split(",") if radio not in ("", WIFI)]
    return ",".join(others or ["cell", "bluetooth"])


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,6}", text, re.ASCII) else None
