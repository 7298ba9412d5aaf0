from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from agents.attempts import phone as phone_attempts
from agents.attempts.phone import PhoneRunner
from agents.inference.throttling import BEGAN_AT
from agents.phones.discovery import Phones
from agents.phones.registry import PhoneRegistry
from agents.remotes.remote import Completed, FaultKind, RemoteFault
from controller.contracts.base import Scalar
from controller.contracts.pair import Pair
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Progress, WorkerSpec
from tests.support import builders

LEVELS = (80, 78)


@dataclass(slots=True)
class Bench:
    """Runs a job in no time, and notes what has been read of the phone by then."""

    read: list[tuple[str, Mapping[str, Scalar]]] = field(default_factory=list)
    known_at_start: int | None = None
    outcome: Result = field(default_factory=builders.result)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.known_at_start = len(self.read)
        return self.outcome

    async def clean(self) -> int:
        return 0


async def result_of(
    bench: Bench,
    conditions: Iterable[dict[str, Scalar]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str = "ci",
    **facts: str | float,
) -> Result:
    """Return a run's result on a phone with these conditions before it and after it.

    facts: of the phone.
    """
    left = iter(conditions)

    async def read_conditions(*_: object, **__: object) -> dict[str, Scalar]:
        return next(left)

    async def announce(_: object) -> None: ...

    monkeypatch.setattr(phone_attempts, "read_conditions", read_conditions)
    monkeypatch.setattr(Phones, "remote_of", lambda *_: object())
    monkeypatch.setattr(PhoneRegistry, "claim", AsyncMock())
    phone = builders.phone().model_copy(update={"facts": facts})
    phones = Phones("owner", tmp_path, announce)
    job = builders.job(device_id=phone.id)
    job = job.model_copy(update={"knobs": {**job.knobs, "policy": policy}})
    spec = WorkerSpec(job=job, device=phone, artefact_dir="")
    tell = PhoneRunner(bench, phones, lambda *said: bench.read.append(said))
    outcome = await tell.run(spec, lambda _: None)
    assert isinstance(outcome, Result)
    return outcome


async def test_conditions_are_told_as_they_are_read_before_and_after_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    conditions: list[dict[str, Scalar]] = [{"battery_percent": level} for level in LEVELS]
    outcome = await result_of(bench, conditions, tmp_path, monkeypatch)
    phone = builders.phone()
    assert bench.read == [(phone.id, said) for said in conditions]
    assert bench.known_at_start == 1
    assert outcome.environment["battery_percent_before"] == LEVELS[0]
    assert outcome.environment["battery_percent_after"] == LEVELS[1]


def saying(**facts: Scalar) -> Result:
    """Return a result whose environment has further facts."""
    told = builders.result()
    return told.model_copy(update={"environment": {**told.environment, **facts}})


async def test_a_phone_s_own_runner_does_not_say_what_the_host_reads_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, Scalar] = {
        "fingerprint": "acme/other:15/user",
        "thermal_status_before": "NONE",
        "battery_celsius_after": 20.0,
        "room_celsius": 22.0,
    }
    conditions: list[dict[str, Scalar]] = [
        {"thermal_status": "SEVERE", "battery_celsius": celsius} for celsius in (40.0, 44.0)
    ]
    bench, fingerprint = Bench(outcome=saying(**said)), "acme/one:14/user"
    found = await result_of(bench, conditions, tmp_path, monkeypatch, fingerprint=fingerprint)
    assert {name: found.environment[name] for name in said} == {
        "fingerprint": fingerprint,
        "thermal_status_before": "SEVERE",
        "battery_celsius_after": 44.0,
        "room_celsius": None,
    }


