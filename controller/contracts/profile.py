"""What of a profile goes to the store, to metrics and to tables: a summary."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.base import Contract, Scalar


class TopPrimitive(Contract):
    """All primitives of one kind and direction, per training step."""

    primitive: str
    direction: str
    """FWD_D, FWD_I, BWD_D, BWD_W as benchdnn has them; empty for what has none."""
    calls: float
    seconds: float
    share: float
    """Of the seconds of all primitives."""
    efficiency: float | None = None
    """Replayed alone over measured; None if none of it was replayed."""


class PeaksRequest(Contract):
    """Which peaks of this machine to return."""

    home: Path
    """BENCHFARM_HOME."""
    stack: str
    knobs: dict[str, Scalar]
    """Launch settings."""
    again: bool
    """Whether to measure again what is known."""


class Peaks(Contract):
    """What a machine can do at best, as measured: the roofs of its roofline."""

    gemm_flops: dict[str, float]
    """Floating-point operations a second of the fastest matrix product found, by data type."""
    copy_bytes: float
    """Bytes a second read and written by a copy of more than the caches hold."""


class ProfileSummary(Contract):
    """What a profile comes to; seconds are those of one training step."""

    steps: int
    """How many were profiled."""
    step_s: float | None = None
    """Median of the plain run: the truth for time."""
    traced_step_s: float | None = None
    """Median under torch.profiler."""
    verbose_step_s: float | None = None
    """Median under oneDNN's verbose mode, with ops recorded beside."""
    explained: float | None = None
    """Share of the traced steps' time that named operations spent."""
    onednn_s: float | None = None
    matched: float | None = None
    """Share of the primitives' time that is matched to an op and a module."""
    efficiency: float | None = None
    """Seconds of what was replayed, alone over measured."""
    replayed: float | None = None
    """Share of the seconds of primitives, and of matrix products elsewhere, that was replayed."""
    headroom_s: float | None = None
    """Above what the roofline allows, over all that it knows of."""
    peaks: Peaks | None = None
    libraries: tuple[str, ...] = ()
    """Versions of oneDNN."""
    isa: str | None = None
    skipped: int = 0
    """Lines or events that could not be read."""
    example: str | None = None
    """The first of them."""
    notes: tuple[str, ...] = ()
    top: tuple[TopPrimitive, ...] = ()
    """Largest first."""
