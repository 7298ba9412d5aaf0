"""Transposition of a gradient of RetinaNet's heads, at 256 px, batch 2."""

from __future__ import annotations

from functools import partial

from kernels.bench.case import Case, Operator, bytes_of, differ
from kernels.bench.inputs import CELLS, IMAGES, some_numbers
from kernels.ops.transpose import OP, transpose

OUT = 9 * 264


def case(dtype: str, shape: str) -> Case:
    """Return the case of transpose; results must equal the reference's exactly."""
    x = some_numbers(dtype, IMAGES * CELLS, OUT)
    return Case(
        shape=shape,
        kernel=partial(transpose, x),
        baselines={"eager": lambda: x.t().contiguous()},
        moved_bytes=2 * bytes_of(x),
        largest_bytes=bytes_of(x),
        objections=lambda: differ("transpose", transpose(x), x.t(), 0),
    )


OPERATOR = Operator(OP.dtypes, (f"{IMAGES * CELLS}x{OUT}",), case)
