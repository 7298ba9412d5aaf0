"""Passes of a profile that are run again: a moment of other load shall not cost minutes of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from controller.contracts.result import Result
from controller.profiles.model import Profile
from controller.profiles.validity import are_apart, unlikely

MOST_RUNS = 3
"""Runs of one pass."""
Found = TypeVar("Found")


async def repeated(
    run: Callable[[], Awaitable[Found]], is_good: Callable[[Found], bool]
) -> tuple[Found, int]:
    """Run until what is found is good, or for the last time; return it, and how often it ran."""
    for number in range(1, MOST_RUNS):
        found = await run()
        if is_good(found):
            return found, number
    return await run(), MOST_RUNS


def are_alike(watched: Result) -> bool:
    """Return whether all watched steps are the same step."""
    return not are_apart(watched.metrics["step_time"].samples)


def is_likely(replayed: tuple[Profile, Result]) -> bool:
    """Return whether replays took no longer than the step that they are parts of."""
    return not any(unlikely(replayed[0].summary))


def repeats_told(**runs: int) -> Iterator[str]:
    """Yield a note for each pass that ran more than once."""
    for name, count in runs.items():
        if count > 1:
            why = "since its times were uneven; the last counts"
            yield f"the {name} run was done {count} times, {why}"
