"""Top-down shares by perf: whether it can count is tried, and why it can't is kept."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents.profiling.perf_stat import Perf, PerfSession, counted_by, probe, why_not
from controller.contracts.topdown import TopDown
from tests.support.fake_perf import (
    ICE_LAKE,
    NOT_SUPPORTED,
    SAPPHIRE_RAPIDS,
    SYSTEM_WIDE,
    ZEN_4,
    Recorded,
    fake_perf,
)

SHARES = {
    "retiring": 0.30,
    "bad_speculation": 0.05,
    "frontend_bound": 0.15,
    "backend_bound": 0.50,
}
LEVEL_2 = "--topdown --td-level=2 --no-metric-only"
PIPELINE = "-M PipelineL1,PipelineL2"


def machine(folder: Path, paranoid: str = "2", *, pmu: bool = True) -> tuple[Path, Path]:
    """Plant what a kernel shows of its counters: the level, and sources of events."""
    devices, level = folder / "devices", folder / "perf_event_paranoid"
    for name in ("software", *(["cpu"] if pmu else [])):
        (devices / name).mkdir(parents=True)
    level.write_text(f"{paranoid}\n")
    return level, devices


@pytest.mark.parametrize(
    ("form", "printed", "heavy"),
    [
        pytest.param(LEVEL_2, SAPPHIRE_RAPIDS, 0.04, id="Sapphire Rapids"),
        pytest.param("--topdown", ICE_LAKE, None, id="Ice Lake"),
        pytest.param(PIPELINE, ZEN_4, None, id="Zen 4"),
    ],
)
def test_a_perf_that_counts_is_found_and_counts_while_enabled(
    tmp_path: Path, form: str, printed: str, heavy: float | None
) -> None:
    log = fake_perf(tmp_path, {form: (printed, "", 0)}, SYSTEM_WIDE)
    perf = probe(str(tmp_path), *machine(tmp_path))
    assert perf == Perf(str(tmp_path / "perf"), tuple(form.split()))
    assert isinstance(perf, Perf)
    session = PerfSession(perf, tmp_path / "forward.csv")
    session.enable()
    session.disable()
    found = session.end()
    assert isinstance(found, TopDown)
    assert {name: found.shares[name] for name in SHARES} == pytest.approx(SHARES)
    assert found.shares.get("heavy_operations") == heavy
    assert found.source == f"perf stat {form}"
    assert bool(found.notes) is (printed == ZEN_4)
    assert json.loads(log.read_text()) == ["forward", "enable", "disable"]


def test_one_phase_counts_at_a_time(tmp_path: Path) -> None:
    log = fake_perf(tmp_path, {LEVEL_2: (SAPPHIRE_RAPIDS, "", 0)})
    perf = probe(str(tmp_path), *machine(tmp_path))
    assert isinstance(perf, Perf)
    with counted_by(perf, ["forward", "backward"], tmp_path) as (phases, found):
        for phase in ("load", "forward", "backward", "backward", "", "forward"):
            phases.enter(phase)
    assert list(found) == ["forward", "backward"]
    assert all(isinstance(told, TopDown) for told in found.values())
    orders = {name: rest for name, *rest in map(json.loads, log.read_text().splitlines())}
    assert orders == {
        "topdown-forward": ["enable", "disable"] * 2,
        "topdown-backward": ["enable", "disable"],
    }


REFUSED = "Access to performance monitoring is limited.\nperf_event_paranoid setting is 4\n"


@pytest.mark.parametrize(
    ("answer", "pmu", "why"),
    [
        pytest.param(None, True, "perf is not installed; the CPU has counters", id="no perf"),
        pytest.param(None, False, "(no PMU), as in most virtual machines; perf is not", id="none"),
        pytest.param(NOT_SUPPORTED, False, "the kernel has no counters of this CPU", id="no PMU"),
        pytest.param(("", REFUSED, 255), True, "perf_event_paranoid is 4", id="refused"),
        pytest.param(SYSTEM_WIDE, True, "it said: top down event", id="another reason"),
        pytest.param(NOT_SUPPORTED, True, "counts no top-down shares", id="nothing counted"),
    ],
)
def test_why_perf_does_not_count_is_told(
    tmp_path: Path, answer: Recorded | None, *, pmu: bool, why: str
) -> None:
    if answer:
        fake_perf(tmp_path, {}, answer)
    found = probe(str(tmp_path), *machine(tmp_path, "4", pmu=pmu))
    assert isinstance(found, str)
    assert why in found
    assert "\n" not in found


def test_a_perf_that_has_ended_is_an_error_not_a_hang(tmp_path: Path) -> None:
    fake_perf(tmp_path, {}, SYSTEM_WIDE)
    session = PerfSession(Perf(str(tmp_path / "perf"), ("--topdown",)), tmp_path / "it.csv")
    with pytest.raises(OSError, match=r"ended|Broken pipe"):
        session.enable()
    assert "requires system-wide mode" in str(session.end())


def test_this_machine_s_own_answer_is_a_perf_or_one_line() -> None:
    """Whatever runs the tests: with counters or, as a virtual machine, without."""
    found = probe()
    if isinstance(found, Perf):
        command = (found.program, "stat", "-x,", *found.form, "--", "true")
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    else:
        assert found
        assert "\n" not in found


def test_an_unknown_level_is_said_to_be_so(tmp_path: Path) -> None:
    _, devices = machine(tmp_path)
    told = why_not("Permission denied", tmp_path / "none", devices)
    assert told.endswith("perf_event_paranoid is not known")
    assert os.sep not in told
