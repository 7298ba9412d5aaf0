"""The summary of a profile, for the store, metrics and tables."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.base import Contract, Scalar


class TopPrimitive(Contract):
    """All primitives of one kind and direction, per training step."""

    primitive: str
    direction: str
    """FWD_D, FWD_I, BWD_D or BWD_W, as in benchdnn; empty for a primitive without a direction."""
    calls: float
    seconds: float
    share: float
    """Share of the time of all primitives."""
    efficiency: float | None = None
    """Time when replayed alone / measured time; None if nothing of it was replayed."""


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
    """The peak rates of a machine as measured: the roofs of its roofline."""

    gemm_flops: dict[str, float]
    """Data type → floating-point operations a second of the fastest matrix product found."""
    copy_bytes: float
    """Bytes a second, read and written, of a copy larger than the caches."""


class ProfileSummary(Contract):
    """The summary of a profile; times are seconds of one training step."""

    steps: int
    """Number of profiled steps."""
    step_s: float | None = None
    """Median of the plain run, the reference for time."""
    traced_step_s: float | None = None
    """Median under torch.profiler."""
    verbose_step_s: float | None = None
    """Median under oneDNN's verbose mode, while ops are recorded."""
    explained: float | None = None
    """Share of the traced steps' time that is spent in named operations."""
    onednn_s: float | None = None
    matched: float | None = None
    """Share of the primitives' time that is matched to an op and a module."""
    efficiency: float | None = None
    """Time when replayed alone / measured time, of all that was replayed."""
    replayed: float | None = None
    """Share of the time of primitives and other matrix products that was replayed."""
    headroom_s: float | None = None
    """Time beyond the roofline's bound, over all operations with a known bound."""
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
    """The largest first."""
