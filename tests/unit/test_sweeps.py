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


def test_kernels_are_set_against_compiled_references_by_the_line_that_says_so() -> None:
    text = (ROOT / "sweeps/kernels.yaml").read_text()
    sweep = parse_sweep(text.replace("# compiled_baseline", "compiled_baseline").encode(), "x")
    cells = cells_of(sweep, load_catalog())
    assert {cell.knobs["compiled_baseline"] for cell in cells} == {True}
