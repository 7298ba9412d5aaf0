"""The base of every contract: frozen, exact, with one canonical JSON form."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)

Scalar = bool | int | float | str
"""A knob's value: the types that YAML, JSON and a command line share."""

ResultFact = bool | Annotated[int, Field(ge=-(10**308), le=10**308)] | float | str
"""A value that a worker tells: arithmetic with a longer whole number, or a fraction, overflows."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$")]
"""A name that is safe as a part of a path."""


def _seconds(said: object) -> object:
    """Return the seconds of an ISO 8601 time with an offset, and all else unchanged."""
    if not isinstance(said, str):
        return said
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        return said
    return said if moment.tzinfo is None else moment.timestamp()


Timestamp = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(
        lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds"),
        return_type=str,
        when_used="json",
    ),
]
"""Seconds since the epoch; ISO 8601 in UTC, to milliseconds, as JSON."""


def utc_minute(seconds: float) -> str:
    """Return seconds since the epoch as text, in UTC to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


class Contract(BaseModel):
    """A data type that crosses a process boundary; immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def scalar_text(value: Scalar) -> str:
    """Return a knob's value as a sweep file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def canonical_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the canonical JSON of a value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any, length: int = 16) -> str:  # noqa: ANN401 - any JSON value
    """Return the first hex digits of the SHA-256 of a JSON value's canonical form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]
