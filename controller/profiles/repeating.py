"""Whether a log is one sequence of executions over and over: then each repeat is a step. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

LEAST_REPEATS = 3
"""A step may hold two equal halves."""
LEAST_DISTINCT = 2
"""One primitive over and over is no step of a model."""
MOST_EXECUTIONS = 50_000_000
"""Of more, the order is not kept: four bytes each."""
_GLANCE = 4096
Numbers = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Repeats:
    """A sequence that a log consists of, whole."""

    executions: int
    """Of one repeat."""
    count: int
    in_order: bool = True
    """Whether each has the order of the first: threads that call oneDNN side by side change it."""


@dataclass(slots=True)
class Order:
    """Which primitive each execution of a log was of."""

    _numbers: dict[bytes, int] = field(default_factory=dict)
    _chunks: list[Numbers] = field(default_factory=list)
    _executions: int = 0

    def add(self, bodies: Sequence[bytes], which: npt.NDArray[np.intp]) -> None:
        """Take the next executions: which of some bodies each has."""
        self._executions += len(which)
        if self._executions > MOST_EXECUTIONS:
            self._chunks.clear()
            return
        numbers = [self._numbers.setdefault(body, len(self._numbers)) for body in bodies]
        if len(which):
            self._chunks.append(np.array(numbers, dtype=np.uint32)[which])

    def repeats(self) -> Repeats | None:
        """Return the shortest sequence that the log repeats from its first execution to its last,
        else the shortest whose executions are the same in any order.

        None if it does not, or too seldom to tell.
        """
        if not self._chunks or len(self._numbers) < LEAST_DISTINCT:
            return None
        order = np.concatenate(self._chunks)
        for length in _divisors(len(order)):
            if len(order) // length < LEAST_REPEATS:
                break
            if _repeats(order[: length + _GLANCE], length) and _repeats(order, length):
                return Repeats(length, len(order) // length)
        return _repeats_in_any_order(order)


def _repeats(order: Numbers, length: int) -> bool:
    return bool(np.array_equal(order[length:], order[:-length]))


def _repeats_in_any_order(order: Numbers) -> Repeats | None:
    """Return the shortest parts of equal length that have the same executions, as often."""
    most = int(np.gcd.reduce(np.bincount(order)))  # of parts: each has every primitive as often
    for count in reversed([*_divisors(most)]):
        if count < LEAST_REPEATS:
            break
        parts = order.reshape(count, -1)
        if np.array_equal(np.sort(parts[0]), np.sort(parts[1])):
            ordered = np.sort(parts, axis=1)
            if bool((ordered == ordered[0]).all()):
                return Repeats(len(order) // count, count, in_order=False)
    return None


def _divisors(number: int) -> Iterator[int]:
    """Yield the divisors of a number, smallest first."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    yield from small
    yield from (number // d for d in reversed(small) if d * d != number)
