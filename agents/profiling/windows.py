"""Which of several windows of watched steps counts: a moment of other load shall not cost a run.

What disturbs one step is seen by no counter if it is a neighbour of a virtual machine, and all of
it lands in one kernel: a fifth of a step more in one of five is 4 points of that kernel's share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

MOST_WINDOWS: Final = 5
FEW_WINDOWS: Final = 2
"""Where others were seen while the job was timed: its profile can't be VALID, however many."""
EVEN: Final = 0.1
"""Steps of a quiet machine differ by less than this share."""
WINDOWS: Final = "watched_windows"
"""Fact of a watched run: how many windows there were."""
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Window(Generic[Kept]):
    """Some steps, in seconds, that were watched."""

    seconds: Sequence[float]
    disturbed: bool
    kept: Kept
    """What a result is made of."""

    @property
    def unevenness(self) -> tuple[bool, float]:
        """Its rank; less is better. An undisturbed window is better than any disturbed one."""
        return self.disturbed, max(self.seconds) / min(self.seconds)

    @property
    def is_even(self) -> bool:
        """Whether no other window is needed."""
        return self.unevenness <= (False, 1 + EVEN)


def most_even(
    watch: Callable[[], Window[Kept]], keep: Callable[[], None], most: int = MOST_WINDOWS
) -> tuple[Window[Kept], int]:
    """Watch windows until one is even, or for the last time; return the most even, and how many.

    keep: called after each window that is the best so far, to keep its files.
    """
    best, number = watch(), 1
    keep()
    while number < most and not best.is_even:
        found, number = watch(), number + 1
        if found.unevenness < best.unevenness:
            best = found
            keep()
    return best, number
