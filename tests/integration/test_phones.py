"""Sweeps on virtual phones: real adb server, real bundle, real LoadGen, through a real farm."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from agents.virtual_phone.auth import encode_public_key
from controller.runtime.phones import (
    StartedPhone,
    adb_key,
    started_phone,
)
from tests.integration.farm import TestFarm
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.farm]

SCENARIOS = ["single_stream", "offline"]


def phone_sweep(name: str, devices: list[str], **changes: object) -> dict[str, object]:
    return {
        "name": name,
        "workload": "shapes_classifier",
        "stack": "litert",
        "scenario": SCENARIOS,
        "devices": [f'device == "{device}"' for device in devices],
        "deadline_s": 200,
        **changes,
    }


@pytest.fixture(scope="module")
def results(farm: TestFarm, phones: dict[str, StartedPhone]) -> list[dict[str, object]]:
    """What a sweep over both phones and this server gave."""
    sweep_id = farm.submit(phone_sweep("phones", [*phones, farm.server()["device"]["id"]]))
    assert farm.cli("sweep", "watch", sweep_id).status == 0
    found: list[dict[str, object]] = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    return found


def listed(farm: TestFarm) -> list[dict[str, Any]]:
    statuses: list[dict[str, Any]] = farm.cli("device", "list", "--json").json
    return statuses


def test_every_phone_is_valid_in_every_scenario_and_says_virtual(
    phones: dict[str, StartedPhone], results: list[dict[str, object]]
) -> None:
    on_phones = [r for r in results if r["device_kind"] == "android"]
    assert {(r["device"], r["scenario"]) for r in on_phones} == {
        (serial, scenario) for serial in phones for scenario in SCENARIOS
    }
    assert all(r["virtual"] and r["validity"] == "VALID" for r in on_phones)
    (server,) = {r["device"] for r in results} - set(phones)
    assert all(not r["virtual"] for r in results if r["device"] == server)


def test_accuracy_is_shown_and_the_same_everywhere(results: list[dict[str, object]]) -> None:
    accuracies = {metric(result, "top1") for result in results}
    assert len(accuracies) == 1
    assert 0.8 < accuracies.pop() < 1


def test_answers_are_those_of_the_host_s_own_runtime(results: list[dict[str, Any]]) -> None:
    """Or the host was measured for so long that none could be computed, which is told."""
    in_use = "the host's cores were in use for 60 s"
    for result in results:
        facts = result["environment"]
        if facts.get("reference_unknown") == in_use:
            continue
        assert facts["reference_samples"] == 100, facts
        assert "reference_differs" not in facts
        assert metric(result, "reference_agreement") >= 0.95
    assert any("reference" in result["environment"] for result in results)


def test_stored_figures_are_loadgens(results: list[dict[str, object]]) -> None:
    for result in results:
        artefacts = result["artefacts"]
        assert isinstance(artefacts, dict)
        summary = Path(artefacts["performance_loadgen_summary"]).read_text()
        if result["scenario"] == "single_stream":
            assert metric(result, "latency_p90") == said(summary, "90.00 percentile latency") / 1e9
            assert metric(result, "latency_p50") == said(summary, "50.00 percentile latency") / 1e9
        else:
            # The summary rounds to six digits; we keep what the detailed log says.
            throughput = metric(result, "throughput")
            assert throughput == pytest.approx(said(summary, "Samples per second"), rel=1e-5)
        assert "Result is : VALID" in summary


def test_conditions_of_the_phone_are_recorded(
    phones: dict[str, StartedPhone], results: list[dict[str, object]]
) -> None:
    for result in results:
        environment = result["environment"]
        assert isinstance(environment, dict)
        assert environment["litert"] == "2.3.0"
        if result["device"] in phones:
            assert environment["thermal_status_before"] == "NONE"
            assert isinstance(environment["battery_celsius_after"], float)
            assert environment["charging_before"] is True
            assert str(environment["model"]).startswith("Virtual ")


def test_a_phone_lets_in_no_adb_server_but_its_farms(farm: TestFarm, tmp_path: Path) -> None:
    key = adb_key(farm.home)
    assert key
    assert key.read_text().strip()
    stranger = tmp_path / "adbkey.pub"
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    stranger.write_bytes(base64.b64encode(encode_public_key(other)) + b" someone@else\n")
    with started_phone("midrange", stranger, options=["--serial=PRIVATE1"]) as phone:
        said = farm.cli("phone", "connect", phone.address)
    assert said.status == 2
    assert "confirm this host's key" in said.err


def test_unauthorized_phone_is_one_clear_line(farm: TestFarm, tmp_path: Path) -> None:
    with started_phone("old", None, options=["--serial=LOCKED1", "--fault=unauthorized"]) as phone:
        said = farm.cli("phone", "connect", phone.address)
    assert said.status == 2
    assert said.err.count("\n") == 1
    assert "Confirm this host's key on the phone's screen" in said.err


def metric(result: dict[str, object], name: str) -> float:
    metrics = result["metrics"]
    assert isinstance(metrics, dict)
    return float(metrics[name]["value"])


def said(summary: str, figure: str) -> float:
    found = re.search(rf"^{figure}.*: ([\d.]+)$", summary, re.MULTILINE)
    assert found, json.dumps(summary)
    return float(found[1])


def test_a_users_program_is_measured_on_phone_and_server(
    farm: TestFarm, phones: dict[str, StartedPhone], tmp_path: Path
) -> None:
    """The shipped stack benchmark-model, with a program that prints as TensorFlow Lite's does."""
    name = next(iter(phones))
    server = farm.server()["device"]["id"]
    program = tmp_path / "benchmark_model"
    last = (
        "Inference timings in us: Init: 5, First inference: 9, Warmup (avg): 9, Inference (avg): 7"
    )
    program.write_text(f'#!/bin/sh\n[ -s "${{1#--graph=}}" ] && echo "{last}"\n')
    key = "benchmark-model/files/program"
    assert farm.cli("models", "add", str(program), "--as", key).status == 0
    own = {"stack": "benchmark-model", "scenario": "benchmark-model"}
    sweep_id = farm.submit_once_placed(phone_sweep("vendor", [name, server], **own))
    assert farm.cli("sweep", "watch", sweep_id).status == 0
    found = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    validity = {r["device"]: r["validity"] for r in found}
    assert validity.keys() == {name, server}
    assert validity[name] == "VALID"
    assert validity[server] in MET_RULES, found
    assert {r["metrics"]["latency_mean"]["value"] for r in found} == {7e-6}
    assert {r["environment"]["meets_run_rules"] for r in found} == {False}
    assert all(r["environment"]["rules"].startswith("benchmark_model's") for r in found)
