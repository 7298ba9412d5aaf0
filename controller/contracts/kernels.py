"""What `benchfarm kernels` asks of the agents' side, and what it is told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.contracts.base import Contract

BEST_VARIANT = "best"
"""The best variant that a host's CPU can run."""


class KernelBench(Contract):
    """What to check, to measure, or to list."""

    verb: Literal["check", "bench", "sweep"]
    operators: tuple[str, ...] = ()
    """All of them if empty."""
    dtypes: tuple[str, ...] = ()
    """All that an operator has if empty."""
    variants: tuple[str, ...] = ()
    """All that this CPU can run if empty."""
    width: float = Field(gt=0)
    """As in `benchfarm compare`."""
    time_limit_s: float = Field(gt=0)
    """Of one draw of one comparison."""


class KernelOperator(Contract):
    """An operator there is, and the dtypes it runs compiled for."""

    op: str
    dtypes: tuple[str, ...]


class KernelCheck(Contract):
    """Whether one operator computes what the reference does."""

    op: str
    dtype: str
    shape: str
    variant: str
    objections: tuple[str, ...]


class KernelDraw(Contract):
    """One measurement of a row, and what the machine could do at that minute."""

    measured_at: AwareDatetime
    ratios: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1)
    """How many times faster the kernel was, in each steady pair."""
    ratio: float
    copy_gbps: float
    """As in KernelRow: what code limited by memory can reach."""
    matmul_gflops: float
    """10⁹ operations a second of a square fp32 product: what code limited by arithmetic depends
    on."""


class KernelRow(Contract):
    """One operator against one baseline; times are of forward and backward together."""

    op: str
    dtype: str
    shape: str
    variant: str
    """What ran; `reference` where nothing is compiled."""
    baseline: str
    ratio: float
    """How many times the kernel is faster; the interval is the 95 % one."""
    ratio_low: float | None
    """None: too few pairs for an interval."""
    ratio_high: float | None
    pairs: int
    bytes: int
    """What no implementation can do without: inputs read once, results written once."""
    gbps: float
    """bytes over the kernel's median time, in 10⁹ bytes a second."""
    copy_gbps: float
    """The same for a copy that reads and writes as many bytes together, before and after."""
    baseline_gbps: float
    """The same for the baseline: bytes over its median time, whatever it moves beyond them."""
    matmul_gflops: float
    """As in KernelDraw."""
    p20_s: float
    p50_s: float
    p80_s: float
    baseline_p20_s: float
    baseline_p50_s: float
    baseline_p80_s: float
    memory_bytes: int
    """How far one run of the kernel raises the process's resident memory, results included."""
    baseline_memory_bytes: int
    memory_share: float
    """memory_bytes over the size of the largest input."""
    threads: int
    torch: str
    malloc: str
    """Settings of malloc, the same for both sides."""
    cpu: str
    """The processor's model."""
    draws: tuple[KernelDraw, ...] = Field(min_length=1)
    """What it is made from, oldest first; with several, the other figures are medians over them."""
