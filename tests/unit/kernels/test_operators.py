"""Every operator of kernels/ops has its record, its case and its steps for the sanitizers."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import kernels
from kernels import build
from kernels.bench.registry import operators
from kernels.op import Op
from tests.support.sanitized import __file__ as sanitized
from tests.support.sanitized.exported import exported


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
    """That they are really called is seen by tests/support/sanitized when it has run them all."""
    text = "".join(path.read_text() for path in Path(sanitized).parent.glob("*.py"))
    assert set(re.findall(r"\bcall\(\s*\"(\w+)\"", text)) == exported(build.LIBRARY)
