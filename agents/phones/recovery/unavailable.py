"""Phones that were here and can't be used now: adb's state of each, and what was done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agents.remotes.adb.connections import Route
from agents.remotes.remote import FaultKind, one_line
from controller.contracts.device import ABSENCE_CHARACTERS, AbsentDevice, DeviceState

Away = Literal[DeviceState.OFFLINE, DeviceState.UNAUTHORIZED]
BROKEN: Mapping[str, tuple[Away, str]] = {
    "offline": (DeviceState.OFFLINE, "adb lists it as offline"),
    "unauthorized": (DeviceState.UNAUTHORIZED, "confirm this host's key on its screen"),
}
"""adb's states from which a phone may return → device state and reason."""


@dataclass(slots=True)
class UnavailablePhones:
    """The unavailable phones of one agent; a phone that was never taken in is not among them."""

    _known: dict[Route, str] = field(default_factory=dict)
    """Connection → device id of each phone that was ever taken in."""
    _seen: dict[str, tuple[Away, str]] = field(default_factory=dict)
    """Device id → state and reason."""
    _done: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Device id → recovery actions since it went away."""

    def device_of(self, route: Route) -> str | None:
        """Return the id of the phone that was last reached over a connection, or None."""
        return self._known.get(route)

    def knows(self, route: Route, device_id: str | None) -> None:
        """Record which phone a connection led to before this agent started, if known."""
        if device_id:
            self._known.setdefault(route, device_id)

    def came(self, route: Route, device_id: str) -> None:
        """Forget the state of a phone that has been taken in."""
        self._known[route] = device_id
        self._seen.pop(device_id, None)
        self._done.pop(device_id, None)

    def saw(self, route: Route, state: str | None) -> bool:
        """Record how adb lists a phone that is away; return whether that is new."""
        device_id = self._known.get(route)
        if device_id is None:
            return False
        before = self._of(device_id)
        if state is not None and state in BROKEN:
            self._seen[device_id] = BROKEN[state]
        elif device_id not in self._done and not self._is_offline(device_id):
            self._seen.pop(device_id, None)
        return self._of(device_id) != before

    def did(self, route: Route, what: str, because: str) -> bool:
        """Record a recovery action, or why it was left out; return whether that is new.

        because: the reason, unless adb's state already gives one.
        """
        device_id = self._known.get(route)
        done = self._done.get(device_id or "", ())
        if device_id is None or what in done:
            return False
        self._seen.setdefault(device_id, (DeviceState.OFFLINE, because))
        self._done[device_id] = (*done, what)
        return True

    def failed(self, route: Route, kind: FaultKind, why: str) -> bool:
        """Record why a phone that is away can't be used; return whether that is new."""
        device_id = self._known.get(route)
        if device_id is None or device_id in self._seen:
            return False
        locked = BROKEN["unauthorized"]
        self._seen[device_id] = (
            locked if kind is FaultKind.UNAUTHORIZED else (DeviceState.OFFLINE, why)
        )
        return True

    def told(self) -> tuple[AbsentDevice, ...]:
        """Return the unavailable phones for the controller."""
        return tuple(found for id_ in self._seen if (found := self._of(id_)))

    def _is_offline(self, device_id: str) -> bool:
        """Return whether adb lists it as offline, a state that comes and goes as adb reconnects."""
        return self._seen.get(device_id, (None,))[0] is DeviceState.OFFLINE

    def _of(self, device_id: str) -> AbsentDevice | None:
        if device_id not in self._seen:
            return None
        state, why = self._seen[device_id]
        words = one_line("; ".join((why, *self._done.get(device_id, ()))), ABSENCE_CHARACTERS)
        return AbsentDevice(device_id=device_id, state=state, why=words)
