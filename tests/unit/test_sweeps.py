"""Every sweep that the project ships can be submitted as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.sweep_file import parse_sweep
from controller.scheduling.expansion import cells_of

ROOT = Path(__file__).parents[2]
SWEEPS = [*ROOT.glob("sweeps/*.yaml"), ROOT / "controller/cli/demo_sweep.yaml"]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_sweep_is_sound(path: Path) -> None:
    sweep = parse_sweep(path.read_bytes(), path.name)
    assert cells_of(sweep, load_catalog(), path.name)
    assert sweep.description or path.read_text().startswith("#")
