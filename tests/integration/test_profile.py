"""Profiles through a real farm: what a user types, what comes back, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.profiles.files import read
from tests.integration.farm import TestFarm
from tests.support.figures import Figure

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

THREADS = ("--knob", "threads=1")
"""What peaks are kept by, too."""
SMALL = ("--knob", "image_size=64", "--knob", "batch_size=2", "--knob", "warmup_steps=1", *THREADS)


@pytest.fixture(scope="module")
def folder(farm: TestFarm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of a small step of ResNet-18."""
    folder = tmp_path_factory.mktemp("profiled") / "resnet18"
    run = ("profile", "run", "resnet18", "--stack", "torch", "-o", str(folder))
    said = farm.cli(*run, *SMALL, "--knob", "steps=2")
    assert said.status == 0, said.err
    for part in ("ops: time of their own", "primitives: time in oneDNN", "explained:", "headroom"):
        assert part in said.out
    return folder


def test_time_is_explained_matched_and_replayed(folder: Path, figure: Figure) -> None:
    summary = read(folder).summary
    assert summary.steps == 2
    # Python has a larger part of so small a step than of one that is worth profiling.
    assert summary.explained
    figure("share of a small step of ResNet-18 in named ops", summary.explained, "0.8")
    assert summary.explained > 0.5
    assert summary.matched
    assert summary.matched >= 0.98
    assert summary.replayed
    assert summary.replayed > 0.95
    assert summary.efficiency
    assert summary.efficiency_low
    assert summary.efficiency_high
    assert summary.efficiency_low <= summary.efficiency <= summary.efficiency_high
    assert {row.place.phase for row in read(folder).kernels} >= {"forward", "loss", "backward"}


def test_result_and_metrics_have_the_profile(farm: TestFarm, folder: Path) -> None:
    (stored,) = [
        one for one in farm.cli("results", "list", "--json").json if one["profile"] is not None
    ]
    summary: dict[str, Any] = read(folder).summary.model_dump(mode="json")
    assert stored["profile"] == summary
    assert stored["metrics"]["efficiency"]["value"] == summary["efficiency"]
    assert stored["metrics"]["step_time"]["value"] == summary["step_s"]


def test_peaks_are_those_that_the_profile_was_measured_by(farm: TestFarm, folder: Path) -> None:
    summary = read(folder).summary
    said = farm.cli("machine", "peaks", *THREADS, "--json")
    if summary.peaks is None:  # others used the machine, and may still do
        assert any("no peaks are known, and the measurement was" in note for note in summary.notes)
        assert summary.headroom_s is None
        assert said.status == 0 or "cannot measure this host's peaks" in said.err
        return
    assert said.status == 0, said.err
    assert said.json == summary.peaks.model_dump(mode="json")
    assert summary.peaks.gemm_flops.keys() == {"f32", "bf16"}
    assert summary.peaks.roofs.keys() == {"f32", "bf16", "copy", "update"}
    shown = farm.cli("machine", "peaks", *THREADS).out
    for text in ("GFLOP/s", "stack torch", "matrix product, bf16"):
        assert text in shown
