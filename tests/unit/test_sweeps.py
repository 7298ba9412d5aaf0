"""Every sweep that the project ships can be submitted as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controller.cli.kernels import sweep_of
from controller.contracts.catalog import load_catalog
from controller.contracts.kernels import KernelOperator
from controller.contracts.sweep_file import parse_sweep
from controller.scheduling.expansion import cells_of
from kernels.bench.registry import operators

ROOT = Path(__file__).parents[2]
SWEEPS = [*ROOT.glob("sweeps/*.yaml"), *ROOT.glob("controller/cli/*_sweep.yaml")]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_sweep_is_sound(path: Path) -> None:
    sweep = parse_sweep(path.read_bytes(), path.name)
    assert cells_of(sweep, load_catalog(), path.name)
    assert sweep.description or path.read_text().startswith("#")


@pytest.mark.parametrize("compiled", [False, True])
def test_a_sweep_of_kernels_has_every_operator_in_its_dtypes(compiled: bool) -> None:
    found = [KernelOperator(op=op, dtypes=o.dtypes) for op, o in operators().items()]
    printed = yaml.safe_dump(sweep_of(found, compiled=compiled), sort_keys=False)
    cells = cells_of(parse_sweep(printed.encode(), "x"), load_catalog())
    assert {cell.knobs["compiled_baseline"] for cell in cells} == {compiled}
    pairs = {(op, dtype) for op, operator in operators().items() for dtype in operator.dtypes}
    assert {(cell.knobs["op"], cell.knobs["dtype"]) for cell in cells} == pairs
    assert len(cells) == len(pairs) * 4
