"""The mobile suite's tasks on virtual phones: behind each kind of daemon, and on arm64."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.virtual_phone import control
from controller.contracts.catalog import load_catalog
from controller.contracts.run import AttemptState, Run
from controller.contracts.sweep_file import parse_sweep
from controller.loadgen.logs import DetailLog, objections
from controller.runtime.phones import StartedPhone, adb_key, await_devices, started_phone
from controller.scheduling.emulation import REASON
from tests.integration.farm import Said, TestFarm, joined_phone
from tests.support.emulation import skip_without_arm64
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]
SWEEP = Path(__file__).parents[2] / "sweeps/mobile-rapid.yaml"
TASKS = set(parse_sweep(SWEEP.read_bytes(), SWEEP.name).workload)
KNOBS = {"length": "rapid", "policy": "ci"}
TIMED = {"mobilebert_surrogate", "mobiledet_surrogate"}
"""Tasks that are timed, too: those whose answers take least. All are asked for their answers."""
MODES = {"accuracy": sorted(TASKS - TIMED), "submission": sorted(TIMED)}
OLD, RESTARTING, LATE = "VIRTUALOLD1", "VIRTUALRESTARTING1", "VIRTUALBARE1"
LOCKED = "VIRTUALLOCKED1"
CONFIRM = "confirm this host's key on"


@dataclass(frozen=True, slots=True)
class Behind:
    """What a sweep behind daemons came to, and what was said of the phones that were locked."""

    runs: Sequence[Run]
    results: Sequence[dict[str, Any]]
    said: Mapping[str, Said]
    locked: str
    """The address of the phone that stays locked."""

    def of(self, device: str) -> dict[str, dict[str, Any]]:
        """Return a device's results by task."""
        return {r["workload"]: r for r in self.results if r["device"] == device}


@pytest.fixture(scope="module")
def behind(farm: TestFarm) -> Behind:
    """Run the suite on a phone of each kind of daemon; the key of the bare one is given late."""
    said = dict[str, Said]()
    with ExitStack() as there:
        for profile in ("old", "restarting"):
            there.enter_context(joined_phone(farm, profile))
        late = there.enter_context(started_phone("bare", None))
        locked = there.enter_context(started_phone("locked", adb_key(farm.home)))
        for phone in (late, locked):
            said[f"connect {phone.facts.serial}"] = farm.cli("phone", "connect", phone.address)
        said["phone list"] = farm.cli("phone", "list", "--json")
        said["device list"] = farm.cli("device", "list")
        said["doctor"] = farm.cli("phone", "doctor", locked.address, "--json")
        confirm_key(late)
        await_devices(farm.home, [LATE])
        said["sweep on locked"] = submitted(farm, "locked", "offline", LOCKED, mode="accuracy")
        sweeps = list[str]()
        for mode in MODES:
            done = submitted(farm, "behind", "offline", OLD, RESTARTING, LATE, mode=mode)
            assert done.status == 0, done.out + done.err
            sweeps.append(done.out.split()[1].rstrip(":"))
        found = [
            r for s in sweeps for r in farm.cli("results", "list", "--sweep", s, "--json").json
        ]
        said["clean"] = farm.cli("phone", "clean", LATE)
        said["device list, after"] = farm.cli("device", "list", "--json")
        for phone in (late, locked):
            assert farm.cli("phone", "disconnect", phone.address).status == 0
    runs = [run for sweep_id in sweeps for run in farm.runs(sweep_id)]
    return Behind(runs, found, said, locked.address)


def confirm_key(phone: StartedPhone) -> None:
    """Answer the question on a phone's screen with yes, once it is there."""
    folder = Path(phone.facts.folder)
    eventually(lambda: asyncio.run(control.ask(folder, control.GetStatus())).asking, "it asks")
    asyncio.run(control.ask(folder, control.AllowHost()))


def submitted(farm: TestFarm, name: str, scenario: str, *devices: str, mode: str) -> Said:
    """Submit a mode's tasks, once on each device, and wait for the end."""
    selector = " or ".join(f'device == "{device}"' for device in devices)
    sweep = {"name": name, "workload": MODES[mode], "stack": "litert", "scenario": scenario}
    knobs = {**KNOBS, "mode": mode}
    where = {"devices": selector, "run_on": "each", "deadline_s": 600, "knobs": knobs}
    words = ("sweep", "submit", "-", "--wait")
    return farm.cli(*words, stdin=json.dumps({**sweep, **where}), timeout_s=1500)


