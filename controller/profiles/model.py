"""The data model of a profile: kernels of framework ops, and their primitives."""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.profile import ProfileSummary

PARAMETERS = (
    *("mb", "g", "ic", "oc", "id", "ih", "iw", "od", "oh", "ow", "kd", "kh", "kw"),
    *("sd", "sh", "sw", "dd", "dh", "dw", "pd", "ph", "pw", "b", "m", "n", "k"),
)
"""Numbers of a problem with a column of their own, by oneDNN's names."""

LOAD = "load"
PHASES = (LOAD, "forward", "loss", "backward", "optimizer")
"""Phases of a training step, in their order."""


def phase_number(name: str) -> int:
    """Return a phase's place in the order of phases; what is no phase comes last."""
    return PHASES.index(name) if name in PHASES else len(PHASES)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a training step: phase, module, op and kernel."""

    phase: str = ""
    """One of PHASES; empty between them."""
    module: str = ""
    op: str = ""
    """The outermost operation of the framework; empty outside any, and while it waits."""
    kernel: str = ""
    """The operation that ran, which may be the outermost itself; without an op, what waits."""
    dims: str = ""
    """Sizes of its inputs as JSON; the next three are JSON, too."""
    strides: str = ""
    dtypes: str = ""
    values: str = ""
    """Inputs that are not tensors."""

    @property
    def waits(self) -> bool:
        """Whether the time here is spent waiting, for a GPU or another thread."""
        return bool(self.kernel) and not self.op


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Seconds of one call when replayed alone: the median and its 95 % interval."""

    seconds: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """A kernel at its place, in seconds of a step; a place without an op is time outside all
    ops."""

    place: Place
    calls: float
    """Calls in a step."""
    self_s: float
    total_s: float
    primitive_s: float = 0.0
    """Of its primitives: a part of `self_s`."""
    flops: float | None = None
    """FLOPs of one call, if the kernel is a matrix product, a convolution or attention."""
    bytes: float | None = None
    """Bytes of one call's inputs; a trace doesn't record outputs. None of views and gathers."""
    attainable_s: float | None = None
    """Least seconds of one call, by the roofline."""
    replay: Projection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveRow:
    """A primitive of one shape in the kernel at a place, in seconds of a step."""

    place: Place
    engine: str
    primitive: str
    implementation: str
    direction: str
    data_types: str
    dtype: str
    layout: str
    attributes: str
    post_ops: str
    algorithm: str
    problem: str
    parameters: dict[str, int]
    body: str
    """Its description in the log."""
    calls: float
    seconds: float
    least_s: float
    """Least seconds of one call."""
    flops: float | None
    bytes: float | None
    attainable_s: float | None = None
    kept: float = 1.0
    """Share of its time that is inside its kernel; the rest was cut off."""
    replay: Projection | None = None

    @property
    def kept_calls(self) -> float:
        """Calls in a step that take as long in whole as all of them after the cut: replays are of
        whole calls."""
        return self.calls * self.kept


@dataclass(frozen=True, slots=True)
class Span:
    """Something that ran in a watched step, in seconds as watched from the step's beginning."""

    kind: str
    """step, phase, module, region (autograd's nodes and the like), op, primitive or waiting."""
    name: str
    detail: str
    """Module and sizes, or a primitive's implementation and problem."""
    thread: int
    """Threads are numbered from 0, that of the step."""
    lane: int
    """How many spans are around it."""
    start_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile."""

    summary: ProfileSummary
    kernels: tuple[KernelRow, ...]
    primitives: tuple[PrimitiveRow, ...]
    timeline: tuple[Span, ...] = ()
    """The quickest watched step; none of logs, and of traces that mark no steps."""
