"""Reading, changing and restoring a phone's settings; each is saved before it is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agents.phones.airplane import AirplaneMode, RunsCommands
from agents.phones.kept_settings import KeptFile
from agents.phones.settings import (
    AIRPLANE,
    MAX_CHARACTERS,
    RADIOS,
    Kept,
    Undo,
    fits,
    leaves_wifi,
    undo,
)
from agents.remotes.remote import Completed, FaultKind, RemoteFault, one_line
from controller.contracts.adb_status import Offer
from controller.contracts.checks import Check, Health

ASK_S = 15.0
UNSET: Final = "null"
REFUSED: Final = (
    "Set it on the phone itself. On a Xiaomi, 'USB debugging (Security settings)' in the "
    "developer options lets adb set it."
)


class UnfitValue(ValueError):
    """A present value that could not be restored later."""


@dataclass(frozen=True, slots=True)
class PhoneSettings:
    """The settings of one phone; the caller holds the phone's lock."""

    remote: RunsCommands
    place: str
    file: KeptFile
    airplane: AirplaneMode

    async def set(self, offers: Sequence[Offer]) -> list[Check]:
        """Change settings; return a check for each.

        The former value is saved first. Raises RemoteFault if the phone goes away, and
        PhoneUnavailable if nothing can be saved.
        """
        self.file.read()
        return [await self._set(offer) for offer in offers]

    async def put_back(self) -> list[Check]:
        """Restore each setting that still has the value it was changed to; return a check for each.

        A setting that can't be restored stays saved. Raises as `set` does.
        """
        found = [await self._put_back(kept) for kept in self.file.read().in_turn()]
        return found or [Check(what="settings", health=Health.WELL, seen="nothing to restore")]

    async def _set(self, offer: Offer) -> Check:
        try:
            former = await self._get(offer.key)
            if offer.key == AIRPLANE and self.airplane.networked:
                await self._require_wifi_left_alone()
        except UnfitValue as error:
            return _mend(offer.key, f"left alone: {error}", "Set it on the phone itself.")
        fresh = Offer(key=offer.key, former=former, value=offer.value)
        if former == offer.value:
            return _well(offer.key, f"{former} already")
        before = self.file.read()
        self.file.write(before.remember(fresh))
        done = await self._put(offer.key, offer.value)
        now = await self._after(offer.key)
        if now == offer.value:
            return _well(offer.key, f"{now}, was {_shown(former)}")
        if now is None or now == former or not fits(now):
            self.file.write(before)
            return _mend(offer.key, f"still {_shown(now)}{_words(done)}", REFUSED)
        self.file.write(before.remember(fresh.model_copy(update={"value": now})))
        return _mend(offer.key, f"{now}, though set to {offer.value}", REFUSED)

    async def _require_wifi_left_alone(self) -> None:
        if not leaves_wifi(await self._get(RADIOS)):
            raise UnfitValue("it would turn off Wi-Fi, and the phone is reached over Wi-Fi")

    async def _put_back(self, kept: Kept) -> Check:
        now = await self._after(kept.key)
        match undo(kept, now):
            case Undo.IS_BACK:
                seen = f"{_shown(now)}, as before"
            case Undo.CHANGED:
                seen = f"left at {_shown(now)}: changed since it was set to {kept.ours}"
            case Undo.PUT_BACK:
                done = await self._put(kept.key, kept.former)
                now = await self._after(kept.key)
                if now == kept.ours:
                    seen = f"still {_shown(now)}{_words(done)}"
                    return _mend(kept.key, seen, f"Set it to {_shown(kept.former)} yourself.")
                seen = f"{_shown(now)} again"
        self.file.write(self.file.read().forget(kept.key))
        return _well(kept.key, seen)

    async def _get(self, key: str) -> str | None:
        """Return a setting's value; raises UnfitValue if it can't be saved, and RemoteFault."""
        value = await self._after(key)
        if value is not None and not fits(value):
            shown = one_line(value)[:40]
            raise UnfitValue(f"its value ({shown!r}, {len(value)} characters) can't be kept")
        return value

    async def _after(self, key: str) -> str | None:
        """Return a setting's value without checking it; raises RemoteFault."""
        done = await self.remote.run(("settings", "get", *key.split("/")), ASK_S)
        if done.exit_code:
            message = f"settings get exited with status {done.exit_code}{_words(done)}"
            raise RemoteFault(self.place, FaultKind.UNSUPPORTED, message)
        said = done.stdout[: MAX_CHARACTERS * 8].decode(errors="replace")
        value = said.removesuffix("\n").removesuffix("\r")
        return None if value == UNSET else value

    async def _put(self, key: str, value: str | None) -> Completed:
        if key == AIRPLANE:
            return await self.airplane.turn(on=value == "1")
        verb = ("settings", "delete") if value is None else ("settings", "put")
        more = () if value is None else (value,)
        return await self.remote.run((*verb, *key.split("/"), *more), ASK_S)


def _words(done: Completed) -> str:
    """Return a failed command's output, as a reason."""
    said = one_line((done.stderr or done.stdout).decode(errors="replace"))
    return f": {said}" if said else ""


def _shown(value: str | None) -> str:
    return "not set" if value is None else one_line(value)


def _well(key: str, seen: str) -> Check:
    return Check(what=key, health=Health.WELL, seen=seen)


def _mend(key: str, seen: str, remedy: str) -> Check:
    return Check(what=key, health=Health.MEND, seen=seen, remedy=remedy)
