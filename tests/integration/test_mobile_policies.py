"""Phones in bad conditions under each policy: real adb server, bundle and LoadGen."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from agents.attempts import on_device
from agents.virtual_phone import control
from agents.virtual_phone.profiles import FOLDER
from controller.contracts import policy as policies
from controller.contracts.base import Scalar
from controller.contracts.result import Failure, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.runtime.home import Home
from tests.support.figures import Figure
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.phone_runs import run_cell
from tests.support.virtual_phone import RunningPhone, running_phone

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    """A flagship that heats and cools in seconds, and is on battery."""
    profile = yaml.safe_load((FOLDER / "flagship.yaml").read_text())
    for zone in profile["thermal"]["zones"]:
        zone["tau_s"] = 1.5
    profile["battery"]["charging"] = False
    path = tmp_path_factory.mktemp("profile") / "quick.yaml"
    path.write_text(yaml.safe_dump(profile))
    serial = f"--serial=POLICY{os.getpid()}"
    with running_phone(str(path), tmp_path_factory.mktemp("phone"), serial) as running:
        yield running


@pytest.fixture
async def agent(
    phone: RunningPhone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LoopAgent]:
    wait_for_nobody(monkeypatch, tmp_path)
    rests = {
        name: policies.load_policy(name).model_copy(update={"rest_s": 7.0})
        for name in ("ci", "lab", "mlperf")
    }
    monkeypatch.setattr(on_device, "load_policy", rests.__getitem__)
    async with agent_with(phone, Home(tmp_path / "home")) as agent:
        yield agent


async def conditions(phone: RunningPhone, **changes: object) -> None:
    usual: dict[str, object] = {"battery_percent": 80.0, "charging": False}
    wanted = control.SetConditions.model_validate(usual | changes)
    await control.ask(phone.folder, wanted)


async def run_on(
    agent: LoopAgent, policy: str, folder: Path, **limits: object
) -> tuple[Outcome, list[str]]:
    """Run the detector's surrogate once, rapid, under a policy with other limits."""
    # The host's load is not the phone's doing, and it is other tests' too.
    limits = {"most_load_per_core": None, "ask_every_s": 0.3, **limits}
    chosen = policies.load_policy(policy).model_copy(update=limits)
    knobs: dict[str, Scalar] = {"policy": policy, "mode": "performance"}
    return await run_cell(agent, folder, "mobiledet_surrogate", knobs=knobs, policy=chosen)


async def test_a_phone_at_5_percent_is_refused_at_once(
    agent: LoopAgent, phone: RunningPhone, tmp_path: Path
) -> None:
    await conditions(phone, battery_percent=5.9)  # levels are told as whole percent, rounded down
    outcome, phases = await run_on(agent, "lab", tmp_path)
    assert isinstance(outcome, Failure), outcome
    assert outcome.kind == "preflight"
    expected = "policy lab: battery at 5 % is below 20 % and it is not charging at 20"
    assert outcome.message.startswith(f"cannot run under {expected}")
    assert phases == []


async def test_a_phone_that_charges_is_refused_by_mlperf_and_measured_by_ci(
    agent: LoopAgent, phone: RunningPhone, tmp_path: Path
) -> None:
    await conditions(phone, charging=True)
    refused, _ = await run_on(agent, "mlperf", tmp_path / "a")
    assert isinstance(refused, Failure)
    assert refused.message.startswith("cannot run under policy mlperf: the phone is charging at 20")
    measured, _ = await run_on(agent, "ci", tmp_path / "b")
    assert isinstance(measured, Result), measured
    assert measured.validity is Validity.VALID
    assert "energy_gross" not in measured.metrics
    assert measured.environment["energy_unknown"] == "the phone was being charged"


async def test_a_hot_phone_is_waited_for_until_it_has_cooled_down(
    agent: LoopAgent, phone: RunningPhone, tmp_path: Path, figure: Figure
) -> None:
    await conditions(phone, temperatures_c={"battery": 60.0, "skin": 60.0})
    outcome, phases = await run_on(agent, "lab", tmp_path, throttled=None)
    assert isinstance(outcome, Result), outcome
    assert "cool-down" in phases
    waited_s = outcome.environment["preflight_waited_s"]
    assert isinstance(waited_s, float)
    # From 60 to 38 °C with 1.5 s, at 27 °C at rest: 1.6 s, of which a busy machine misses some.
    assert waited_s > 0
    assert "°C is above 38 °C" in str(outcome.environment["preflight_waited_for"])
    assert 0 < outcome.metrics["energy"].value < outcome.metrics["energy_gross"].value
    assert outcome.metrics["energy"].unit is Unit.JOULES_PER_QUERY
    assert str(outcome.environment["energy_source"]).startswith("battery ")
    idle_watts = outcome.environment["idle_watts"]
    assert isinstance(idle_watts, float)
    assert 0.1 < idle_watts < 5
    share = outcome.environment["sampler_cpu_share"]
    assert isinstance(share, float)
    figure("sampling of conditions, share of a core", share, "0.005")
    assert share < 0.05


async def test_a_phone_that_stays_hot_is_refused_when_the_time_is_over(
    agent: LoopAgent, phone: RunningPhone, tmp_path: Path
) -> None:
    # It cools by half in a second: so hot that it takes half a minute.
    await conditions(phone, temperatures_c={"battery": 1e9, "skin": 1e9})
    outcome, _ = await run_on(agent, "lab", tmp_path, wait_s=1.0)
    assert isinstance(outcome, Failure)
    assert "thermal status " in outcome.message
    assert "is above NONE" in outcome.message
    # A second, and what asking took on a machine that others use.
    assert re.search(r"after waiting [1-9]\d* s", outcome.message)


async def test_a_phone_that_heats_while_it_is_measured_is_invalid_with_the_moment(
    agent: LoopAgent, phone: RunningPhone, tmp_path: Path
) -> None:
    async def heat() -> None:
        """Hold it hot once the run has begun; its model would cool it in seconds."""
        while True:
            if (await control.ask(phone.folder, control.GetStatus())).processes > 3:
                # Until the next time, half a second of its model's cooling may be seen.
                await conditions(phone, temperatures_c={"skin": 58.0})
            await asyncio.sleep(0.1)

    await conditions(phone, temperatures_c={"battery": 27.0, "skin": 27.0})
    warming = asyncio.create_task(heat())
    try:
        outcome, _ = await run_on(agent, "lab", tmp_path)
    finally:
        warming.cancel()
    assert isinstance(outcome, Result), outcome
    assert outcome.validity is Validity.INVALID
    hot = "(MODERATE|SEVERE|CRITICAL|EMERGENCY)"
    told = rf"policy lab: throttled: thermal status {hot} from \d+\.\d s on"
    assert any(re.fullmatch(told, reason) for reason in outcome.reasons), outcome.reasons
