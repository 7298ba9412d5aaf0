"""Requests of `benchfarm kernels` to the agents' side, and the answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.contracts.base import Contract
from controller.contracts.result import Validity

Direction = Literal["both", "forward", "backward"]
"""What is timed of an operator: all of its passes together, or one alone."""

BEST_VARIANT = "best"
"""Stands for the best variant that the host's CPU can run."""


class KernelBench(Contract):
    """The operators, dtypes and variants to check, measure or list."""

    verb: Literal["check", "bench", "sweep"]
    operators: tuple[str, ...] = ()
    """Empty: all operators."""
    dtypes: tuple[str, ...] = ()
    """Empty: all dtypes of an operator."""
    variants: tuple[str, ...] = ()
    """Empty: all variants that this CPU can run."""
    width: float = Field(gt=0)
    """See `benchfarm compare --width`."""
    time_limit_s: float = Field(gt=0)
    """Of one draw of one comparison."""
    policy: str
    """Name of the policy that says when a draw was disturbed."""
    direction: Direction = "both"
    against: str | None = None
    """Implementation to compare with in place of the baselines, as `kernels.bench.comparator.load`
    takes it."""


class KernelOperator(Contract):
    """An operator and the dtypes that it is compiled for."""

    op: str
    dtypes: tuple[str, ...]


class KernelCheck(Contract):
    """Whether an operator computes the same as its reference."""

    op: str
    dtype: str
    shape: str
    variant: str
    objections: tuple[str, ...]


class KernelFigures(Contract):
    """What is measured of an operator and a baseline; times are those of the row's direction."""

    ratio: float
    """How many times faster the kernel is."""
    gbps: float
    """bytes / the kernel's median time, in 10⁹ bytes a second."""
    copy_gbps: float
    """The same for a copy that reads and writes as many bytes together, before and after: what code
    limited by memory can reach."""
    baseline_gbps: float
    """The same for the baseline: bytes over its median time, whatever it moves beyond them."""
    matmul_gflops: float
    """10⁹ operations a second of a square fp32 product: what code limited by arithmetic depends
    on."""
    p20_s: float
    p50_s: float
    p80_s: float
    baseline_p20_s: float
    baseline_p50_s: float
    baseline_p80_s: float
    memory_bytes: int
    """Increase of the process's resident memory during one run of the kernel, results included;
    of both passes, whatever the direction."""
    baseline_memory_bytes: int
    memory_share: float
    """memory_bytes / size of the largest input."""


class KernelDraw(KernelFigures):
    """One measurement of a row, and what the machine could do at that minute."""

    measured_at: AwareDatetime
    ratios: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1)
    """How many times faster the kernel was, in each steady pair."""
    validity: Validity
    """Whether the machine was quiet by its policy; INVALID where the policy enforces that."""
    reasons: tuple[str, ...]
    """Why it is not VALID."""


class KernelPairing(Contract):
    """What is compared with what, and with which settings: all draws of a row agree in it."""

    op: str
    dtype: str
    shape: str
    variant: str
    """The variant that ran; `reference` where nothing is compiled."""
    library: str
    """Hash of the compiled library's sources."""
    baseline: str
    baseline_digest: str | None
    """Hash of the file of a user's implementation; None for baselines of ours."""
    direction: Direction = "both"
    bytes: int
    """Bytes that any implementation has to move: inputs read once, results written once."""
    threads: int
    torch: str
    malloc: str
    """Settings of malloc, equal for both sides."""
    cpu: str
    """The processor's model."""


class KernelRow(KernelFigures, KernelPairing):
    """One operator against one baseline; figures are medians over the draws that count."""

    ratio_low: float | None
    """Lower end of the ratio's 95 % interval. None if there are too few pairs for one."""
    ratio_high: float | None
    pairs: int
    draws: tuple[KernelDraw, ...] = Field(min_length=1)
    """What it is made from, oldest first."""
