"""What two profiles differ in: A and B, in this order."""

from __future__ import annotations

from enum import StrEnum

from controller.contracts.base import Contract, Scalar


class ChangeKind(StrEnum):
    """What makes the time of an operation differ; of several, the first."""

    ONLY_A = "only in A"
    ONLY_B = "only in B"
    DATA_TYPE = "data type"
    SHAPES = "shapes"
    CALLS = "calls"
    REORDERS = "reorders"
    """oneDNN's reorders inside the operation: other ones, or more or fewer of them."""
    COPIES = "copies"
    """Copies inside the operation, into another layout or type: other ones, or more or fewer."""
    IMPLEMENTATION = "implementation"
    LAYOUT = "layout"
    SAME_WORK = "same work"
    """Nothing differs but the time."""


class Change(Contract):
    """One kind of change of one operation in one phase, over all modules that have it.

    Seconds are those of a step, if steps are known. Every second of both profiles is in exactly
    one change, so that the changes add up to the difference of the steps; of ops on several
    threads, to that of the sums over threads.
    """

    kind: ChangeKind
    phase: str
    op: str
    """The operation in A, or the only one; of a log without operations, the primitive."""
    op_b: str | None = None
    """The operation that does the same in B, if it is another one."""
    detail: str = ""
    """What it was in A and is in B, such as `bf16 → f32`; of several, where most time goes. Of
    calls, the work inside whose number differs most, such as `convolution BWD_D 0 → 2`; empty if
    that is the operation itself. Of the same work, the machine's own speed, if it was another."""
    modules: tuple[str, ...] = ()
    calls: tuple[float, float]
    seconds: tuple[float, float]
    resolved: bool
    """Whether the difference is larger than what two profiles of the same differ by; of the same
    work, beside what all of it took longer, see `ProfileDiff.same_work_times`."""

    @property
    def difference_s(self) -> float:
        """Seconds that B takes more than A."""
        return self.seconds[1] - self.seconds[0]


class Condition(Contract):
    """A condition that was another one; None: nothing tells.

    Of the fact `settings`, only the variables that differ by themselves, and not by a knob.
    """

    name: str
    a: Scalar | tuple[Scalar, ...] | None
    b: Scalar | tuple[Scalar, ...] | None


class Ratio(Contract):
    """Time of a phase or module in A and B, seconds."""

    name: str
    seconds: tuple[float, float]


class ProfileDiff(Contract):
    """The differences of two profiles; seconds are those of a step, if steps are known."""

    per_step: bool
    seconds: tuple[float, float]
    """The step of each as timed, else as traced; of a log, and of what is compared with one, what
    its primitives come to."""
    resolved: bool
    """Whether two profiles of the same thing would differ by less."""
    validity: tuple[str, str]
    load_s: tuple[float | None, float | None] = (None, None)
    """Loading a batch, which is no part of the step; None: nothing tells."""
    load_resolved: bool = False
    conditions: tuple[Condition, ...] = ()
    conditions_known: bool = False
    """Whether both tell their conditions, so that those that are not listed were equal."""
    matmul_gflops: tuple[float | None, float | None] = (None, None)
    """Rates of a matrix product just before and after the timed steps, of the machine alone."""
    same_work_times: float = 1.0
    """How many times as long all of the same work took in B, by the machine's own speed."""
    changes: tuple[Change, ...] = ()
    """Largest difference first."""
    phases: tuple[Ratio, ...] = ()
    modules: tuple[Ratio, ...] = ()
    notes: tuple[str, ...] = ()
