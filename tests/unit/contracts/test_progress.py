"""What an agent, a worker or a phone may say of a run's progress."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from controller.contracts.wire import Exchange, Progress, RunProgress
from tests.support import builders

GOOD: dict[str, object] = {"phase": "training", "done": 1, "total": 9, "values": {"loss": 0.5}}
MOST = 2**53


@pytest.mark.parametrize(
    "said",
    [
        {"phase": "x" * 4097},
        {"phase": "two\nlines"},
        {"phase": "\x1b[2J"},
        {"done": -1},
        {"done": MOST + 1},
        {"total": -1},
        {"total": 10**4000},
        {"values": {f"v{number}": 1.0 for number in range(65)}},
        {"values": {"x" * 201: 1.0}},
        {"values": {"": 1.0}},
        {"values": {"\x00": 1.0}},
        {"values": {"loss": float("inf")}},
    ],
    ids=lambda said: ascii(said)[:40],
)
def test_progress_has_bounds(said: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Progress.model_validate({**GOOD, **said})


def test_progress_up_to_its_bounds_is_taken() -> None:
    values = {f"{number:0200}": 1e308 for number in range(64)}
    said = {"phase": "ä" * 4096, "done": MOST, "total": MOST, "values": values}
    assert Progress.model_validate(said).values == values


@pytest.mark.parametrize("missing", ["agent_id", "incarnation"])
def test_progress_names_who_says_it(missing: str) -> None:
    said: dict[str, object] = {"ref": builders.ref(), "progress": GOOD}
    said |= {"agent_id": "host-1", "incarnation": "first"}
    assert RunProgress.model_validate(said).agent_id == "host-1"
    for value in ({}, {missing: "two\nlines"}):
        kept = {name: it for name, it in said.items() if name != missing}
        with pytest.raises(ValidationError, match=missing):
            RunProgress.model_validate({**kept, **value})


@pytest.mark.parametrize("many", ["held", "probing"])
def test_a_question_names_only_so_many(many: str) -> None:
    one = builders.ref() if many == "held" else {"device_id": "cpu-1", "number": 1}
    said = {"agent_id": "host-1", "incarnation": "first", "held": (), "asked_at": 1.0}
    most = Exchange.model_validate({**said, many: (one,) * 4096})
    assert len(getattr(most, many)) == 4096
    with pytest.raises(ValidationError, match=many):
        Exchange.model_validate({**said, many: (one,) * 4097})
