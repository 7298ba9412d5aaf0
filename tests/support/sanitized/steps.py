"""The steps of all operators: `STEPS` of tests/support/sanitized/NAME.py, where there is one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from kernels import OPERATORS
from tests.support.sanitized.inputs import Step

STEPS: tuple[Step, ...] = tuple(
    step
    for name in OPERATORS
    if Path(__file__).with_name(f"{name}.py").exists()
    for step in import_module(f"tests.support.sanitized.{name}").STEPS
)
