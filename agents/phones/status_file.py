"""The status files for the command line of this host: one for each adb server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.phones.modes import NO_PERMISSIONS, OUTSIDE_ANDROID, mode_checks
from agents.remotes.adb.connections import Route
from agents.remotes.adb.refusals import SHARED
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.adb_status import AdbStatus, RouteStatus
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import PhoneUnavailable, UserError
from controller.platform.atomic import write_private

REMEDIES = {
    FaultKind.UNAUTHORIZED: "Confirm this host's key on its screen; it then joins by itself.",
    FaultKind.UNSUPPORTED: "Use another phone; docs/phones.md says what a phone needs.",
    FaultKind.SHARED_SERIAL: "It is then tried again by itself.",
    FaultKind.STORAGE_FULL: "Free space on it; it is then tried again by itself.",
    FaultKind.READ_ONLY: "Restart it: runs need storage that can be written.",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StatusFiles:
    """The status files of one agent."""

    folder: Path
    servers: dict[str, AdbStatus] = field(default_factory=dict)
    """Name of a status file → the status of its adb server."""

    def publish(self, ways: Mapping[Route, RouteStatus]) -> None:
        """Write the status of every connection."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for file, status in self.servers.items():
                here = {r.serial: way for r, way in ways.items() if str(r.server) == status.server}
                told = status.model_copy(update={"routes": here})
                write_private(self.folder / file, told.model_dump_json())
        except OSError as error:  # such as a full disk: phones keep working
            log.error("benchfarm phone knows no news: %s", error)


def route_status(
    device_id: str | None, error: UserError | None, look: int, last: str | None = None
) -> RouteStatus:
    """Return the status of one connection."""
    complaint = ErrorPayload.of(error) if error else None
    return RouteStatus(device_id=device_id, last_device_id=last, complaint=complaint, look=look)


def in_the_way(serial: str, state: str | None) -> PhoneUnavailable | None:
    """Return the error for a phone that waits for its user, or None if it doesn't."""
    if state not in {*OUTSIDE_ANDROID, SHARED} and not (state or "").startswith(NO_PERMISSIONS):
        return None
    first = mode_checks(str(state))[0]
    return PhoneUnavailable(f"use phone {serial}", first.seen, first.remedy)


def unusable(serial: str, fault: RemoteFault) -> PhoneUnavailable:
    """Return the error for a phone that could not be taken in."""
    remedy = REMEDIES.get(fault.kind, "Check that it answers, then connect it again.")
    return PhoneUnavailable(f"use phone {serial}", fault.message, remedy)


def not_taken_in(serial: str, folder: Path, error: OSError) -> PhoneUnavailable:
    """Return the error for a phone that this host could not take in.

    folder: the agent's, which has the locks of its phones.
    """
    seen = f"this host can't lock it: {error}"
    remedy = f"Make {folder} writable, with space on its disk; it is then tried again by itself."
    return PhoneUnavailable(f"use phone {serial}", seen, remedy)
