"""Every operator of kernels/ops has its record, its case and its steps for the sanitizers."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path

import pytest

import kernels
from kernels import build
from kernels.bench.registry import operators
from kernels.op import Op
from tests.support.sanitized.steps import STEPS


def exported() -> set[str]:
    """Return the names of what the library exports, without type and variant."""
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(build.LIBRARY)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    symbols = [line.split()[2] for line in listed.splitlines() if line.split()[1] == "D"]
    suffixes = [f"_{t}_{v}" for v in build.VARIANTS for t in ("f32", "bf16")]
    return {symbol.removesuffix(s) for symbol in symbols for s in suffixes if symbol.endswith(s)}


@pytest.mark.parametrize("name", kernels.OPERATORS)
def test_an_operator_has_all_that_one_needs(name: str) -> None:
    module = import_module(f"kernels.ops.{name}")
    assert getattr(kernels, name) is getattr(module, name)
    op = module.OP
    assert isinstance(op, Op)
    assert op.reference.__module__.startswith("kernels.reference.")
    measured = operators()[name]
    assert measured.dtypes == op.dtypes
    assert set(op.dtypes) <= {"fp32", "bf16"}
    assert measured.shapes


def test_the_package_offers_the_operators_and_what_is_in_use() -> None:
    assert set(kernels.__all__) == {*kernels.OPERATORS, "capabilities"}
    assert set(kernels.__all__) <= set(dir(kernels))
    assert "nms" in kernels.OPERATORS


def test_no_operator_hides_a_module() -> None:
    folder = Path(kernels.__file__).parent
    modules = {path.stem for path in folder.iterdir()}
    assert modules.isdisjoint(kernels.OPERATORS)


def test_the_sanitizers_see_every_function_of_the_library() -> None:
    called = set[str]()

    def call(name: str, *arguments: object, element: str = "f32") -> int | None:
        called.add(name)
        return None

    for step in STEPS:
        step(call, "f32", 0)
    assert called == exported()
