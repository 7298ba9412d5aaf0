"""One operator as a workload."""

from __future__ import annotations

import os

from kernels.bench.case import Case
from kernels.bench.registry import operator
from kernels.library import VARIABLE, Capabilities, KernelsUnusable, capabilities


class KernelWorkload:
    """An operator, a dtype and a variant; its case is made when it is asked for.

    Args:
        op: name of the operator.
        dtype: fp32 or bf16.
        variant: what BENCHFARM_KERNELS may name, or `best`. Set for the whole process, which runs
            nothing else.

    Raises:
        KernelsUnusable: the CPU can't run the variant, or the operator doesn't have the dtype.
    """

    def __init__(self, op: str, dtype: str, variant: str) -> None:
        measured = operator(op)
        if dtype not in measured.dtypes:
            raise KernelsUnusable(
                f"{op} has no dtype {dtype}: choose among {', '.join(measured.dtypes)}"
            )
        if variant != "best":
            os.environ[VARIABLE] = variant
        self.op, self.dtype = op, dtype
        self.in_use: Capabilities = capabilities()
        self._operator = measured

    def case(self) -> Case:
        """Return the operator on its usual inputs."""
        return self._operator.case(self.dtype, self._operator.shapes[0])
