"""What is told of phones that were here and can't be used now: what adb sees, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agents.remotes.adb.connections import Route
from agents.remotes.remote import FaultKind
from controller.contracts.device import AbsentDevice, DeviceState

Away = Literal[DeviceState.OFFLINE, DeviceState.UNAUTHORIZED]
BROKEN: Mapping[str, tuple[Away, str]] = {
    "offline": (DeviceState.OFFLINE, "adb lists it as offline"),
    "unauthorized": (DeviceState.UNAUTHORIZED, "confirm this host's key on its screen"),
}
"""adb's states from which a phone may come back: what they are here, and what is told of them."""


@dataclass(slots=True)
class UnavailablePhones:
    """Of one agent's phones; a phone that was never taken in has nothing here."""

    _known: dict[Route, str] = field(default_factory=dict)
    """Way → device id of each phone that was ever taken in."""
    _seen: dict[str, tuple[Away, str]] = field(default_factory=dict)
    """By device id."""
    _done: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By device id: what was done to bring it back, since it went."""

    def device_of(self, route: Route) -> str | None:
        """Return which phone a way led to, if it was ever taken in."""
        return self._known.get(route)

    def knows(self, route: Route, device_id: str | None) -> None:
        """Note which phone a way led to before this agent was started, if that is known."""
        if device_id:
            self._known.setdefault(route, device_id)

    def came(self, route: Route, device_id: str) -> None:
        """Forget what was told of a phone that has been taken in."""
        self._known[route] = device_id
        self._seen.pop(device_id, None)
        self._done.pop(device_id, None)

    def saw(self, route: Route, state: str | None) -> bool:
        """Note how adb lists a phone that is away; tell whether that is news."""
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
        """Note what was done for a phone, or why it was not; tell whether that is news.

        because: why, unless adb has said what is wrong with it.
        """
        device_id = self._known.get(route)
        done = self._done.get(device_id or "", ())
        if device_id is None or what in done:
            return False
        self._seen.setdefault(device_id, (DeviceState.OFFLINE, because))
        self._done[device_id] = (*done, what)
        return True

    def failed(self, route: Route, kind: FaultKind, why: str) -> bool:
        """Note why a phone that is away can't be used; tell whether that is news."""
        device_id = self._known.get(route)
        if device_id is None or device_id in self._seen:
            return False
        locked = BROKEN["unauthorized"]
        self._seen[device_id] = (
            locked if kind is FaultKind.UNAUTHORIZED else (DeviceState.OFFLINE, why)
        )
        return True

    def told(self) -> tuple[AbsentDevice, ...]:
        """Return what the controller is told."""
        return tuple(found for id_ in self._seen if (found := self._of(id_)))

    def _is_offline(self, device_id: str) -> bool:
        """Tell whether adb has listed it so: it goes and comes as adb connects to it anew."""
        return self._seen.get(device_id, (None,))[0] is DeviceState.OFFLINE

    def _of(self, device_id: str) -> AbsentDevice | None:
        if device_id not in self._seen:
            return None
        state, why = self._seen[device_id]
        words = "; ".join((why, *self._done.get(device_id, ())))
        return AbsentDevice(device_id=device_id, state=state, why=words)
