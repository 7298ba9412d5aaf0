"""The benchmarks of all operators of kernels/ops, from kernels/bench/NAME.py."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from kernels import OPERATORS
from kernels.bench.case import Operator


def operators() -> Mapping[str, Operator]:
    """Return all operators by name."""
    return {name: operator(name) for name in OPERATORS}


def operator(name: str) -> Operator:
    """Return the benchmarks of one operator."""
    found: Operator = import_module(f"kernels.bench.{name}").OPERATOR
    return found
