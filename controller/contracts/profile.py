"""The summary of a profile, for the store, metrics and tables."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from controller.contracts.base import Contract, Scalar
from controller.contracts.counters import LEAST, MOST, Counters
from controller.contracts.peaks import Peaks
from controller.contracts.topdown import TopDown


def _not_tiny(value: float) -> float:
    if 0 < value < LEAST:
        raise ValueError(f"it should be 0, or {LEAST} at least")
    return value


NotNegative = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False), AfterValidator(_not_tiny)]


class TopPrimitive(Contract):
    """All primitives of one kind and direction, per training step."""

    primitive: str
    direction: str
    """FWD_D, FWD_I, BWD_D or BWD_W, as in benchdnn; empty for a primitive without a direction."""
    calls: float
    seconds: NotNegative
    share: float
    """Share of the time of all primitives."""
    efficiency: float | None = None
    """Time when replayed alone / measured time; None if nothing of it was replayed."""


class Creation(Contract):
    """Creations of primitives that a log tells of: of all of it, not of a step."""

    kind: str
    """`cache_miss`, `cache_hit` …; empty in logs of early releases."""
    calls: int
    seconds: NotNegative


class ProfileOrigin(Contract):
    """What was profiled, where, when and under which conditions; None: nothing tells."""

    file: str | None = None
    """Name of the file it was imported from; None if it was measured here."""
    workload: str | None = None
    stack: str | None = None
    device: str | None = None
    date: str | None = None
    """When its steps were timed, or its trace or log began; ISO 8601, UTC."""
    threads: int | None = None
    knobs: dict[str, Scalar] | None = None
    """All of the cell's."""
    environment: dict[str, Scalar | tuple[Scalar, ...] | None] = {}
    """Facts of the device and of the worker that timed the steps: CPU, versions, malloc …"""


class ProfileSummary(Contract):
    """What a profile comes to; seconds are those of one training step, if steps are known."""

    validity: Literal["VALID", "DISTURBED", "INVALID"] = "VALID"
    """DISTURBED: a run of it was measured while the machine was not quiet."""
    reasons: tuple[str, ...] = ()
    """Why it is not VALID; none if it is."""
    origin: ProfileOrigin | None = None
    """None in those of earlier releases."""
    steps: int | None
    """How many were profiled; None if nothing tells steps apart: figures are those of all."""
    step_s: NotNegative | None = None
    """Median of the plain run, the reference for time."""
    traced_step_s: NotNegative | None = None
    """Median under torch.profiler, as measured; of an imported trace, the mean."""
    verbose_step_s: NotNegative | None = None
    """Median under oneDNN's verbose mode, with ops recorded beside, as measured."""
    scale: NotNegative | None = None
    """What all times of ops, kernels and primitives are multiplied by: the plain step over the
    mean of the steps they were watched in; of a log that was replayed, its median step over its
    mean. None: they are as they were watched."""
    op_threads: int = 1
    """Threads that ran ops; of several, times are sums over threads, which may exceed a step."""
    explained: float | None = None
    """Share of the watched steps' time that named operations spent."""
    waiting_s: NotNegative | None = None
    """Spent in calls that wait, for a GPU or another thread; in no op."""
    load_s: NotNegative | None = None
    """Loading a batch, where that is no part of the timed step; as watched."""
    onednn_s: NotNegative | None = None
    onednn_median: NotNegative | None = None
    """Of the watched steps, the median one's time in primitives over the mean one's; None of
    imported files and earlier releases."""
    matched: float | None = None
    """Share of the primitives' time that is matched to an op and a module."""
    efficiency: float | None = None
    """Time when replayed alone / measured time, of all that was replayed."""
    efficiency_low: float | None = None
    """Bounds of the efficiency, from the 95 % intervals of the replays and of the steps' medians;
    None if a run has a single step."""
    efficiency_high: float | None = None
    replayed: float | None = None
    """Share of the time of primitives and other matrix products that was replayed."""
    headroom_s: NotNegative | None = None
    """Time beyond the roofline's bound, over all operations with a known bound."""
    peaks: Peaks | None = None
    topdown: TopDown | None = None
    """What hardware counters said of the same work, measured here or added."""
    counters: Counters | None = None
    """What was counted in each phase; None of imported files and earlier releases."""
    libraries: tuple[str, ...] = ()
    """Versions of oneDNN."""
    isa: str | None = None
    created: tuple[Creation, ...] = ()
    """Largest first; their time is in no other figure."""
    left_out: dict[str, int] = {}
    """Category → events of a trace that are not CPU ops, such as a GPU's kernels."""
    skipped: int = 0
    """Lines or events that could not be read."""
    example: str | None = None
    """The first of them."""
    notes: tuple[str, ...] = ()
    top: tuple[TopPrimitive, ...] = ()
    """The largest first."""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.validity != "VALID") != bool(self.reasons):
            raise ValueError("a profile is not VALID if, and only if, it says why")
        return self
