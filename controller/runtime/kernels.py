"""Checks and benchmarks of kernels, in a process of the agents' side."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from pydantic import TypeAdapter

from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import UserError
from controller.contracts.kernels import KernelBench, KernelCheck, KernelOperator, KernelRow
from controller.platform.programs import python_module

_SAID: TypeAdapter[KernelCheck | KernelRow | KernelOperator | ErrorPayload] = TypeAdapter(
    KernelCheck | KernelRow | KernelOperator | ErrorPayload
)


def run_kernels(wanted: KernelBench) -> Iterator[KernelCheck | KernelRow | KernelOperator]:
    """Yield each check and row as it is done; raises UserError if it cannot run here."""
    command = python_module("agents.kernel_bench", wanted.model_dump_json())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            said = _SAID.validate_json(line)
            if isinstance(said, ErrorPayload):
                raise said.error()
            yield said
    if process.returncode != 0:
        seen = f"its process ended with status {process.returncode}"
        raise UserError(f"run kernels {wanted.verb}", seen, "See its output above.")
