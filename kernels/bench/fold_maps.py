"""The gradient of neighbourhoods in RetinaNet's heads, at 256 px, batch 2."""

from __future__ import annotations

from functools import partial

from kernels.bench.case import Case, Operator, bytes_of, compiled, differ
from kernels.bench.inputs import CELLS, CHANNELS, FOLD_ERROR, IMAGES, MAPS, some_numbers
from kernels.common.maps import TAPS
from kernels.ops.fold_maps import OP, fold_maps
from kernels.reference.unfold import fold_maps as plain


def case(dtype: str, shape: str) -> Case:
    """Return the case of fold_maps: nine shifted sums."""
    neighbours = some_numbers(dtype, IMAGES, CELLS, TAPS, CHANNELS)
    return Case(
        shape=shape,
        kernel=partial(fold_maps, neighbours, MAPS),
        baselines={
            "eager": partial(plain, neighbours, MAPS),
            "compile": partial(compiled(plain), neighbours, MAPS),
        },
        moved_bytes=bytes_of(neighbours) * (TAPS + 1) // TAPS,
        largest_bytes=bytes_of(neighbours),
        objections=lambda: differ(
            "sums", fold_maps(neighbours, MAPS), plain(neighbours.double(), MAPS), FOLD_ERROR[dtype]
        ),
    )


OPERATOR = Operator(OP.dtypes, (f"{IMAGES}x{CELLS}x{TAPS}x{CHANNELS}",), case)
