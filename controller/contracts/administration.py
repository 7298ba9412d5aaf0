"""Requests of users and of the administrator over HTTP, and the controller's answers."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from controller.contracts import device
from controller.contracts.annotations import Note
from controller.contracts.base import Contract
from controller.contracts.device import Booking, DeviceStatus, GivenName, Label
from controller.contracts.records import Scope
from controller.contracts.sweep import Sweep
from controller.contracts.waiting import WaitingRuns

ADMINISTRATION: Final = "/v1/admin/"
"""Prefix of the paths that require the farm's own token."""
HELD_UP: Final = "held-up"
"""Path below it of the runs that processes of other farms hold up."""
FILES: Final = "files"
"""Path below it of what is in the hosts' stores of models."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
LONGEST_S = 366 * 86400.0


class SubmitRequest(Contract):
    """Body of POST /v1/sweeps."""

    sweep: Sweep
    again: bool = False


class Count(Contract):
    """The number of runs that a request changed."""

    runs: int


class SweepStatus(Contract):
    """The number of runs of a sweep in each state, and whether all met their rules."""

    sweep_id: str
    user: str
    runs: dict[str, int]
    all_met_rules: bool
    """Whether every run has a result that is VALID or DISTURBED."""
    waiting: tuple[WaitingRuns, ...] = ()
    """What its open runs wait for; without estimates, which need the store."""
    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


class Reason(Contract):
    """Body of the administrator's requests about a device or an agent."""

    why: Label


class ReleaseRequest(Reason):
    """Body of POST /v1/admin/devices/{id}/release."""

    everyone: bool = False
    """Whether the reservations of other users end, too."""


class RenameRequest(Contract):
    """Body of POST /v1/admin/devices/{id}/rename; None takes the name away."""

    name: GivenName | None


class ChangedDevice(DeviceStatus):
    """A device that a request has changed, and its status now."""

    device: str
    device_name: str
    """Its name for people."""


class DeviceBookings(Contract):
    """The bookings of a device that have not ended, sorted by their beginning."""

    device: str
    device_name: str
    bookings: tuple[Booking, ...]


class HeldUpList(Contract):
    """Leased runs that a process of another farm holds up."""

    runs: dict[str, str]
    """Run id → what it waits for."""


class StoredFiles(Contract):
    """What is in the stores of models of online hosts."""

    files: dict[str, tuple[str, ...]]
    """Agent → checksums of its files, and keys of those without a published one."""


class NewBooking(Contract):
    """A new booking of a device, and the device's status now."""

    booking: Booking
    status: ChangedDevice


class BookRequest(Contract):
    """Body of POST /v1/devices/{id}/book."""

    user: Name | None
    """The user who may run on the device; None for maintenance: nobody may."""
    starts_in_s: float = Field(default=0.0, ge=0, le=LONGEST_S)
    for_s: float = Field(gt=0, le=LONGEST_S)
    why: Label


def _shadow_nothing(labels: dict[str, str | None]) -> dict[str, str | None]:
    for name, value in labels.items():
        if value is not None and (owner := device.shadowed(name)):  # old ones can be removed
            raise ValueError(f"{name} is {owner}, which no label may hide")
    return labels


class LabelRequest(Contract):
    """Body of POST /v1/devices/{id}/label; the value None removes a label."""

    labels: Annotated[
        dict[device.Name, Label | None],
        Field(min_length=1, max_length=64),
        AfterValidator(_shadow_nothing),
    ]


class TokenRequest(Contract):
    """Body of POST /v1/tokens/revoke."""

    name: Name


class NewTokenRequest(TokenRequest):
    """Body of POST /v1/tokens."""

    scope: Scope = Scope.SUBMITTER


class NewToken(Contract):
    """A new token; it is shown only once."""

    name: str
    token: str


class TokenInfo(Contract):
    """A token as `token list` shows it, without the secret."""

    name: str
    created_at: str
    """ISO 8601, UTC."""
    revoked_at: str | None
    scope: Scope


class TokenList(Contract):
    """Answer to GET /v1/tokens."""

    tokens: tuple[TokenInfo, ...]
