"""The peak rates of a machine: what was measured of them, and the ones that count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from controller.contracts.base import Contract, Scalar

COPY = "copy"
"""Name of the rate of copying, beside the data types that name rates of matrix products."""
UPDATE = "update"
"""Name of the rate of a fused optimizer's update, the fastest way to change tensors in place."""
MOVING = (COPY, UPDATE)
"""Rates of bytes; all others are of floating-point operations."""
BEYOND_CACHES = 256 * 2**20
"""Fewest bytes of each array that is copied or updated: more than caches of most machines hold."""
PerSecond = Annotated[float, Field(ge=1, le=1e30, allow_inf_nan=False)]
"""Floating-point operations a second of a data type; of MOVING, bytes read and written a second."""


class PeaksRequest(Contract):
    """Which peaks of this machine to return."""

    home: Path
    """BENCHFARM_HOME."""
    stack: str
    knobs: dict[str, Scalar]
    """Launch settings."""
    again: bool
    """Whether to measure again what is known."""


class Rate(Contract):
    """The rate of a matrix product, a copy or an update in several runs."""

    best: PerSecond
    median: PerSecond
    runs: Annotated[int, Field(ge=1)]
    array_bytes: Annotated[int, Field(ge=1)] | None = None
    """Of MOVING: bytes of each array, of which one with fewer may be in caches. None of a matrix
    product, and of those of earlier releases, which had BEYOND_CACHES."""

    @property
    def beyond(self) -> int:
        """The bytes that an array has to have to be measured like this one."""
        return BEYOND_CACHES if self.array_bytes is None else self.array_bytes


RATES: TypeAdapter[dict[str, Rate]] = TypeAdapter(dict[str, Rate])
"""What a worker writes: rates by data type, and MOVING."""


class MeasuredPeaks(Contract):
    """One measurement of rates on a quiet machine; the ones that stacks and dates have differ."""

    rates: Annotated[dict[str, Rate], Field(min_length=1)]
    """By data type, and MOVING."""
    stack: str
    date: str | None
    """ISO 8601, UTC."""
    knobs: dict[str, Scalar] = {}
    """Launch settings."""
    conditions: dict[str, Scalar | tuple[Scalar, ...] | None] = {}
    """What the worker tells of itself and of the machine: cores that others used, steal …"""
    primitive: str | None = None
    """What was faster than the peak in a profile: a primitive, or an update's kernel."""
    run: str | None = None
    """The run that was profiled then."""

    @property
    def source(self) -> str:
        """What measured it."""
        if self.primitive is None:
            return f"stack {self.stack}"
        kind = "kernel" if UPDATE in self.rates else "primitive"
        return f"{kind} {self.primitive} of run {self.run}, stack {self.stack}"


class Roof(Rate):
    """A rate that counts as the machine's peak, and where it is from."""

    source: str
    date: str | None


class Peaks(Contract):
    """The peak rates of a machine, over its stacks and over time: the roofs of its roofline."""

    gemm_flops: dict[str, PerSecond]
    """Data type → floating-point operations a second of the fastest matrix product found."""
    copy_bytes: PerSecond
    """Bytes a second, read and written, of a copy larger than the caches."""
    update_bytes: PerSecond | None = None
    """The same of an update; None in those of earlier releases."""
    measured_at: str | None = None
    """Date (ISO 8601, UTC) of the newest of these; None in those of earlier releases."""
    roofs: dict[str, Roof] = {}
    """By data type, and MOVING: where each is from; empty in those of earlier releases."""
