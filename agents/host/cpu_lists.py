"""Lists of CPUs as the kernel and numactl write them. The standard library only, since runners on
devices have it, too."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

MOST_CPUS = 65536
"""More than any kernel supports; bounds the memory for a list written by a user."""


def parse_cpus(text: str) -> frozenset[int]:
    """Parse a list of CPUs such as `0-3,8`; raises ValueError, also beyond MOST_CPUS."""
    spans = [_span(part) for part in text.strip().split(",")]
    if sum(map(len, spans)) > MOST_CPUS:
        raise ValueError(f"more than {MOST_CPUS} CPUs")
    return frozenset(chain.from_iterable(spans))


def format_cpus(cpus: Iterable[int]) -> str:
    """Return CPUs in the format of numactl and taskset."""
    return ",".join(map(str, sorted(cpus)))


def format_ranges(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes them, in ranges, which many CPUs take little room in."""
    spans: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], cpu
        else:
            spans.append((cpu, cpu))
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in spans)


def _span(part: str) -> range:
    first, dash, last = part.partition("-")
    low, high = int(first), int(last if dash else first)
    if not 0 <= low <= high < MOST_CPUS:
        raise ValueError(f"{part!r} is not a range of CPUs")
    return range(low, high + 1)