@pytest.mark.parametrize(
    ("policy", "told", "celsius"),
    [
        ("lab", {BEGAN_AT: 38.0}, None),
        ("lab", {BEGAN_AT: 39.0}, None),  # as another reading let it go
        ("lab", {BEGAN_AT: 39.1}, 39.1),
        ("ci", {BEGAN_AT: 60.0}, None),
        ("lab", {}, None),
    ],
)
async def test_a_run_whose_phone_got_too_hot_before_it_began_is_invalid(
    policy: str,
    told: dict[str, Scalar],
    celsius: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conditions: list[dict[str, Scalar]] = [{"battery_celsius": 30.0}] * 2
    bench = Bench(outcome=saying(**told))
    found = await result_of(bench, conditions, tmp_path, monkeypatch, policy)
    reason = f"policy lab: when the run began, battery at {celsius} °C is above 38 °C"
    assert found.reasons == (() if celsius is None else (reason,))
    assert found.validity is (Validity.VALID if celsius is None else Validity.INVALID)


@pytest.mark.parametrize(
    ("told", "a_first", "celsius"),
    [
        ({"a": 37.0, "b": 41.0}, True, None),
        ({"a": 37.0, "b": 41.0}, False, 41.0),
        ({"a": 39.5, "b": 41.0}, True, 39.5),
        ({"a": 41.0, "b": 39.5}, True, 41.0),
        ({"a": 41.0, "b": 37.0}, False, None),
        ({"b": 41.0}, True, None),
        ({"": 41.0}, False, 41.0),  # the sides agree
    ],
)
async def test_of_a_comparison_the_side_that_began_tells_how_hot_its_phone_was(
    told: dict[str, float],
    a_first: bool,
    celsius: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Later runs are not its begin."""
    conditions: list[dict[str, Scalar]] = [{"battery_celsius": 30.0}] * 2
    facts = {f"{side}.{BEGAN_AT}".lstrip("."): said for side, said in told.items()}
    order = (a_first, not a_first)
    pairs = tuple(Pair(a=(1.0,), b=(2.0,), a_first=first) for first in order)
    bench = Bench(outcome=saying(**facts).model_copy(update={"pairs": pairs}))
    found = await result_of(bench, conditions, tmp_path, monkeypatch, "lab")
    reason = f"policy lab: when the run began, battery at {celsius} °C is above 38 °C"
    assert found.reasons == (() if celsius is None else (reason.replace(".0 ", " "),))


JOULES = Measurement(value=0.9, unit=Unit.JOULES_PER_QUERY)


def with_energy(source: str) -> Result:
    """Return a result with the energy that a source told."""
    told = builders.result()
    facts = {"energy_source": source, "energy_gross_uncertainty": 0.02, "idle_watts": 1.0}
    return told.model_copy(
        update={
            "metrics": {**told.metrics, "energy": JOULES, "energy_gross": JOULES},
            "environment": {**told.environment, **facts},
        }
    )


@pytest.mark.parametrize("source", ["battery current", "battery charge", "power rail: VBAT"])
@pytest.mark.parametrize(
    ("charging", "when"),
    [((True, False), "before"), ((False, True), "after"), ((True, True), "before and after")],
)
async def test_beside_a_charger_no_battery_tells_the_energy(
    charging: tuple[bool, bool],
    when: str,
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conditions: list[dict[str, Scalar]] = [{"charging": on} for on in charging]
    bench = Bench(outcome=with_energy(source))
    found = await result_of(bench, conditions, tmp_path, monkeypatch)
    assert found.metrics.keys() == {"step_time"}
    about_energy = {n: v for n, v in found.environment.items() if "energy" in n or "idle" in n}
    assert about_energy == {"energy_unknown": f"a charger was connected {when} the run"}


@pytest.mark.parametrize(
    ("source", "charging"),
    [("meter", True), ("power rail: VSYS", True), ("battery current", False)],
)
async def test_energy_stays_where_no_charger_changes_it(
    source: str, charging: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = with_energy(source)
    conditions: list[dict[str, Scalar]] = [{"charging": charging}] * 2
    found = await result_of(Bench(outcome=told), conditions, tmp_path, monkeypatch)
    assert found.metrics == told.metrics
    assert found.environment["energy_source"] == source


async def test_beside_a_charger_a_comparison_has_no_energy_of_a_battery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sides' sources are told once where they are the same."""
    told = builders.result()
    sides = {"a.energy_gross": JOULES, "b.energy_gross": JOULES}
    for sources, left in (
        ({"energy_source": "battery current"}, set()),
        ({"a.energy_source": "battery current", "b.energy_source": "meter"}, {"b.energy_gross"}),
    ):
        compared = told.model_copy(
            update={"metrics": sides, "environment": {**sources, "a.energy_gross_uncertainty": 0.1}}
        )
        conditions: list[dict[str, Scalar]] = [{"charging": True}] * 2
        found = await result_of(Bench(outcome=compared), conditions, tmp_path, monkeypatch)
        assert found.metrics.keys() == left
        assert "a.energy_gross_uncertainty" not in found.environment
        assert sum("energy_unknown" in name for name in found.environment) == 1


@pytest.mark.parametrize("answers", [0, 3], ids=["before the run", "after the run"])
async def test_a_phone_that_does_not_tell_its_conditions_is_suspected(
    answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its adbd answers, but what would tell them hangs; the workload has no part in it."""
    told = [Completed(0, b"", b"")] * answers
    late = RemoteFault("R58M", FaultKind.DEADLINE, "'dumpsys battery' had not ended after 15 s")
    remote = Mock(run=AsyncMock(side_effect=[*told, late]))
    suspect, phone, bench = AsyncMock(), builders.phone(), Bench()
    monkeypatch.setattr(Phones, "remote_of", lambda *_: remote)
    monkeypatch.setattr(Phones, "suspect", suspect)
    monkeypatch.setattr(PhoneRegistry, "claim", AsyncMock())
    spec = WorkerSpec(job=builders.job(device_id=phone.id), device=phone, artefact_dir="")
    runner = PhoneRunner(bench, Phones("owner", tmp_path, AsyncMock()))
    outcome = await runner.run(spec, lambda _: None)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (Blame.DEVICE, FaultKind.HUNG)
    suspect.assert_awaited_once_with(phone)
    assert (bench.known_at_start is not None) is (answers > 0)
