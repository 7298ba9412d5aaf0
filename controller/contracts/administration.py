"""What users and the administrator say to the controller over HTTP, and its answers."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from controller.contracts import device
from controller.contracts.base import Contract
from controller.contracts.device import Label
from controller.contracts.sweep import Sweep

ADMINISTRATION: Final = "/v1/admin/"
"""A path that begins so opens to the farm's own token only."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
LONGEST_S = 366 * 86400.0


class SubmitRequest(Contract):
    """Body of POST /v1/sweeps."""

    sweep: Sweep
    again: bool = False


class Count(Contract):
    """How many runs a verb was about."""

    runs: int


class SweepStatus(Contract):
    """How many runs of a sweep are in each state, and whether all have a VALID result."""

    sweep_id: str
    user: str
    runs: dict[str, int]
    all_valid: bool


class Reason(Contract):
    """Body of what the administrator does to a device or an agent."""

    why: Label


class BookRequest(Contract):
    """Body of POST /v1/devices/{id}/book."""

    user: Name | None
    """Who may run on it; None for maintenance: nobody."""
    starts_in_s: float = Field(default=0.0, ge=0, le=LONGEST_S)
    for_s: float = Field(gt=0, le=LONGEST_S)
    why: Label


class LabelRequest(Contract):
    """Body of POST /v1/devices/{id}/label; None takes a label away."""

    labels: Annotated[dict[device.Name, Label | None], Field(min_length=1, max_length=64)]


class TokenRequest(Contract):
    """Body of POST /v1/tokens and of POST /v1/tokens/revoke."""

    name: Name


class NewToken(Contract):
    """A token, shown once."""

    name: str
    token: str


class TokenInfo(Contract):
    """What is told of a token."""

    name: str
    created_at: str
    """ISO 8601, UTC."""
    revoked_at: str | None


class TokenList(Contract):
    """Answer to GET /v1/tokens."""

    tokens: tuple[TokenInfo, ...]
