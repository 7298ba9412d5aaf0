"""What is taken of a worker's or a phone's lines."""

from __future__ import annotations

import json

import pytest

from agents.attempts.worker_protocol import MESSAGE_BYTES, MessageReader
from controller.contracts.result import Result
from controller.contracts.wire import Progress
from tests.support import builders

GOOD: dict[str, object] = {"type": "progress", "phase": "training", "done": 1, "total": 9}


@pytest.mark.parametrize(
    "said",
    [
        {"phase": "x" * 100_000},
        {"phase": "\x1b[2J"},
        {"done": 2**64},
        {"total": -1},
        {"values": {f"value {number}": 1 for number in range(100_000)}},
    ],
    ids=["long", "unprintable", "huge", "negative", "many"],
)
def test_progress_beyond_its_bounds_is_not_passed_on_and_ends_nothing(
    said: dict[str, object],
) -> None:
    told: list[Progress] = []
    reader = MessageReader(told.append)
    reader.take(json.dumps({**GOOD, **said}).encode())
    assert told == []
    reader.take(json.dumps(GOOD).encode())
    reader.take(builders.result().model_dump_json().encode())
    assert [one.done for one in told] == [1]
    assert reader.last == builders.result()


def test_a_line_beyond_the_limit_is_no_message() -> None:
    """However well it reads: parsing 64 MiB would keep the agent from all else."""
    line = builders.result().model_dump_json().encode()
    long = line + b" " * (MESSAGE_BYTES + 1 - len(line))
    reader = MessageReader(lambda _: None)
    reader.take(long)
    assert (reader.began, reader.last) == (False, None)
    assert reader.garbled is not None
    assert reader.garbled == line[: len(reader.garbled)].decode()
    reader.take(long[:-1])
    assert reader.last == builders.result()
    of_worker = MessageReader(lambda _: None, most_bytes=len(long))
    of_worker.take(long)
    assert of_worker.last == builders.result()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_fact_with_which_arithmetic_overflows_is_no_message(sign: int) -> None:
    said = builders.result().model_dump(mode="json")
    huge, most = sign * 10**400, sign * 10**308
    for fact in (huge, [1, huge]):
        reader = MessageReader(lambda _: None)
        reader.take(json.dumps({**said, "environment": {"samples": fact}}).encode())
        assert reader.last is None
        assert reader.garbled is not None
    reader = MessageReader(lambda _: None)
    reader.take(json.dumps({**said, "environment": {"samples": most}}).encode())
    assert isinstance(reader.last, Result)
    assert reader.last.environment == {"samples": most}
    assert isinstance(reader.last.environment["samples"], int)
