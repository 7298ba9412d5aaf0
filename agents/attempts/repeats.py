"""Passes of a profile that are run again: a moment of other load shall not cost minutes of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from controller.contracts.result import Result, Validity
from controller.profiles.model import Profile
from controller.profiles.validity import are_apart, unlikely

MOST_RUNS = 3
"""Runs of one pass."""
Found = TypeVar("Found")


async def repeated(
    run: Callable[[], Awaitable[Found]], is_good: Callable[[Found], bool], most: int = MOST_RUNS
) -> tuple[Found, int]:
    """Run until what is found is good, or for the last time; return it, and how often it ran."""
    for number in range(1, most):
        found = await run()
        if is_good(found):
            return found, number
    return await run(), most


def is_even(watched: Result) -> bool:
    """Return whether all watched steps are the same step, or can't be: others used the machine."""
    disturbed = watched.validity is not Validity.VALID
    return disturbed or not are_apart(watched.metrics["step_time"].samples)


def is_likely(replayed: tuple[Profile, Result]) -> bool:
    """Return whether replays took no longer than their step, or could: others used the machine."""
    profile, result = replayed
    return result.validity is not Validity.VALID or not any(unlikely(profile.summary))


def repeats_told(**runs: int) -> Iterator[str]:
    """Yield a note for each pass that ran more than once."""
    for name, count in runs.items():
        if count > 1:
            uneven = "it took longer than the step" if name == "replay" else "its times were uneven"
            yield f"the {name} run was done {count} times, since {uneven}; the last counts"
