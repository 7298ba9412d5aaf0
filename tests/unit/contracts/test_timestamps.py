"""A time that a contract shows as ISO 8601 is read again, so that it can be sent over HTTP."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from controller.contracts.base import Contract, Timestamp
from controller.contracts.waiting import Waiting, WaitReason


class Timed(Contract):
    at: Timestamp


def test_what_a_run_waits_for_survives_its_json() -> None:
    told = Waiting(reason=WaitReason.RESERVED, device="cpu-1", since=1.5, until=7200.25)
    assert Waiting.model_validate_json(told.model_dump_json()) == told


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (7200, 7200.0),
        ("7200.5", 7200.5),
        ("1970-01-01T02:00:00.250+00:00", 7200.25),
        ("1970-01-01T03:00:00+01:00", 7200.0),
    ],
)
def test_a_time_is_seconds_or_iso_8601(said: object, seconds: float) -> None:
    assert Timed.model_validate({"at": said}).at == seconds


@pytest.mark.parametrize(
    "said", ["1970-01-01T02:00:00", "1970-13-01T00:00:00+00:00", "soon", "nan"]
)
def test_other_texts_are_none(said: str) -> None:
    with pytest.raises(ValidationError):
        Timed.model_validate({"at": said})
