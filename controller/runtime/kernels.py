"""Checks and benchmarks of kernels, in a process of the agents' side."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.kernels import KernelBench, KernelCheck, KernelOperator, KernelRow
from controller.platform.helper import Helper
from controller.platform.programs import python_module

_ANSWERS: dict[str, type[KernelCheck | KernelRow | KernelOperator]] = {
    "check": KernelCheck,
    "bench": KernelRow,
    "sweep": KernelOperator,
}


def run_kernels(wanted: KernelBench) -> Iterator[KernelCheck | KernelRow | KernelOperator]:
    """Yield each check and row as it is done; raises UserError if it cannot run here."""
    helper = Helper(python_module("agents.kernel_bench"), f"run kernels {wanted.verb}")
    yield from helper.stream(wanted, _ANSWERS[wanted.verb])
