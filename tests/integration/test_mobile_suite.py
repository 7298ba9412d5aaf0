"""The sweep of the mobile suite that the project ships, once for two virtual phones."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.sweep_file import parse_sweep
from controller.runtime.phones import StartedPhone
from tests.integration.farm import TestFarm

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.long]
SWEEP = Path(__file__).parents[2] / "sweeps/mobile-rapid.yaml"


def test_every_task_is_measured(
    farm: TestFarm, phones: dict[str, StartedPhone], tmp_path: Path
) -> None:
    once = tmp_path / SWEEP.name
    # On each phone it would take four minutes; test_phones has runs on both.
    once.write_text(SWEEP.read_text().replace("run_on: each", "run_on: any"))
    sweep = parse_sweep(once.read_bytes(), once.name)
    done = farm.cli("sweep", "submit", str(once), "--wait", timeout_s=800)
    assert done.status == 0, done.out + done.err
    sweep_id = done.out.split()[1].rstrip(":")
    found = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert sorted((r["workload"], r["scenario"]) for r in found) == sorted(
        (task, scenario) for task in sweep.workload for scenario in sweep.scenario
    )
    assert {r["device"] for r in found} <= set(phones)
    assert {r["validity"] for r in found} == {"VALID"}
    assert all(r["virtual"] and r["environment"]["litert"] for r in found)
