"""Phases of a step in a trace, also of a stack that replaces what torch would mark."""

from __future__ import annotations

from pathlib import Path

from controller.profiles.model import LOAD
from controller.profiles.reading import read_trace
from tests.unit.profiles.conftest import run_module

PHASES = {LOAD, "forward", "loss", "backward", "optimizer"}


def phases_of(folder: Path, kernel: str) -> set[str]:
    """Return the phases in which a kernel ran; all phases must have kernels."""
    places = read_trace(folder / "trace.json").found.kernels
    assert {place.phase for place in places} >= PHASES
    return {place.phase for place in places if place.kernel == kernel}


def test_torch_s_optimizer_is_a_phase_of_its_own(profiled: Path) -> None:
    assert "optimizer" in phases_of(profiled, "aten::add_")


def test_a_step_that_a_stack_put_in_its_place_is_one_too(tmp_path: Path) -> None:
    run_module("replaced_step", tmp_path)
    assert phases_of(tmp_path, "aten::addcmul_") == {"optimizer"}
