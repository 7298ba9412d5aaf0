"""Facts of which it is known which way they act: words that order speeds, and numbers of threads.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.explanation import Cause, FactChange, FactValue
from controller.contracts.result import Environment

_FASTEST: Final = "performance"
_SCREEN: Final = {"Asleep": 0, "Dozing": 0, "Dreaming": 1, "Awake": 1}
"""mWakefulness of Android → whether the screen takes power and time."""
_PHASES: Final = ("", "_before", "_after")

Rank = Callable[[FactValue], tuple[int, int] | None]
"""Returns between which ranks a value is; a larger one makes a run faster. None: not known."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What bounds the threads that help."""

    processors: int | None
    """Logical processors that the process may use; None if no fact says it."""


def machine_of(now: Environment) -> Machine:
    """Return what a run says of its processors."""
    affinity = now.get("affinity")
    if isinstance(affinity, tuple) and affinity:
        return Machine(len(affinity))
    known = (now.get(name) for name in ("logical_cpus", "cores"))
    counts = (one for one in known if isinstance(one, int) and not isinstance(one, bool))
    return Machine(next(counts, None))


def acting(
    told: Mapping[Cause, Sequence[FactChange]], *, slower: bool, machine: Machine
) -> dict[Cause, list[FactChange]]:
    """Return the changes that can have made a run slower, or faster: all whose way is not known,
    and those that act this way."""
    kept = {
        cause: [one for one in of if slows(one, machine) in (None, slower)]
        for cause, of in told.items()
    }
    return {cause: of for cause, of in kept.items() if of}


def slows(change: FactChange, machine: Machine) -> bool | None:
    """Return whether a change can only make a run slower (True) or faster (False).

    None: it can do either. Facts of a side of a comparison have a prefix, and no known way: a
    slower side B makes the ratio smaller.
    """
    rank = _RANKS.get(change.fact)
    if rank is None:
        return None
    before, now = [rank(value) for value in change.before], rank(change.now)
    if now is None or None in before:
        return None
    if change.fact == "threads" and _too_many(change, machine):
        return None
    known = [one for one in before if one is not None]
    lowest, highest = min(low for low, _ in known), max(high for _, high in known)
    if now[0] >= highest and now[1] > lowest:
        return False
    return True if now[1] <= lowest and now[0] < highest else None


def _too_many(change: FactChange, machine: Machine) -> bool:
    """Return whether now or before more threads ran than there are processors for.

    Then fewer of them may be faster.
    """
    counts = [value for value in (*change.before, change.now) if isinstance(value, int)]
    return machine.processors is not None and max(counts) > machine.processors


def _governor(value: FactValue) -> tuple[int, int] | None:
    """Rank a governor, or a phone's several: none is faster than `performance`.

    Which of the others is faster depends on the driver: Intel's `powersave` follows the load.
    """
    words = value.split() if isinstance(value, str) else []
    ranks = [int(word == _FASTEST) for word in words]
    return (min(ranks), max(ranks)) if ranks else None


def _screen(value: FactValue) -> tuple[int, int] | None:
    known = _SCREEN.get(value) if isinstance(value, str) else None
    return None if known is None else (-known, -known)


def _flag(value: FactValue) -> tuple[int, int] | None:
    return (int(value), int(value)) if isinstance(value, bool) else None


def _unless(value: FactValue) -> tuple[int, int] | None:
    return (-int(value), -int(value)) if isinstance(value, bool) else None


def _count(value: FactValue) -> tuple[int, int] | None:
    if isinstance(value, bool) or not isinstance(value, int | tuple):
        return None
    count = len(value) if isinstance(value, tuple) else value
    return count, count


_RANKS: Final[Mapping[str, Rank]] = {
    "threads": _count,
    "affinity": _count,
    "emulated": _unless,
    **{f"governor{phase}": _governor for phase in _PHASES},
    **{f"screen{phase}": _screen for phase in _PHASES},
    # Without a network, an idle phone has less to do.
    **{f"airplane_mode{phase}": _flag for phase in _PHASES},
}
