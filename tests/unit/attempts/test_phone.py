from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from agents.attempts import phone as phone_attempts
from agents.attempts.phone import PhoneRunner
from agents.phones.discovery import Phones
from agents.phones.registry import PhoneRegistry
from controller.contracts.base import Scalar
from controller.contracts.result import Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec
from tests.support import builders

LEVELS = (80, 78)


@dataclass(slots=True)
class Bench:
    """Runs a job in no time, and notes what has been read of the phone by then."""

    read: list[tuple[str, Mapping[str, Scalar]]] = field(default_factory=list)
    known_at_start: int | None = None

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.known_at_start = len(self.read)
        return builders.result()

    async def clean(self) -> int:
        return 0


async def test_conditions_are_told_as_they_are_read_before_and_after_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = iter(LEVELS)

    async def read_conditions(*_: object, **__: object) -> dict[str, Scalar]:
        return {"battery_percent": next(levels)}

    async def announce(_: object) -> None: ...

    monkeypatch.setattr(phone_attempts, "read_conditions", read_conditions)
    monkeypatch.setattr(Phones, "remote_of", lambda *_: object())
    monkeypatch.setattr(PhoneRegistry, "claim", AsyncMock())
    bench, phone = Bench(), builders.phone()
    phones = Phones("owner", tmp_path, announce)
    spec = WorkerSpec(job=builders.job(device_id=phone.id), device=phone, artefact_dir="")
    tell = PhoneRunner(bench, phones, lambda *said: bench.read.append(said))
    outcome = await tell.run(spec, lambda _: None)
    assert bench.read == [(phone.id, {"battery_percent": level}) for level in LEVELS]
    assert bench.known_at_start == 1
    assert isinstance(outcome, Result)
    assert outcome.environment["battery_percent_before"] == LEVELS[0]
    assert outcome.environment["battery_percent_after"] == LEVELS[1]
