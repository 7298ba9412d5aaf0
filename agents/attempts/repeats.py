"""Passes of a profile that are run again: a moment of other load shall not cost minutes of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

from agents.profiling.windows import WINDOWS
from controller.contracts.result import Result, Validity
from controller.profiles.model import Profile
from controller.profiles.validity import unlikely

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


def is_likely(replayed: tuple[Profile, Result]) -> bool:
    """Return whether replays took no longer than their step, or could: others used the machine."""
    profile, result = replayed
    return result.validity is not Validity.VALID or not any(unlikely(profile.summary))


def repeats_told(watched: Mapping[str, Result], rounds: int, replays: int) -> Iterator[str]:
    """Yield a note for each pass that watched more than one window, or ran more than once."""
    if rounds > 1:
        yield (
            f"the job was timed and watched {rounds} times, since its steps were not alike on a "
            "machine that seemed quiet; the last time counts"
        )
    for name, result in watched.items():
        count = result.environment.get(WINDOWS)
        if isinstance(count, int) and count > 1:
            yield (
                f"the {name} run watched {count} windows of steps, since times were uneven; the "
                "most even counts"
            )
    if replays > 1:
        yield (
            f"the replay run was done {replays} times, since it took longer than the step; the "
            "last counts"
        )
