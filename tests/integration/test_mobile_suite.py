"""The mobile suite's tasks on two virtual phones: one of this host's processor, one of arm64."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.sweep_file import parse_sweep
from controller.runtime.phones import StartedPhone
from controller.scheduling.emulation import REASON
from tests.integration.farm import TestFarm, joined_phone
from tests.support.emulated import skip_without_arm64

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.long]
SWEEP = Path(__file__).parents[2] / "sweeps/mobile-rapid.yaml"


@pytest.fixture(scope="module")
def arm64(farm: TestFarm) -> Iterator[StartedPhone]:
    """An arm64 phone, registered."""
    skip_without_arm64(farm.environment["PATH"])
    with joined_phone(farm, "flagship-arm64") as phone:
        yield phone


def test_every_task_answers_on_arm64_as_it_does_here(
    farm: TestFarm, phones: dict[str, StartedPhone], arm64: StartedPhone, tmp_path: Path
) -> None:
    """Each runs once on each: what the shipped sweep has on every phone would take minutes more."""
    tasks = parse_sweep(SWEEP.read_bytes(), SWEEP.name).workload
    emulated, here = str(arm64.facts["serial"]), next(iter(phones))
    shared = {"stack": "litert", "deadline_s": 600, "workload": tasks, "run_on": "each"}
    knobs = {"length": "rapid", "policy": "ci", "mode": "submission"}
    for device, scenario in ((emulated, "single_stream"), (here, "offline")):
        which = {"name": scenario, "scenario": scenario, "devices": [f'device == "{device}"']}
        file = tmp_path / f"{scenario}.json"
        file.write_text(json.dumps({**shared, **which, "knobs": knobs}))
        done = farm.cli("sweep", "submit", str(file), "--wait", timeout_s=1500)
        # 1: none of an emulated device is VALID.
        assert done.status == (1 if device == emulated else 0), done.out + done.err
    found = farm.cli("results", "list", "--json").json
    on_arm64 = {r["workload"]: r for r in found if r["device"] == emulated}
    on_host = {r["workload"]: r for r in found if r["device"] == here}
    assert set(on_arm64) == set(on_host) == set(tasks)

    for task, result in on_host.items():
        assert (result["validity"], result["virtual"]) == ("VALID", True), result["reasons"]
        quality = load_catalog().workloads[task].quality_target
        assert quality is not None
        ours, theirs = (r["metrics"][quality.metric]["value"] for r in (result, on_arm64[task]))
        # Sums are added in another order there: a float32's last bits, of an average of few.
        assert theirs == pytest.approx(ours, rel=1e-4), task
    for result in on_arm64.values():
        # LoadGen's own verdict has no objection: the only one is that it is emulated.
        assert (result["validity"], result["reasons"]) == ("INVALID", [REASON])
        environment = result["environment"]
        assert (result["virtual"], environment["emulated"]) == (True, True)
        assert environment["abi"] == "arm64-v8a"
        assert environment["emulator"].startswith("qemu-aarch64 ")
        log = Path(result["artefacts"]["performance_loadgen_detail"]).read_text()
        assert '"key": "result_validity", "value": "VALID"' in log
