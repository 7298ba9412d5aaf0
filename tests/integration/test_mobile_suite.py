"""The sweep of the mobile suite that the project ships, on two virtual phones."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.sweep_file import parse_sweep
from controller.runtime.phones import StartedPhone
from tests.integration.farm import TestFarm

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]
SWEEP = Path(__file__).parents[2] / "sweeps/mobile-rapid.yaml"


def test_every_task_is_measured_on_both_phones(
    farm: TestFarm, phones: dict[str, StartedPhone]
) -> None:
    sweep = parse_sweep(SWEEP.read_bytes(), SWEEP.name)
    done = farm.cli("sweep", "submit", str(SWEEP), "--wait", timeout_s=800)
    assert done.status == 0, done.out + done.err
    sweep_id = done.out.split()[1].rstrip(":")
    found = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert sorted((r["workload"], r["scenario"], r["device"]) for r in found) == sorted(
        (task, scenario, serial)
        for task in sweep.workload
        for scenario in sweep.scenario
        for serial in phones
    )
    assert {r["validity"] for r in found} == {"VALID"}
    assert all(r["virtual"] and r["environment"]["litert"] for r in found)
