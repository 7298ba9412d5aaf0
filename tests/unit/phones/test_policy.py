"""Which conditions let a run begin, and how long a phone is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from agents.attempts import phone as phone_attempts
from agents.attempts.phone import PhoneRunner
from agents.phones.conditions import other_facts
from agents.phones.discovery import Phones
from agents.phones.policy import preflight
from agents.phones.registry import PhoneRegistry
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.policy import FOLDER, Policy, load_policy
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import WorkerSpec
from tests.support import builders

GOOD: dict[str, Scalar] = {
    "battery_percent": 80,
    "battery_celsius": 27.0,
    "charging": False,
    "thermal_status": "NONE",
    "load": 0.2,
    "cores": 2,
    "airplane_mode": True,
    "screen_brightness": 0,
}


@pytest.mark.parametrize("name", ["ci", "lab", "mlperf"])
def test_every_policy_lets_a_good_phone_go(name: str) -> None:
    assert preflight(load_policy(name), GOOD).go


def test_the_scenarios_offer_every_policy_there_is() -> None:
    there = {path.stem for path in FOLDER.glob("*.yaml")}
    for name in ("single_stream", "multi_stream", "offline", "server"):
        knob = load_catalog().scenarios[name].knobs["policy"]
        assert set(knob.choices or ()) == there


def test_a_policy_of_training_judges_servers_where_it_judges_phones() -> None:
    for name in load_catalog().scenarios["training"].knobs["policy"].choices or ():
        policy = load_policy(str(name))
        assert policy.host is not None, name
        assert policy.host.enforced == policy.judges, name


def test_the_limits_are_those_of_the_run_rules() -> None:
    lab = load_policy("lab").host
    assert lab is not None
    assert (lab.most_other_cores, lab.most_steal_share) == (0.15, 0.02)
    ci = load_policy("ci").host
    assert ci is not None
    assert (ci.enforced, ci.most_other_cores, ci.most_steal_share) == (False, 0.5, 0.1)
    rests = {name: load_policy(name).rest_s for name in ("ci", "lab", "mlperf")}
    assert rests == {"ci": 0.0, "lab": 20.0, "mlperf": 20.0}


def test_ci_enforces_nothing() -> None:
    bad = GOOD | {"battery_percent": 1, "charging": True, "thermal_status": "SEVERE", "load": 9.0}
    bad |= {"battery_overridden": True, "thermal_overridden": True}
    assert preflight(load_policy("ci"), bad).go
    assert load_policy("ci").throttled is None


@pytest.mark.parametrize(
    ("policy", "change", "hopeless", "reason"),
    [
        ("mlperf", {"charging": True}, True, "the phone is charging"),
        (
            "lab",
            {"battery_percent": 5},
            True,
            "battery at 5 % is below 20 % and it is not charging",
        ),
        (
            "lab",
            {"battery_percent": 5, "charging": True},
            False,
            "battery at 5 % is below 20 %",
        ),
        ("lab", {"battery_celsius": 41.2}, False, "battery at 41.2 °C is above 38 °C"),
        ("lab", {"thermal_status": "LIGHT"}, False, "thermal status LIGHT is above NONE"),
        ("lab", {"load": 2.0}, False, "load 1 a core is above 0.5 a core"),
        ("mlperf", {"airplane_mode": False}, True, "airplane mode is off"),
        ("mlperf", {"screen_brightness": 200}, True, "brightness 200 is above 10"),
        ("lab", {"battery_overridden": True}, True, "the readings of the battery are overridden"),
        ("lab", {"thermal_overridden": True}, True, "the thermal status is overridden"),
        ("mlperf", {"thermal_overridden": True}, True, "the thermal status is overridden"),
    ],
)
def test_what_is_out_of_limits_is_named_with_both_numbers(
    policy: str, change: dict[str, Scalar], hopeless: bool, reason: str
) -> None:
    verdict = preflight(load_policy(policy), GOOD | change)
    assert verdict.reasons == (reason,)
    assert bool(verdict.hopeless) is hopeless


def test_what_a_phone_does_not_tell_is_not_held_against_it() -> None:
    assert preflight(load_policy("mlperf"), {}).go


def test_other_facts_as_a_shell_prints_them() -> None:
    text = "current_ua: -350000\nload: 0.52 0.6 0.7 1/300 999\nmemory_kb: 812345\n"
    text += (
        "airplane_mode: 1\nscreen_brightness: null\ngovernor_cpu0: schedutil\nkhz_cpu0: 500000\n"
    )
    assert other_facts(text, 2) == {
        "cores": 2,
        "load": 0.52,
        "battery_current_ua": -350000,
        "memory_available_kb": 812345,
        "khz_cpu0": 500000,
        "airplane_mode": True,
        "governor": "schedutil",
    }


@pytest.mark.parametrize(
    ("said", "percent", "kept"),
    [
        ("current_ua: 9999", None, {}),
        ("current_ua: -10000", None, {"battery_current_ua": -10_000}),
        ("charge_uah: 2100", 50, {}),
        ("charge_uah: 2100", None, {}),
        ("charge_uah: 2100000000", None, {}),
        ("charge_uah: 100000", None, {"battery_charge_uah": 100_000}),
        ("charge_uah: 45000", 1, {"battery_charge_uah": 45_000}),
        ("charge_uah: 16000000", 50, {}),
    ],
)
def test_a_battery_has_no_current_or_charge_in_another_unit(
    said: str, percent: float | None, kept: dict[str, Scalar]
) -> None:
    assert other_facts(said, None, percent) == kept


class Bench:
    async def run(self, spec: WorkerSpec, on_progress: object) -> Outcome:
        return builders.result()

    async def clean(self) -> int:
        return 0


async def outcome_of(
    readings: Sequence[dict[str, Scalar]],
    policy: Policy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    locked_s: float = 0.0,
) -> tuple[Outcome, list[str], list[float]]:
    """Run once on a phone whose conditions are read in this order, the last for ever.

    locked_s: how long another farm has the host's cores whenever they are asked for.
    """
    left, phases, slept = list(readings), list[str](), list[float]()

    async def read_conditions(*_: object, **__: object) -> dict[str, Scalar]:
        return left.pop(0) if len(left) > 1 else left[0]

    async def announce(_: object) -> None: ...

    now = [0.0]

    def monotonic() -> float:
        now[0] += 1.0
        return now[0]

    @asynccontextmanager
    async def exclusive_cores(*_: object, **__: object) -> AsyncIterator[None]:
        now[0] += locked_s
        yield

    monkeypatch.setattr(phone_attempts, "exclusive_cores", exclusive_cores)
    monkeypatch.setattr(phone_attempts, "read_conditions", read_conditions)
    monkeypatch.setattr(Phones, "remote_of", lambda *_: object())
    monkeypatch.setattr(PhoneRegistry, "claim", AsyncMock())
    monkeypatch.setattr("agents.attempts.phone.time.monotonic", monotonic)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("agents.attempts.phone.asyncio.sleep", sleep)
    phones = Phones("owner", tmp_path, announce)
    phone = builders.phone()
    spec = WorkerSpec(job=builders.job(device_id=phone.id), device=phone, artefact_dir="")
    tell = PhoneRunner(Bench(), phones, policy_of=lambda _: policy)
    outcome = await tell.run(spec, lambda progress: phases.append(progress.phase))
    monkeypatch.undo()
    await asyncio.sleep(0)
    return outcome, phases, slept


async def test_a_hot_phone_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = GOOD | {"battery_celsius": 44.0}
    outcome, phases, slept = await outcome_of(
        [hot, hot, GOOD], load_policy("lab"), tmp_path, monkeypatch
    )
    assert isinstance(outcome, Result)
    assert phases == ["cool-down", "cool-down"]
    assert slept == [5.0, 5.0]
    waited_for = outcome.environment["preflight_waited_for"]
    assert waited_for == ("battery at 44 °C is above 38 °C",)


async def test_a_phone_that_stays_hot_is_refused_after_the_policys_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy("lab").model_copy(update={"wait_s": 3.0})
    hot = GOOD | {"thermal_status": "SEVERE"}
    outcome, _, _ = await outcome_of([hot], policy, tmp_path, monkeypatch)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (Blame.USER, "preflight")
    assert "policy lab: thermal status SEVERE is above NONE at 20" in outcome.message
    assert "after waiting 3 s" in outcome.message


async def test_a_wait_for_the_hosts_cores_is_none_for_the_phone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual phone behind another farm was refused at its first objection."""
    policy = load_policy("lab").model_copy(update={"wait_s": 3.0})
    hot = GOOD | {"battery_celsius": 44.0}
    outcome, _, _ = await outcome_of([hot, hot, GOOD], policy, tmp_path, monkeypatch, 600.0)
    assert isinstance(outcome, Result)
    assert outcome.environment["preflight_waited_s"] == 2.0
    outcome, _, slept = await outcome_of([hot], policy, tmp_path, monkeypatch, 600.0)
    assert isinstance(outcome, Failure)
    assert "after waiting 3 s" in outcome.message
    assert slept == [5.0, 5.0, 5.0]


async def test_a_phone_that_will_not_come_into_its_limits_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = GOOD | {"battery_percent": 5}
    outcome, phases, slept = await outcome_of([empty], load_policy("lab"), tmp_path, monkeypatch)
    assert isinstance(outcome, Failure)
    assert "battery at 5 % is below 20 % and it is not charging" in outcome.message
    assert (phases, slept) == ([], [])