@pytest.mark.parametrize("device", [OLD, RESTARTING, LATE])
def test_every_task_is_valid_behind_a_daemon(behind: Behind, device: str) -> None:
    found = behind.of(device)
    assert set(found) == TASKS
    assert all((r["validity"], r["virtual"]) == ("VALID", True) for r in found.values())
    compared = [r for r in found.values() if "reference_unknown" not in r["environment"]]
    assert all(r["metrics"]["reference_agreement"]["value"] >= 0.95 for r in compared)
    told = {(r["environment"]["shell_v2"], r["environment"]["android"]) for r in found.values()}
    assert told == {{OLD: (False, 5.1), RESTARTING: (True, 9.0), LATE: (True, 8.1)}[device]}


def test_a_result_names_the_checksum_that_vouches_for_its_written_set(behind: Behind) -> None:
    workloads = load_catalog().workloads
    for task, result in behind.of(OLD).items():
        device = workloads[task].on_device
        assert device
        written = device.datasets[result["knobs"]["dataset"]]
        assert written.kind == "written"
        assert result["environment"]["dataset_origin"] == written.checksum


def test_what_a_daemon_that_restarts_has_cut_is_valid_the_second_time(behind: Behind) -> None:
    attempts = {run.cell.workload: run.attempts for run in behind.runs if was_on(run, RESTARTING)}
    (cut,) = [task for task, tries in attempts.items() if len(tries) > 1]
    states = [attempt.state for attempt in attempts[cut]]
    assert states == [AttemptState.FAILED, AttemptState.SUCCEEDED]
    assert behind.of(RESTARTING)[cut]["environment"]["pushed_bytes"] == 0, "it was there already"


def was_on(run: Run, device: str) -> bool:
    return {attempt.device_id for attempt in run.attempts} == {device}


def test_a_phone_whose_key_is_not_confirmed_is_named_first_and_gets_no_run(behind: Behind) -> None:
    said = behind.said
    for serial in (LATE, LOCKED):
        refused = said[f"connect {serial}"]
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert CONFIRM in refused.err
    listed = said["phone list"].json
    assert [bool(row["complaint"]) for row in listed] == [True, True, False, False]
    assert behind.locked in [row["serial"] for row in listed[:2]]
    lines = said["device list"].err.splitlines()
    assert all(CONFIRM in line for line in lines), lines
    assert sum(behind.locked in line for line in lines) == 1
    assert said["doctor"].status == 1
    assert CONFIRM in said["doctor"].json[0]["remedy"]
    refused = said["sweep on locked"]
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    known = {one["device"]["id"] for one in said["device list, after"].json}
    assert known >= {OLD, RESTARTING, LATE}
    assert LOCKED not in known


def test_a_phone_is_cleaned_of_what_runs_have_left(behind: Behind) -> None:
    assert behind.said["clean"].status == 0, behind.said["clean"].err
    assert re.fullmatch(rf"{LATE}: \d{{3}}\.\d MB freed\n", behind.said["clean"].out)


@pytest.fixture(scope="module")
def arm64(farm: TestFarm) -> Iterator[StartedPhone]:
    """An arm64 phone, registered."""
    skip_without_arm64(farm.environment["PATH"])
    with joined_phone(farm, "flagship-arm64") as phone:
        yield phone


def test_every_task_answers_on_arm64_as_it_does_here(
    farm: TestFarm, behind: Behind, arm64: StartedPhone
) -> None:
    """Each runs once on each: what the shipped sweep has on every phone would take minutes more."""
    emulated = arm64.facts.serial
    for mode in MODES:
        done = submitted(farm, "emulated", "single_stream", emulated, mode=mode)
        assert done.status == 1, f"none of an emulated device is VALID: {done.out}{done.err}"
    found = farm.cli("results", "list", "--json").json
    on_arm64 = {r["workload"]: r for r in found if r["device"] == emulated}
    assert set(on_arm64) == TASKS

    for task, result in behind.of(LATE).items():
        quality = load_catalog().workloads[task].quality_target
        assert quality is not None
        ours, theirs = (r["metrics"][quality.metric]["value"] for r in (result, on_arm64[task]))
        # Sums are added in another order there: a float32's last bits, of an average of few.
        assert theirs == pytest.approx(ours, rel=1e-4), task
    for task, result in on_arm64.items():
        log = result["artefacts"].get("performance_loadgen_detail")
        assert (log is not None) == (task in TIMED)
        assert result["reasons"] == [*(objections_of(Path(log)) if log else ()), REASON]
        assert result["validity"] == "INVALID"
        environment = result["environment"]
        assert (result["virtual"], environment["emulated"]) == (True, True)
        assert environment["abi"] == "arm64-v8a"
        assert environment["emulator"].startswith("qemu-aarch64 ")


def objections_of(path: Path) -> Sequence[str]:
    """Return what LoadGen objects to: that a minute is short for an emulator, at most."""
    log = DetailLog.parse(path.read_text())
    assert all("Max test duration reached" in error for error in log.errors)
    assert log["result_validity"] == ("INVALID" if log.errors else "VALID")
    return objections(log)
