"""The main job on a real farm: what a user types, and what comes back."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from controller.contracts.run import RunState
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.rules import ALERTS, RECORDED
from controller.runtime.prometheus import Prometheus
from tests.integration.farm import (
    SHORTEST,
    SMALLEST,
    TestFarm,
    endless_sweep,
    farm_up,
    first_step,
    run,
    short_sweep,
    training_sweep,
)
from tests.support.figures import Figure
from tests.support.validity import MET_RULES
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.farm]

RESULT_KEYS = {
    "run_id",
    "cell_key",
    "device",
    "device_kind",
    "virtual",
    "workload",
    "stack",
    "scenario",
    "knobs",
    "validity",
    "reasons",
    "metrics",
    "environment",
    "attempt",
    "started_at",
}
LONG_ENOUGH_TO_TELL_S = 15.0
LAYOUTS = {
    "plain": {"memory_format": "contiguous"},
    "channels-last": {"memory_format": "channels_last"},
}


def test_submitted_sweep_gives_valid_results_and_twice_adds_nothing(
    farm: TestFarm, tmp_path: Path
) -> None:
    file = tmp_path / "sweep.yaml"
    knobs = {**SMALLEST, "steps": 4}  # without threads: as many as the device has cores
    file.write_text(json.dumps(training_sweep("main-job", knobs=knobs, recipes=LAYOUTS)))
    first = farm.cli("sweep", "submit", str(file), "--wait")
    assert first.status == 0, first.err
    assert "2 runs queued" in first.out
    assert "2 done" in first.out

    second = farm.cli("sweep", "submit", str(file))
    assert second.status == 0
    assert "0 runs queued, 2 known already" in second.out

    sweep_id = first.out.split()[1].rstrip(":")
    results = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert {r["knobs"]["memory_format"] for r in results} == {"contiguous", "channels_last"}
    for result in results:
        assert set(result) >= RESULT_KEYS
        assert result["validity"] in MET_RULES
        assert bool(result["reasons"]) == (result["validity"] == "DISTURBED")
        assert not result["virtual"]
        assert result["metrics"]["step_time"]["unit"] == "s"
        assert len(result["metrics"]["step_time"]["samples"]) == 4
        assert result["metrics"]["throughput"]["value"] > 0
        assert result["metrics"]["peak_memory"]["value"] > 2**28
        assert result["environment"]["torch"].startswith("2.13.0")
        assert result["environment"]["threads"] == len(os.sched_getaffinity(0))
        assert result["environment"]["load_before"] is not None


def test_again_measures_anew(farm: TestFarm) -> None:
    sweep = json.dumps(short_sweep("again"))
    outputs = [
        farm.cli("sweep", "submit", "-", *options, stdin=sweep).out
        for options in ((), ("--again",))
    ]
    ids = [out.split()[1] for out in outputs]
    assert ids[0] != ids[1]
    assert all("1 runs queued" in out for out in outputs)
    for sweep_id in ids:
        farm.cli("sweep", "cancel", sweep_id.rstrip(":"))


def test_the_fleet_is_listed(farm: TestFarm) -> None:
    (agent,) = farm.cli("agent", "list", "--json").json
    assert agent["online"]
    status = farm.server()
    assert status["state"] in ("ready", "busy")
    shown = farm.cli("device", "show", status["device"]["id"])
    assert shown.status == 0
    assert "cpu_model" in shown.out


def test_cancel_stops_what_runs(farm: TestFarm) -> None:
    sweep = endless_sweep("cancelled")
    sweep_id = farm.submit(sweep)
    with farm.events(sweep_id) as events:
        assert first_step(events).state is RunState.LEASED
    (worker,) = farm.processes("agents.worker")
    said = farm.cli("sweep", "cancel", sweep_id)
    assert "1 runs cancelled" in said.out
    worker.wait(timeout=PATIENCE_S)
    assert [run.state for run in farm.runs(sweep_id)] == [RunState.CANCELLED]
    assert farm.cli("sweep", "watch", sweep_id).status == 1
    again = farm.cli("sweep", "submit", "-", stdin=json.dumps(sweep))
    assert "1 of them have failed or were cancelled; to queue them again: " in again.out
    assert f"benchfarm sweep resume {sweep_id}" in again.out
    told = farm.cli("sweep", "submit", "-", "--json", stdin=json.dumps(sweep)).json
    assert (told["sweep_id"], told["new_runs"], told["known_runs"]) == (sweep_id, 0, 1)


@pytest.mark.long
def test_waiting_agent_uses_hardly_any_cpu(farm: TestFarm, figure: Figure) -> None:
    """While a CPU run is measured the agent only answers the controller every few seconds."""
    sweep_id = farm.submit(endless_sweep("quiet"))
    agent = farm.the_process("ray::AgentActor")
    with farm.events(sweep_id) as events:
        first_step(events)
        before, started = cpu_seconds(agent), time.monotonic()
        while (elapsed := time.monotonic() - started) < LONG_ENOUGH_TO_TELL_S:
            assert not next(events).state.terminal
        used = cpu_seconds(agent) - before
    farm.cli("sweep", "cancel", sweep_id)
    # Ray's own threads in every actor take about 0.7 % of a core; a polling loop takes far more.
    figure("waiting agent, share of a core", used / elapsed, "0.02")
    assert used / elapsed < 0.2


def test_selector_that_matches_nothing_names_what_excluded_each_device(farm: TestFarm) -> None:
    sweep = training_sweep("nowhere", devices='cores >= 9999 and kind == "cpu_host"')
    said = farm.cli("sweep", "submit", "-", stdin=json.dumps(sweep))
    assert said.status == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"{farm.server()['name']} is excluded by cores >= 9999 (it has " in said.err
    assert "benchfarm device list" in said.err


def test_failing_cell_is_recorded_with_blame_and_the_sweep_goes_on(farm: TestFarm) -> None:
    recipes = {
        "too many threads": {"steps": 2, "threads": 1024},
        "not installed": {"steps": 2, "stack": "ipex"},
        "fine": {"steps": 2, "threads": 1},
    }
    slow = farm.submit(endless_sweep("slow", deadline_s=5))
    mixed = farm.submit(short_sweep("mixed", knobs=SHORTEST, recipes=recipes))
    assert [farm.cli("sweep", "watch", sweep_id).status for sweep_id in (slow, mixed)] == [1, 1]
    states = [run.state for run in farm.runs(slow) + farm.runs(mixed)]
    assert states == [RunState.FAILED] * 3 + [RunState.DONE]
    failures = [failure for sweep_id in (slow, mixed) for failure in failures_of(farm, sweep_id)]
    assert [(f["blame"], f["kind"]) for f in failures] == [
        ("workload", "deadline"),
        ("user", "launch"),
        ("user", "stack_not_installed"),
    ]
    assert all("\n" not in failure["message"] for failure in failures)


def failures_of(farm: TestFarm, sweep_id: str) -> list[dict[str, str]]:
    said = farm.cli("results", "list", "--sweep", sweep_id, "--failures", "--json")
    found: list[dict[str, str]] = said.json
    return found


def test_ray_job_submit_tells_the_outcome(farm: TestFarm, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(json.dumps(short_sweep("ray-job")))
    bad.write_text("name: x\n")
    assert ray_job(farm, good) == 0
    assert ray_job(farm, bad) != 0


def test_interface_needs_the_token_and_listens_on_loopback_only(farm: TestFarm) -> None:
    url = farm.home.endpoint().url
    assert url.startswith("http://127.0.0.1:")
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = httpx.post(f"{url}/v1/sweeps", headers=headers, json={}, trust_env=False)
        assert answer.status_code == 401


def test_second_farm_beside_the_first_and_results_after_its_end(
    farm: TestFarm, tmp_path: Path
) -> None:
    options = ("--prometheus", "--metrics-address", "127.0.0.2")
    with farm_up(tmp_path / "second", *options) as second:
        assert second.cluster.ray_address != farm.cluster.ray_address
        prometheus = second.home.prometheus_url.read_text()
        again = second.cli("up", "--prometheus")  # already up: found, not started again
        assert (again.status, prometheus in again.out) == (0, True)
        rules = {
            r["name"] for g in Prometheus(prometheus).get("rules")["groups"] for r in g["rules"]
        }
        assert rules == {alert.name for alert in ALERTS} | {str(metric) for metric in RECORDED}
        assert exporters(second) == {"127.0.0.2"}
        sweep = short_sweep("second")
        sweep_id = second.submit(sweep)
        assert second.cli("sweep", "watch", sweep_id).status == 0
    (result,) = second.cli("results", "list", "--json").json
    assert result["validity"] in MET_RULES
    assert second.server()["state"] == "lost"
    said = second.cli("sweep", "submit", "-", stdin=json.dumps(sweep))
    assert said.status == 2
    assert "benchfarm up" in said.err


def exporters(farm: TestFarm) -> set[str]:
    """Return the addresses of the farm's exporters, as Prometheus is told."""
    token = {"Authorization": f"Bearer {farm.home.metrics_token.read_text()}"}
    url = farm.home.endpoint().url + TARGETS_PATH
    found = httpx.get(url, headers=token, trust_env=False).json()
    return {target.rpartition(":")[0] for group in found for target in group["targets"]}


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def ray_job(farm: TestFarm, file: Path) -> int:
    """Submit through Ray as a user would, and return the exit status."""
    ray = str(Path(sys.executable).with_name("ray"))
    address = ("--address", farm.cluster.dashboard_url)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(farm.home.ray_token)}
    command = [ray, "job", "submit", *address, "--", "benchfarm", "sweep", "submit"]
    said = run([*command, str(file), "--wait"], {**os.environ, **token})
    return said.status
